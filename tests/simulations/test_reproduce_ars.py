"""ARS: guesses of masks against the binomial law (equations 16, 17), and parties with columns."""

import pytest
import torch

from fedpriv.simulations.reproduce.papers.ars_judges import columns, columns_read
from fedpriv.simulations.reproduce.papers.ars_masks import PAIRS, counted, unlikely


def test_counted_overlaps_are_those_of_the_binomial_law():
    rows = [counted(size, torch.Generator().manual_seed(3)) for size in (16, 64, 256)]
    assert rows[0]["counted"] == pytest.approx(rows[0]["eq-16"], abs=4 * (0.04 / PAIRS) ** 0.5)
    assert rows[0]["overlap"] == pytest.approx(0.5, abs=0.001)
    assert rows[2]["eq-16"] == pytest.approx(2.449e-16, rel=1e-3)  # the paper's example
    assert unlikely(rows).verdict == "reproduced"
    rows[0]["counted"] = 0.05  # guesses that know something
    assert unlikely(rows).verdict == "refuted"


def parties(column, figures, suffix=""):
    """A row for each number of parties and three seeds, which differ a little."""
    return [
        {"run": f"k{k}{suffix}", "seed": seed, "majority": 0.76, "categories-blind": 0.4}
        | {column: figure + 0.002 * seed}
        for k, figure in enumerate(figures, start=1)
        for seed in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("third", "verdict"), [(0.84, "reproduced"), (0.79, "refuted"), (0.8001, "undecided")]
)
def test_each_party_more_must_learn_more(third, verdict):
    rows = parties("accuracy", (0.77, 0.80, third))
    for row in rows:  # a spread that only the pair near each other feels
        row["accuracy"] += 0.001 * (row["seed"] % 2) * (row["run"] == "k3")
    assert columns(rows).verdict == verdict


@pytest.mark.parametrize(("third", "verdict"), [(0.4, "reproduced"), (0.6, "refuted")])
def test_noise_must_hide_a_half_of_a_row_from_every_number_of_parties(third, verdict):
    rows = parties("categories", (0.3, 0.4, third), "-ars-4")
    rows = [row | {"attack": name} for name in ("decoder", "mask-reading") for row in rows]
    for row in rows:  # who does not read the mask reads less
        row["categories"] -= 0.2 * (row["attack"] == "decoder")
    found = [columns_read(k)(rows) for k in (1, 2, 3)]
    assert [one.verdict for one in found] == ["reproduced", "reproduced", verdict]
    assert "a blind guess 40 %" in found[2].result
    assert f"decoders that do not {100 * third - 19.6:.0f} %" in found[2].result
