"""Scores against worked numbers; gates; pictures; tables of a sweep."""

import math

import pandas as pd
import pytest
import torch

from fedpriv.errors import BadInput, BadOption, GateCrossed
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.truth import Truth
from fedpriv.metrics.tradeoff import ppc
from fedpriv.report.figures import grid, save_grid, save_ppc
from fedpriv.simulations.judging.gate import check, gates_of, parsed
from fedpriv.simulations.judging.scoring import scored, trace, write_scores
from fedpriv.simulations.sweep.tables import EQUAL_M, averaged, caps, markdown, write_tables


def truth_of(x, y, node=0, clean=2.0, added=1.0):
    return Truth(
        x=x,
        trained=x,
        y=y,
        indices=torch.arange(len(x)) + 100,
        clean=clean,
        added=added,
        round=1,
        node=node,
    )


def guess_of(x, labels, mean=(0.5,), std=(0.25,)):
    return Reconstruction(
        x=x[None], labels=labels[None], loss=torch.tensor([0.1]), mean=mean, std=std, seconds=2.0
    )


@pytest.fixture
def pictures():
    draw = torch.Generator().manual_seed(0)
    return torch.rand(3, 1, 8, 8, generator=draw)


def normalised(pixels):
    return (pixels - 0.5) / 0.25


def test_guesses_find_their_samples_in_any_order(pictures):
    y = torch.tensor([4, 5, 6])
    order = torch.tensor([2, 0, 1])
    found = guess_of(normalised(pictures)[order], y[order])
    one = scored(found, truth_of(normalised(pictures), y), {"attack": "a"})
    assert [row["sample"] for row in one.rows] == [100, 101, 102]
    assert all(row["label-hit"] == 1 and row["rmse"] < 1e-5 for row in one.rows)
    assert one.rows[0]["m"] == ppc(2.0, 1.0) == pytest.approx(math.log10(3))


def test_psnr_and_relative_error_are_of_pixels(pictures):
    off = pictures * 0.8 + 0.05
    expected = -10 * math.log10((off[0] - pictures[0]).square().mean())
    found = guess_of(normalised(off)[:1], torch.tensor([1]))
    row = scored(found, truth_of(normalised(pictures)[:1], torch.tensor([2])), {}).rows[0]
    assert row["psnr"] == pytest.approx(expected, abs=1e-3)
    relative = (off[0] - pictures[0]).norm() / pictures[0].norm()
    assert row["rmse"] == pytest.approx(float(relative), abs=1e-5)
    assert row["label-hit"] == 0


def test_tracing_names_the_owner_of_the_nearest_guess(pictures):
    y = torch.tensor([0])
    swapped = [1, 0, 2]  # clients 0 and 1 got each other's picture
    scores = [
        scored(
            guess_of(normalised(pictures[[swapped[n]]]), y),
            truth_of(normalised(pictures[[n]]), y, node=n),
            {},
        )
        for n in range(3)
    ]
    trace(scores)
    assert [one.rows[0]["traced-hit"] for one in scores] == [0, 0, 1]


def test_a_truth_of_another_run_is_refused(pictures):
    found = guess_of(torch.rand(1, 3, 8, 8), torch.tensor([1]), mean=(), std=())
    with pytest.raises(BadInput, match="another run"):
        scored(found, truth_of(pictures, torch.tensor([1, 2, 3])), {})


def test_tables_are_scored_without_pictures(tmp_path):
    x = torch.rand(2, 7)
    found = guess_of(x, torch.tensor([0, 1]), mean=(), std=())
    rows = scored(found, truth_of(x, torch.tensor([0, 1])), {"attack": "a"}).rows
    assert "psnr" not in rows[0] and rows[0]["mse"] < 1e-9
    write_scores(tmp_path / "scores.csv", rows)
    frame = pd.read_csv(tmp_path / "scores.csv")
    assert list(frame["sample"]) == [100, 101] and "psnr" not in frame


def rows(*values):
    return [{"psnr": value, "node": i, "round": 1, "attack": "a"} for i, value in enumerate(values)]


def test_a_gate_names_the_worst_victim():
    with pytest.raises(GateCrossed, match=r"1 of 2.*25\.00.*client 1") as error:
        check([parsed("psnr>20")], rows(12.0, 25.0))
    assert error.value.exit_code == 1
    check([parsed("psnr > 30")], rows(12.0, 25.0))


def test_a_scenario_gate_knows_which_side_leaks():
    with pytest.raises(GateCrossed):
        check(gates_of({"psnr": 20.0}), rows(21.0))
    with pytest.raises(GateCrossed):
        check(gates_of({"rmse": 0.3}), [{"rmse": 0.1, "attack": "a"}])
    check(gates_of({"rmse": 0.3, "psnr": 20.0}), [{"rmse": 0.9, "psnr": 5.0}])


@pytest.mark.parametrize("text", ["psnr", "psnr=20", ">20", "psnr>", "psnr>x"])
def test_a_gate_that_cannot_be_read_says_how(text):
    with pytest.raises(BadOption, match="psnr>20"):
        parsed(text)


def test_a_gate_without_scores_is_no_pass():
    with pytest.raises(BadOption, match="cannot be checked"):
        check([parsed("psnr>20")], [])


def test_a_grid_has_a_row_for_each_kind_and_a_gap_between(tmp_path, pictures):
    picture = grid([pictures, pictures])
    side = 96
    assert picture.shape == (2 * side + 4, 3 * side + 2 * 4, 3)
    save_grid(tmp_path / "a.png", [pictures])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def cell(defence, value, attack, rmse, accuracy=0.5, informed=False, seed=0):
    return {
        "defence": defence,
        "value": value,
        "seed": seed,
        "batch-size": 1,
        "attack": attack,
        "informed": informed,
        "accuracy": accuracy,
        "rmse": rmse,
        "membership": 0.0,
        "tracing": 0.25,
        "m": 1.0,
    }


def test_defences_are_compared_at_equal_perturbation_where_all_have_it():
    table = [
        {**cell("a", 1, "dlg", 1.0, accuracy=0.5), "m": 0.0},
        {**cell("a", 2, "dlg", 0.0, accuracy=0.5), "m": 2.0},
        {**cell("b", 1, "dlg", 0.4, accuracy=1.0), "m": 1.0},
        {**cell("b", 2, "dlg", 0.2, accuracy=1.0), "m": 3.0},
        {**cell("none", None, "dlg", 0.0, accuracy=1.0), "m": math.inf},
    ]
    found = {(row["defence"], row["attack"]): row for row in caps(table)}
    # Both have m from 1 to 2, where a falls from 0.25 to 0 and b from 0.4 to 0.3.
    assert found["a", "dlg"][EQUAL_M] == pytest.approx(0.125)
    assert found["b", "dlg"][EQUAL_M] == pytest.approx(0.35)
    assert EQUAL_M not in found["none", "dlg"]
    assert "| b | 0.350 | 0.350 |" in markdown(caps(table))
    assert all(EQUAL_M not in row for row in caps(table[:2]))


def test_cap_is_the_mean_of_accuracy_times_distance(tmp_path):
    table = [
        cell("spn", 0.1, "dlg", 1.0, accuracy=0.6),
        cell("spn", 0.5, "dlg", 0.5, accuracy=0.4),
        cell("spn", 0.1, "spn-aware", 0.2, accuracy=0.6, informed=True),
        cell("spn", 0.5, "spn-aware", 0.7, accuracy=0.4, informed=True),
    ]
    found = {row["attack"]: row for row in caps(table)}
    assert found["dlg"]["cap-reconstruction"] == pytest.approx((0.6 + 0.2) / 2)
    assert found["spn-aware"]["cap-reconstruction"] == pytest.approx((0.12 + 0.28) / 2)
    assert found["strongest"]["cap-reconstruction"] == pytest.approx((0.12 + 0.2) / 2)
    assert found["dlg"]["cap-tracing"] == pytest.approx(0.125)
    assert "| spn | 0.400 | 0.200 | 0.160 |" in markdown(caps(table))
    write_tables(tmp_path, table)
    assert {"results.csv", "cap.csv", "cap.md", "ppc.png"} <= {p.name for p in tmp_path.iterdir()}


def test_seeds_are_averaged_and_failed_cells_left_out():
    table = [
        cell("noise", 0.1, "dlg", 1.0, seed=0),
        cell("noise", 0.1, "dlg", 0.5, seed=1),
        {"defence": "noise", "value": 0.5, "attack": "dlg", "error": "no"},
    ]
    assert averaged(table)["rmse"].tolist() == [0.75]
    assert len(caps(table)) == 2


def test_an_empty_sweep_has_empty_tables(tmp_path):
    assert write_tables(tmp_path, []) == []


def test_ppc_curves_take_an_undefended_point(tmp_path):
    table = [{**cell("none", None, "dlg", 0.2), "m": math.inf}, cell("spn", 0.1, "dlg", 1.0)]
    save_ppc(tmp_path / "ppc.png", averaged(table))
    assert (tmp_path / "ppc.png").stat().st_size > 10_000
