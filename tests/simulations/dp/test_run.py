"""Canaries in one run: scores that tell them apart give a bound, and equal scores give none."""

import numpy as np
import pytest

from fedpriv.errors import BadInput
from fedpriv.scenario import read
from fedpriv.simulations.dp.findings import Claim, Examination
from fedpriv.simulations.dp.run import canaried, judge
from fedpriv.simulations.dp.worst_case import drawn_entries


def judged(shift: float) -> Examination:
    draw = np.random.default_rng(9)
    inside = draw.random(2000) < 0.5
    result = Examination("toy", Claim(1.0, 1e-5, "sample"))
    judge({"toy": draw.standard_normal(2000) + shift * inside}, inside, result)
    return result


def test_scores_that_tell_canaries_apart_refute_a_small_epsilon():
    assert judged(4.0).answer == "refuted"
    assert judged(0.0).at_least == 0.0


def test_a_canary_is_one_entry_of_one_client_and_the_draw_can_be_repeated():
    found, again = drawn_entries(5000, 200, 4, 7), drawn_entries(5000, 200, 4, 7)
    assert found.entry.equal(again.entry) and found.inside.equal(again.inside)
    assert len(found.entry.unique()) == 200 and 60 < int(found.inside.sum()) < 140


def test_a_scenario_without_dp_claims_nothing():
    with pytest.raises(BadInput, match="no plugin 'dp'"):
        canaried(read("quickstart"), 100, "gradient")
