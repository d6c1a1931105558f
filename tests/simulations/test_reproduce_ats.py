"""ATS's judges on made-up rows: each can be told either way."""

import pytest

from fedpriv.simulations.reproduce.papers.ats_judges import better_than, every_attack, lowers


def rows_of(taken: float, lost: float, other: float = 0.5) -> list[dict[str, object]]:
    """Three seeds of no defence, a hybrid, a random policy and noise, against two attacks."""
    decibels = {"none": 0.0, "hybrid": taken, "random": other, "noise": other}
    points = {"hybrid": lost, "noise": 0.1}
    return [
        {
            "seed": seed,
            "defence": defence,
            "value": "",
            "attack": attack,
            "accuracy": 0.7 - points.get(defence, 0.0) + 0.002 * (seed % 2),
            "psnr-trained": 14.0 - less * (1 + 0.02 * seed),
        }
        for seed in (1, 2, 3)
        for attack in ("adam+cosine", "lbfgs+l2", "policy-aware")
        for defence, less in decibels.items()
    ]


@pytest.mark.parametrize(
    ("taken", "lost", "one", "each", "beside"),
    [
        (4.0, 0.0, "reproduced", "reproduced", "reproduced"),
        (4.0, 0.2, "refuted", "reproduced", "refuted"),  # the accuracy falls
        (-1.0, 0.0, "refuted", "refuted", "refuted"),  # attacks get better
        (0.2, 0.0, "refuted", "reproduced", "refuted"),  # random policies and noise take more
    ],
)
def test_a_policy_has_to_take_decibels_more_than_others_and_keep_accuracy(
    taken, lost, one, each, beside
):
    rows = rows_of(taken, lost)
    assert lowers("hybrid")(rows).verdict == one
    assert every_attack("hybrid")(rows).verdict == each
    assert better_than("hybrid", ("noise",))(rows).verdict == beside


def test_one_attack_that_loses_nothing_refutes_table_2():
    rows = rows_of(4.0, 0.0)
    for row in rows:
        if row["attack"] == "lbfgs+l2":
            row["psnr-trained"] = 14.0 + (row["defence"] == "hybrid")
    assert every_attack("hybrid")(rows).verdict == "refuted"
