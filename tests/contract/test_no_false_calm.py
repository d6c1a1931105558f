"""What must not look safe: scores that are no numbers, failed attacks, tests that never were."""

import math

import pytest

from fedpriv.errors import GateCrossed, Undecided, WorkFailed
from fedpriv.metrics.gates import gates_of
from fedpriv.runfolder import RunFolder
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.federation.exposure import Starts
from fedpriv.simulations.judging.attacking import labels_of
from fedpriv.simulations.judging.gate import check
from fedpriv.simulations.judging.summary import leaked
from fedpriv.simulations.sweep.ending import check_defended

PSNR, BOTH = gates_of({"psnr": 20.0}), gates_of({"psnr": 20.0, "ssim": 0.5})


def score(psnr: float, **more: object) -> dict[str, object]:
    return {"attack": "a", "node": 0, "round": 1, "psnr": psnr, "ssim": 0.1, **more}


@pytest.mark.parametrize("rows", [[math.nan, 40.0], [40.0, math.nan]])
def test_a_score_that_is_no_number_hides_no_leak(rows):
    with pytest.raises(GateCrossed, match="1 of 1 scores"):
        check(PSNR, [score(value) for value in rows])


def test_a_score_that_is_no_number_or_an_attack_that_failed_decides_nothing():
    with pytest.raises(Undecided, match="not a number"):
        check(PSNR, [score(math.nan), score(5.0)])
    with pytest.raises(Undecided, match="dlg failed"):
        check(PSNR, [score(5.0)], failed=["dlg"])
    check(PSNR, [score(5.0)])


def test_a_sweep_holds_only_with_one_setting_within_all_gates():
    about = {"plugins": "noise", "value": None}
    a = score(5.0, **about, defence="a") | {"ssim": 0.9}
    b = score(30.0, **about, defence="b") | {"ssim": 0.1}
    with pytest.raises(GateCrossed, match="all 2 defended settings"):
        check_defended(BOTH, [a, b])
    check_defended(BOTH, [a, b, score(5.0, **about, defence="c")])


def test_a_setting_whose_cell_failed_does_not_hold():
    row = score(5.0, plugins="noise", defence="a", value=0.1)
    with pytest.raises(Undecided, match="tested fully"):
        check_defended(PSNR, [row], [{"defence": "a", "value": 0.1, "error": "Boom"}])


def test_a_start_that_was_not_kept_is_not_replaced_by_the_first_model(tmp_path):
    with pytest.raises(WorkFailed, match="start of round 5 was not kept"):
        Starts(tmp_path / "starts").give(5, RunFolder(tmp_path / "cell"), as_round=1)


def test_an_attack_with_other_options_is_done_again(tmp_path):
    folder = RunFolder(tmp_path)
    folder.note_attacked("dlg", {"1-0"}, {"steps": 3})
    assert folder.attacked("dlg", {"steps": 3}) == {"1-0"}
    assert folder.attacked("dlg", {"steps": 300}) == set()


def test_labels_are_told_apart_and_never_taken_for_another():
    names = ["pkg:a-b", "pkg:a", "pkg:a"]
    assert labels_of([Attack(name=name) for name in names]) == ["pkg.a-b", "pkg.a", "pkg.a-2"]


def test_parties_with_different_metrics_are_summed_up():
    rows = [score(10.0), score(20.0) | {"node": 1, "categories": 0.5}]
    (found,) = leaked(rows)
    assert found["psnr"] == 15.0 and found["categories"] == 0.5
