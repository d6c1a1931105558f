"""RAN's judges on made-up rows: each can be told either way."""

import pytest

from fedpriv.simulations.reproduce.papers.ran import harder, separable


def rows_of(gap: float, more: float) -> list[dict[str, object]]:
    """Three seeds of plain features, and of RAN with another accuracy and error."""
    return [
        {
            "seed": seed,
            "run": run,
            "attack": "even-decoder",
            "accuracy": 0.97 + 0.001 * seed + (gap + 0.0003 * (seed % 2)) * (run != "dnn"),
            "mse": 0.02 * (1 + (more + 0.01 * (seed % 2)) * (run != "dnn")),
        }
        for seed in (1, 2, 3)
        for run in ("dnn", "ran-mean-0.1", "ran-mean-0.9")
    ]


@pytest.mark.parametrize(
    ("gap", "more", "separate", "hard"),
    [
        (-0.004, 0.5, "reproduced", "reproduced"),
        (-0.04, 0.5, "refuted", "refuted"),
        (-0.004, -0.2, "reproduced", "refuted"),
        (-0.01, 0.5, "undecided", "undecided"),
    ],
)
def test_a_loss_of_accuracy_or_a_stronger_decoder_refutes(gap, more, separate, hard):
    rows = rows_of(gap, more)
    assert separable(rows).verdict == separate
    assert harder("ran-mean-0.1")(rows).verdict == hard
