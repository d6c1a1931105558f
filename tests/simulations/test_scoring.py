"""Scores against worked numbers; gates; pictures; tables of a sweep."""

import json
import math
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from fedpriv.catalogue import METRICS
from fedpriv.errors import BadInput, BadOption, GateCrossed, Undecided
from fedpriv.evidence.claims import Attribute, Reconstruction
from fedpriv.evidence.truth import Truth
from fedpriv.metrics.gates import gates_of, parsed
from fedpriv.metrics.labels import likeliest
from fedpriv.metrics.tradeoff import ppc
from fedpriv.report.figures import grid, save_grid, save_ppc
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import dataset_of
from fedpriv.scenario.built import test_samples as public_samples
from fedpriv.simulations.cli.ending import print_leaks
from fedpriv.simulations.cli.sweep import cap_table
from fedpriv.simulations.judging.findings import empty
from fedpriv.simulations.judging.gate import check, check_gates
from fedpriv.simulations.judging.scoring import Judge, trace, traced
from fedpriv.simulations.sweep.tables import (
    EQUAL_M,
    averaged,
    caps,
    markdown,
    succeeded,
    write_tables,
)
from fedpriv.sweepfolder import SweepFolder


def scored(claim, truth, about):
    """One victim's claim against its truth, by a judge who knows nothing of the run."""
    return Judge().scored(claim, truth, about)


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
    assert [row["victim"] for row in one.rows] == [100, 101, 102]
    assert all(row["label-hit"] == 1 and row["relative-error"] < 1e-5 for row in one.rows)
    assert one.rows[0]["m"] == ppc(2.0, 1.0) == pytest.approx(math.log10(3))


def test_psnr_and_relative_error_are_of_pixels(pictures):
    off = pictures * 0.8 + 0.05
    expected = -10 * math.log10((off[0] - pictures[0]).square().mean())
    found = guess_of(normalised(off)[:1], torch.tensor([1]))
    row = scored(found, truth_of(normalised(pictures)[:1], torch.tensor([2])), {}).rows[0]
    assert row["psnr"] == pytest.approx(expected, abs=1e-3)
    relative = (off[0] - pictures[0]).norm() / pictures[0].norm()
    assert row["relative-error"] == pytest.approx(float(relative), abs=1e-5)
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
    traced(Judge(), scores)
    assert [one.rows[0]["traced-hit"] for one in scores] == [0, 0, 1]
    # Whoever has seen nothing names one client for all, and is right about that one.
    assert [one.rows[0]["traced-hit-blind"] for one in scores] == [1, 0, 0]


def test_a_claim_that_says_which_sample_it_is_of_is_not_traced(pictures):
    found = replace(guess_of(normalised(pictures), torch.zeros(3)), places=torch.arange(3)[None])
    one = scored(found, truth_of(normalised(pictures), torch.zeros(3)), {})
    trace([one], METRICS.build("traced-hit"), "traced-hit")
    assert one.ordered and "traced-hit" not in one.rows[0]


def test_guesses_with_places_are_not_paired_by_looks(pictures):
    """A claim about sample 2 that looks like sample 0 is wrong about sample 2."""
    found = guess_of(normalised(pictures[[0]]), torch.zeros(1))
    placed = replace(found, places=torch.tensor([[2]]))
    truth = truth_of(normalised(pictures), torch.zeros(3))
    [row] = scored(placed, truth, {}).rows
    assert row["victim"] == 102 and row["psnr"] < 20
    [free] = scored(found, truth, {}).rows
    assert free["victim"] == 100 and free["psnr"] > 60


def test_a_row_says_what_was_claimed_and_how_long_it_took(pictures):
    truth = truth_of(normalised(pictures)[:1], torch.tensor([2]), node=4)
    [row] = scored(guess_of(normalised(pictures)[:1], torch.tensor([2])), truth, {"by": "me"}).rows
    assert (row["by"], row["round"], row["node"], row["claim"]) == ("me", 1, 4, "sample")
    assert row["seconds"] == 2.0 and row["partial"] is False and row["loss"] == pytest.approx(0.1)
    assert (row["clean-norm"], row["added-norm"]) == (2.0, 1.0)


def test_the_blind_guess_is_the_mean_of_public_samples(tiny):
    x, y = public_samples(tiny)
    dataset = dataset_of(tiny)
    found = guess_of(x[:2], y[:2], mean=tuple(dataset.mean), std=tuple(dataset.std))
    rows = Judge(tiny).scored(found, truth_of(x[:2], y[:2]), {}).rows
    mean = dataset.denormalised(x.mean(dim=0, keepdim=True)).clamp(0, 1)
    for row, sample in zip(rows, dataset.denormalised(x[:2]).clamp(0, 1), strict=True):
        expected = -10 * math.log10((mean[0] - sample).square().mean())
        assert row["psnr-blind"] == pytest.approx(expected, abs=1e-3)
        assert row["psnr"] > 60
    often = likeliest(y, 2)
    assert [row["label-hit-blind"] for row in rows] == (often == y[:2]).double().tolist()


def test_a_stranger_has_no_blind_guess(pictures):
    truth = truth_of(normalised(pictures), torch.zeros(3))
    one = scored(guess_of(normalised(pictures), torch.zeros(3)), truth, {})
    assert not any(name.endswith("-blind") for name in one.rows[0])


def test_an_attribute_is_hit_or_not_beside_what_was_said():
    truth = replace(
        truth_of(torch.rand(3, 5), torch.zeros(3)), attributes={"sex": torch.tensor([1, 0, 1])}
    )
    claim = Attribute(
        names=("1-0",),
        guess=torch.tensor([[1, 1, 1]]),
        attribute="sex",
        classes=2,
        places=torch.tensor([[0, 1, 2]]),
    )
    rows = scored(claim, truth, {}).rows
    assert [(row["guess"], row["truth"], row["attribute-hit"]) for row in rows] == [
        (1, 1, 1.0),
        (1, 0, 0.0),
        (1, 1, 1.0),
    ]
    assert {(row["claim"], row["attribute"]) for row in rows} == {("attribute", "sex")}


def test_a_secret_is_scored_only_where_a_client_kept_it():
    x = torch.rand(2, 5)
    found = guess_of(x, torch.zeros(2), mean=(), std=())
    found = replace(found, found={"mask": torch.tensor([[1, 0, 1, 0]])})
    truth = truth_of(x, torch.zeros(2))
    kept = replace(truth, secrets={"mask": torch.tensor([1, 0, 0, 0])})
    assert {row["mask-overlap"] for row in scored(found, kept, {}).rows} == {0.75}
    assert "mask-overlap" not in scored(found, truth, {}).rows[0]


def test_a_truth_of_another_run_is_refused(pictures):
    found = guess_of(torch.rand(1, 3, 8, 8), torch.tensor([1]), mean=(), std=())
    with pytest.raises(BadInput, match="another run"):
        scored(found, truth_of(pictures, torch.tensor([1, 2, 3])), {})


def test_tables_are_scored_without_pictures(tmp_path):
    x = torch.rand(2, 7)
    found = guess_of(x, torch.tensor([0, 1]), mean=(), std=())
    rows = scored(found, truth_of(x, torch.tensor([0, 1])), {"attack": "a"}).rows
    assert "psnr" not in rows[0] and rows[0]["mse"] < 1e-9
    folder = RunFolder(tmp_path)
    folder.write_scores(rows)
    frame = folder.scores()
    assert list(frame["victim"]) == [100, 101] and "psnr" not in frame


def test_scores_of_earlier_versions_still_open(tmp_path):
    folder = RunFolder(tmp_path)
    folder.scores_file.write_text(
        "run,sample,rmse,batch-size,informed\na,7,0.5,4,True\na,8,0.25,4,False\n"
    )
    frame = folder.scores()
    assert list(frame["victim"]) == [7, 8] and list(frame["relative-error"]) == [0.5, 0.25]
    assert list(frame["batch"]) == [4, 4] and list(frame["knows"]) == ["the defence", ""]
    assert not {"sample", "rmse", "batch-size", "informed"} & set(frame.columns)


@pytest.mark.parametrize(
    ("old", "content", "read"),
    [
        ("audit.json", {"passed": True}, RunFolder.verdict),
        ("preflight.json", [{"cause": "noise"}], RunFolder.findings),
    ],
)
def test_files_of_earlier_versions_still_open(tmp_path, old, content, read):
    (tmp_path / old).write_text(json.dumps(content))
    assert read(RunFolder(tmp_path)) == content


def test_the_columns_of_a_table_have_one_order_whatever_the_rows_say(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_scores([{"psnr": 1.0, "attack": "a"}, {"mse": 0.5, "victim": 3, "run": "r"}])
    header, *lines = folder.scores_file.read_text().splitlines()
    assert header == "run,victim,attack,psnr,mse" and lines == [",,a,1,", "r,3,,,0.5"]


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
        check(gates_of({"relative-error": 0.3}), [{"relative-error": 0.1, "attack": "a"}])
    check(gates_of({"relative-error": 0.3, "psnr": 20.0}), [{"relative-error": 0.9, "psnr": 5.0}])


@pytest.mark.parametrize("text", ["psnr", "psnr=20", ">20", "psnr>", "psnr>x"])
def test_a_gate_that_cannot_be_read_says_how(text):
    with pytest.raises(BadOption, match="psnr>20"):
        parsed(text)


@pytest.mark.parametrize("text", ["pnsr>20", "psnr>nan", "psnr>inf"])
def test_a_gate_over_nothing_that_is_measured_is_refused(text):
    with pytest.raises(BadOption):
        parsed(text)


def test_a_gate_without_scores_is_no_pass():
    with pytest.raises(Undecided, match="cannot be checked") as error:
        check([parsed("psnr>20")], [])
    assert error.value.exit_code == 4


def test_a_gate_over_work_cut_short_is_undecided_unless_it_is_crossed():
    with pytest.raises(Undecided, match="cut short"):
        check([parsed("psnr>20")], rows(12.0), partial=True)
    with pytest.raises(GateCrossed):
        check([parsed("psnr>20")], rows(25.0), partial=True)


def test_a_crossed_gate_wins_over_one_that_cannot_be_checked():
    with pytest.raises(GateCrossed):
        check([parsed("ssim>0.5"), parsed("psnr>20")], rows(25.0))


@pytest.mark.parametrize(
    ("gate", "attacks", "why"),
    [
        ("psnr>20", [], "no attack that can act"),
        ("attribute-hit>0.5", ["dlg"], "none of the attacks claims"),
    ],
)
def test_a_gate_that_no_attack_can_be_judged_by_is_refused_before_training(
    tiny, gate, attacks, why
):
    with pytest.raises(BadOption, match=why):
        check_gates([parsed(gate)], tiny, attacks)
    check_gates([parsed("psnr>20")], tiny, ["dlg"])


def test_a_gate_that_does_not_fit_the_samples_is_refused_before_training(tiny):
    table = from_tables(
        {**tiny.plain(), "data": {"name": "synthetic", "options": {"kind": "table"}}}
    )
    with pytest.raises(BadOption, match="does not fit samples"):
        check_gates([parsed("psnr>20")], table, ["dlg"])
    check_gates([parsed("mse<0.1")], table, ["dlg"])


def test_a_grid_has_a_row_for_each_kind_and_a_gap_between(tmp_path, pictures):
    picture = grid([pictures, pictures])
    side = 96
    assert picture.shape == (2 * side + 4, 3 * side + 2 * 4, 3)
    save_grid(tmp_path / "a.png", [pictures])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def cell(defence, value, attack, error, accuracy=0.5, knows="", seed=0):
    return {
        "defence": defence,
        "value": value,
        "seed": seed,
        "batch": 1,
        "attack": attack,
        "knows": knows,
        "accuracy": accuracy,
        "relative-error": error,
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
    larger = [{**row, "batch": 8, "m": row["m"] / 4} for row in table]  # another range of m
    both = {(r["defence"], r["batch"], r["attack"]): r for r in caps([*table, *larger])}
    assert both["a", 1, "dlg"][EQUAL_M] == pytest.approx(0.125)
    assert both["a", 8, "dlg"][EQUAL_M] == pytest.approx(0.125)
    assert "| b | 0.350 | 0.350 |" in markdown(caps(table))
    assert all(EQUAL_M not in row for row in caps(table[:2]))


def test_cap_is_the_mean_of_accuracy_times_distance(tmp_path):
    table = [
        cell("spn", 0.1, "dlg", 1.0, accuracy=0.6),
        cell("spn", 0.5, "dlg", 0.5, accuracy=0.4),
        cell("spn", 0.1, "spn-aware", 0.2, accuracy=0.6, knows="spn"),
        cell("spn", 0.5, "spn-aware", 0.7, accuracy=0.4, knows="spn"),
    ]
    found = {row["attack"]: row for row in caps(table)}
    assert found["dlg"]["cap-reconstruction"] == pytest.approx((0.6 + 0.2) / 2)
    assert found["spn-aware"]["cap-reconstruction"] == pytest.approx((0.12 + 0.28) / 2)
    assert found["best of these"]["cap-reconstruction"] == pytest.approx((0.12 + 0.2) / 2)
    assert found["dlg"]["cap-tracing"] == pytest.approx(0.125)
    assert "| spn | 0.400 | 0.200 | 0.160 |" in markdown(caps(table))
    write_tables(SweepFolder(tmp_path), table)
    assert {"results.csv", "cap.csv", "cap.md", "ppc.png"} <= {p.name for p in tmp_path.iterdir()}


def test_cap_has_the_accuracy_beside_it_and_one_meaning_of_membership(tmp_path):
    table = [
        cell("none", None, "dlg", 0.1, accuracy=0.9),
        cell("spn", 0.1, "dlg", 1.0, accuracy=0.6),
        cell("spn", 0.5, "dlg", 0.5, accuracy=0.4),
    ]
    write_tables(SweepFolder(tmp_path), table)
    text, latex = (tmp_path / "cap.md").read_text(), (tmp_path / "cap.tex").read_text()
    first = text.split("## ")[1]
    assert first.startswith("Accuracy")
    assert "| none | 0.900 |" in first and "| spn | 0.500 |" in first
    assert r"none & 0.900 \\" in latex and r"spn & 0.500 \\" in latex
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert any("labels (SPN: membership)" in head for head in heads)
    shown = [str(column.header) for column in cap_table("s", caps(table)).columns]
    assert "membership" not in shown and "labels (SPN: membership)" in shown


def test_updates_without_a_sample_are_said():
    """Why a table has fewer scores than updates were attacked."""
    seen = [SimpleNamespace(name=name) for name in ("1-0", "1-1", "1-2")]
    kept = {name: truth_of(torch.zeros(1, 1, 4, 4), torch.zeros(1)) for name in ("1-0", "1-1")}
    (said,) = empty(seen, kept.get)
    assert "1 of 3 updates" in said["detail"] and said["evidence"] == ["1-2"]
    kept["1-1"] = truth_of(torch.zeros(0, 1, 4, 4), torch.zeros(0))
    assert empty(seen, kept.get)[0]["evidence"] == ["1-1", "1-2"]
    assert empty(seen[:1], kept.get) == empty(seen, {}.get) == []  # nobody kept anything
    (said,) = empty(seen, {}.get, kept=True)  # all would have
    assert said["detail"].startswith("No update has a sample") and said["evidence"] == []
    out, err = Console(file=StringIO()), Console(file=StringIO(), width=1000)
    print_leaks("dp", {"scores": [], "findings": [said]}, out, err)
    assert "warning: empty batch: No update has a sample" in err.file.getvalue()


def test_a_blind_guess_stands_beside_every_cap():
    guesses = {"relative-error-blind": 0.5, "membership-blind": 0.75, "tracing-blind": 1.0}
    table = [
        cell("spn", 0.1, "dlg", 1.0, accuracy=0.6) | guesses,
        cell("spn", 0.5, "dlg", 0.5, accuracy=0.4) | guesses | {"tracing-blind": 0.5},
    ]
    found = {row["attack"]: row for row in caps(table)}
    assert found["blind guess"]["cap-reconstruction"] == pytest.approx((0.3 + 0.2) / 2)
    assert found["blind guess"]["cap-membership"] == pytest.approx((0.45 + 0.3) / 2)
    assert found["blind guess"]["cap-tracing"] == pytest.approx((0.6 + 0.2) / 2)
    assert found["best of these"] == found["dlg"] | {"attack": "best of these"}
    assert "blind guess, batch 1" in markdown(caps(table))


def test_seeds_are_averaged_and_failed_cells_left_out():
    table = [
        cell("noise", 0.1, "dlg", 1.0, seed=0),
        cell("noise", 0.1, "dlg", 0.5, seed=1),
        {"defence": "noise", "value": 0.5, "attack": "dlg", "error": "no"},
    ]
    assert averaged(table)["relative-error"].tolist() == [0.75]
    assert len(caps(table)) == 2


def test_an_empty_sweep_has_empty_tables(tmp_path):
    assert write_tables(SweepFolder(tmp_path), []) == []


def test_ppc_curves_take_an_undefended_point(tmp_path):
    table = [{**cell("none", None, "dlg", 0.2), "m": math.inf}, cell("spn", 0.1, "dlg", 1.0)]
    save_ppc(tmp_path / "ppc.png", succeeded(table))
    assert (tmp_path / "ppc.png").stat().st_size > 10_000
