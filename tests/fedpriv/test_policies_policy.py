"""Policies: written, read, checked and applied."""

import pytest
import torch

from fedpriv.errors import BadData, BadOption
from fedpriv.policies import Policy, hybrid, random_policies
from fedpriv.policies.transforms import transformed
from fedpriv.rng import generator


@pytest.fixture
def x():
    return torch.randint(256, (12, 3, 16, 16), generator=generator(0, "x"), dtype=torch.uint8)


@pytest.mark.parametrize("text", ["3-1-7", "43-18-18", "3-1-7+43-18-18", "0", "7-3", "none"])
def test_what_is_read_is_written(text):
    assert str(Policy.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("3-1-50", "no transformation 50"),
        ("3-1-7+19-1-18", r"share transformation 1 \(contrast 6\)"),
        ("3-1-7-9", "at most 3"),
        ("3--1", "no policy"),
        ("", "no policy"),
        ("3-1-7+", "no policy"),
        ("shear", "like 3-1-7"),
    ],
)
def test_what_is_no_policy_says_why(text, says):
    with pytest.raises(BadOption, match=says):
        Policy.parse(text)


@pytest.mark.parametrize("options", [{"probability": 1.1}, {"enhancement": -0.1}, {"members": ()}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(BadOption):
        Policy(**options)


def test_every_sample_goes_through_what_was_drawn_for_it(x):
    policy = Policy.parse("3-1-7+43-18-18")
    draw = policy.draw(len(x), generator(1))
    together = policy.apply(x, draw)
    for row, image in enumerate(x):
        slow = image[None]
        signs = draw.sign[row].tolist()
        for number, sign in zip(policy.members[draw.member[row]], signs, strict=True):
            slow = transformed(slow, number, sign)
        assert torch.equal(together[row], slow[0])


def test_both_members_and_both_signs_happen(x):
    draw = Policy.parse("3-1-7+43-18-18").draw(64, generator(2))
    assert set(draw.member.tolist()) == {0, 1}
    assert set(draw.sign.flatten().tolist()) == {1, -1}


def test_same_generator_same_pictures_and_the_input_is_left_alone(x):
    policy, before = Policy.parse("43-18-18"), x.clone()
    first, second = policy(x, generator(5)), policy(x, generator(5))
    assert torch.equal(first, second)
    assert not torch.equal(first, policy(x, generator(6)))
    assert torch.equal(x, before)


def test_the_neutral_policy_and_probability_zero_change_nothing(x):
    assert torch.equal(Policy.parse("none")(x, generator(0)), x)
    assert torch.equal(Policy(((3, 1, 7),), probability=0.0)(x, generator(0)), x)


def test_a_probability_leaves_some_samples_as_they_are(x):
    changed = Policy(((0,),), probability=0.5)(x, generator(3)) != x
    assert 0 < changed.flatten(1).any(1).sum() < len(x)


def test_only_images_of_bytes_are_transformed(x):
    with pytest.raises(BadData, match="uint8"):
        Policy.parse("3")(x.float(), generator(0))
    with pytest.raises(BadData, match="at least"):
        Policy.parse("3")(x[:, :, :4], generator(0))


def test_random_policies_are_different_and_cover_all_lengths():
    found = random_policies(400, generator(9))
    assert len({str(policy) for policy in found}) == 400
    assert {len(policy.members[0]) for policy in found} <= {1, 2, 3}
    assert {n for policy in found for n in policy.members[0]} == set(range(50))
    assert [str(p) for p in found] == [str(p) for p in random_policies(400, generator(9))]
    with pytest.raises(BadOption, match="candidates"):
        random_policies(26, generator(9), longest=1)


def test_a_hybrid_takes_the_best_that_share_nothing():
    ranked = [Policy.parse(text) for text in ("3-1-7", "3-18-28", "7-3", "43-18-18", "21-13-3")]
    assert str(hybrid(ranked)) == "3-1-7+43-18-18"
