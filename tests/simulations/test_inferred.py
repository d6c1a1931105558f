"""Verdicts about members, owners and class shares, on rows with a known truth."""

import numpy as np
import pytest

from fedpriv.metrics.membership import alarms_for, chance_found
from fedpriv.report.kinds import _of_question
from fedpriv.simulations.audit.conclusion import saved_steps, sentence
from fedpriv.simulations.judging.inferred import chance_gained, inferred


def member_rows(scores, others, attack="member-loss", gap=0.1):
    rows = []
    for number, score in enumerate(scores):
        above, at = (others > score).mean(), (others >= score).mean()
        rows.append(
            {
                "claim": "member",
                "attack": attack,
                "node": number % 5,
                "victim": number,
                "others": len(others),
                "member-fpr": float(at),
                "member-rank": float(1 - (above + at) / 2),
                "gap": gap,
            }
        )
    return rows


def of(rows):
    (found,) = inferred(rows)
    return found


def test_members_that_stand_out_leak_and_chance_does_not():
    draw = np.random.default_rng(0)
    others = draw.normal(size=1000)
    assert of(member_rows(draw.normal(2.0, 1.0, 500), others)).word == "leaks"
    assert of(member_rows(draw.normal(size=1000), others)).word == "holds"
    few = of(member_rows(draw.normal(size=40), others[:40]))
    assert few.word == "undecided"
    assert "40 held-out samples" in few.why


def test_few_held_out_samples_do_not_set_a_threshold_for_many_members():
    """By luck few members lie above the five highest of 500; at twice the rate many do."""
    others = np.linspace(0.0, 1.0, 500)
    lucky = np.concatenate([np.full(60, 0.985), np.full(940, 0.4)])  # of 1,000, above 8 of 500
    assert of(member_rows(lucky, others)).hits == 0
    assert of(member_rows(lucky, others)).word == "undecided"
    rare = np.concatenate([np.full(20, 0.985), np.full(980, 0.4)])
    assert of(member_rows(rare, others)).word == "holds"


@pytest.mark.parametrize("others", [100, 500, 1000])
def test_a_threshold_is_rarely_stricter_than_it_says(others):
    """The true rate of false positives at the threshold, for held-out scores that are uniform."""
    draw, accused = np.random.default_rng(2), alarms_for(0.01, others, 0.975)
    scores = np.sort(draw.random((2000, others)), axis=1)[:, ::-1]
    stricter = (1 - scores[:, accused] < 0.01).mean()
    assert 0.001 < stricter < 0.035


def test_one_exposed_member_is_no_leak():
    draw = np.random.default_rng(1)
    scores = draw.normal(size=1000)
    scores[0] = 100.0
    found = of(member_rows(scores, draw.normal(size=1000)))
    assert found.word == "holds"
    assert "generalisation gap 10.0%" in found.why


def test_many_attacks_without_meaning_make_no_leak():
    """The best of twenty is still chance: the level is shared among them."""
    words = []
    for seed in range(20):
        draw = np.random.default_rng(seed)
        others = draw.normal(size=300)
        rows = [
            row
            for number in range(20)
            for row in member_rows(draw.normal(size=300), draw.permutation(others), str(number))
        ]
        words.append(of(rows).word)
    assert words.count("leaks") <= 2


def test_the_chance_of_finding_members_is_exact():
    """Against all orders of a small world, drawn at random."""
    draw = np.random.default_rng(0)
    times, hits = 20_000, 3
    beaten = 0
    for _ in range(times):
        scores = draw.random(30)
        limit = np.sort(scores[10:])[::-1][2]  # 10 % of 20 held-out samples may be accused
        beaten += (scores[:10] > limit).sum() >= hits
    assert chance_found(hits, 10, 20, 0.1) == pytest.approx(beaten / times, abs=0.01)


def share_rows(errors, blind):
    return [
        {
            "claim": "classes",
            "attack": "class-shares",
            "node": node,
            "victim": node,
            "class-share-error": float(error),
            "class-share-error-blind": float(guess),
        }
        for node, (error, guess) in enumerate(zip(errors, blind, strict=True))
    ]


def test_class_shares_leak_when_they_take_most_of_the_blind_error_away():
    blind = np.full(10, 0.8)
    assert of(share_rows(np.full(10, 0.2), blind)).word == "leaks"
    assert of(share_rows(np.linspace(0.7, 0.9, 10), blind)).word == "holds"
    assert of(share_rows(np.full(10, 1.2), blind)).why.startswith("it was attacked badly")
    assert of(share_rows([0.1], [0.9])).word == "undecided"


def test_a_leak_is_said_in_a_sentence_and_an_error_is_no_share():
    shares = of(share_rows(np.full(10, 0.2), np.full(10, 1.4)))
    members = of(member_rows(np.full(60, 5.0), np.linspace(0.0, 1.0, 1000)))
    said = sentence("leaks", [members, shares], [])
    first, second = said.removeprefix("Leaks: ").split(". The attack ", 1)
    assert first.startswith("The attack member-loss finds 100.0% of 60 members")
    assert second.startswith("class-shares tells the class shares of 10 clients")
    assert "error of 0.20; a blind guess has 1.40." in second and "140%" not in said
    card = _of_question(shares.plain(), shares.word)
    assert card.figures == "mean error 0.20 of 10 clients" and card.beside == "a blind guess: 1.40"


def test_shortened_attacks_are_one_sentence():
    cut = {"steps": 180, "all-steps": 1800}
    whole = {"steps": 1800, "all-steps": 1800}
    trials = {"round-1": {"strongest": cut}, "round-5": {"strongest": cut | {"steps": 450}}}
    said = saved_steps(trials | {"round-9": {"dlg": whole}})
    assert said.endswith(" lose nothing by it: strongest to between 180 and 450 of 1800 steps.")
    assert saved_steps({"round-9": {"dlg": whole}}) == ""


def test_signs_are_exchanged_exactly():
    assert chance_gained(np.ones(10)) == 1 / 1024
    assert chance_gained(np.array([1.0, -1.0])) == 0.75


def test_owners_are_judged_by_their_share():
    rows = [
        {
            "claim": "owner",
            "attack": "owner-loss",
            "node": number % 10,
            "victim": number,
            "traced-hit": float(number % 2),
            "traced-hit-blind": float(number % 10 == 0),
        }
        for number in range(500)
    ]
    assert of(rows).word == "leaks"
