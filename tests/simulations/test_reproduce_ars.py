"""ARS equations 16 and 17: what is counted agrees with the binomial law, or the row is refuted."""

import pytest
import torch

from fedpriv.simulations.reproduce.papers.ars_masks import PAIRS, counted, unlikely


def test_counted_overlaps_are_those_of_the_binomial_law():
    rows = [counted(size, torch.Generator().manual_seed(3)) for size in (16, 64, 256)]
    assert rows[0]["counted"] == pytest.approx(rows[0]["eq-16"], abs=4 * (0.04 / PAIRS) ** 0.5)
    assert rows[0]["overlap"] == pytest.approx(0.5, abs=0.001)
    assert rows[2]["eq-16"] == pytest.approx(2.449e-16, rel=1e-3)  # the paper's example
    assert unlikely(rows).verdict == "reproduced"
    rows[0]["counted"] = 0.05  # guesses that know something
    assert unlikely(rows).verdict == "refuted"
