"""Runs that share codes, from scenario to summary and picture."""

import csv
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from rich.console import Console

from fedpriv.catalogue import METRICS
from fedpriv.data.synthetic import synthetic
from fedpriv.errors import BadFolder, BadOption
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.folder import load_folder
from fedpriv.evidence.truth import Truth
from fedpriv.metrics.faces import faces_like, grey, verifier
from fedpriv.report.fronts import LOWEST, draw, height
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged, read
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.checks import check_options
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.judging.attacking import labels_of
from fedpriv.simulations.judging.conditions import given_to, row_of, why_not
from fedpriv.simulations.judging.judge import judged
from fedpriv.simulations.judging.knowledge import knowledge_of, noise_settings
from fedpriv.simulations.judging.pareto import marked, points_in, strongest, write_pareto
from fedpriv.simulations.judging.scoring import Judge, chosen
from fedpriv.simulations.judging.summary import leaked
from fedpriv.simulations.pipeline import run_all
from fedpriv.simulations.variants import variants_of
from fedpriv.sweepfolder import SweepFolder

TABLES = {
    "name": "codes",
    "seed": 3,
    "data": {"name": "synthetic", "options": {"train": 150, "test": 60, "size": 8}},
    "model": {"name": "mlp"},
    "federation": {"clients": 3, "rounds": 1, "backend": "inline", "strategy": "representation"},
    "representation": {
        "options": {"hidden": [16], "code": 8},
        "encoder-epochs": 10,
        "decoder-epochs": 8,
        "task-epochs": 10,
        "lr": 0.01,
        "batch-size": 25,
        "victims": 20,
    },
    "attacks": [
        {"name": "adversarial-decoder"},
        {"name": "mask-reading"},
        {"name": "attribute", "attribute": "label"},
    ],
    "variants": [
        {"name": "none"},
        {"name": "ars", "plugins": [{"name": "ars", "epsilon": 3.0}]},
        {"name": "fedavg", "set": {"federation.strategy": "fedavg", "attacks": []}},
    ],
}


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("codes") / "run"
    show = lambda: PlainLines(Console(stderr=True))  # noqa: E731
    told: list[str] = []
    found = run_all(from_tables(TABLES), RunFolder(folder), show, begins=told.append)
    return folder, {**found, "told": told}


def test_every_variant_is_trained_attacked_scored_and_summed_up(finished):
    folder, results = finished
    rows = table(folder / "summary.csv")
    assert [(row["run"], row["attack"]) for row in rows] == [
        ("none", "adversarial-decoder"),
        ("none", "attribute"),
        ("ars", "adversarial-decoder"),
        ("ars", "mask-reading"),
        ("ars", "attribute"),
        ("fedavg", ""),
    ]
    assert all(float(row["bytes"]) > 0 and float(row["accuracy"]) > 0.2 for row in rows)
    assert len(results["summary"]) == len(rows)
    assert results["told"] == ["none", "ars", "fedavg"]  # who waits hears which one it is
    assert (folder / "report.html").exists()
    assert (folder / "pareto.png").exists()


def test_scores_have_a_row_for_each_victim_and_the_curious_party_is_none(finished):
    folder, _ = finished
    rows = table(folder / "ars" / "scores.csv")
    assert {row["node"] for row in rows} == {"0", "1"}
    assert len(rows) == 3 * 2 * 20
    decoded = [row for row in rows if row["claim"] == "sample"]
    assert len(decoded) == 2 * 2 * 20 and all(float(row["psnr"]) > 0 for row in decoded)
    read = [row for row in rows if row["claim"] == "attribute"]
    assert {row["attribute"] for row in read} == {"label"}
    assert all(row["attribute-hit"] in ("0", "1") and row["attribute-hit-blind"] for row in read)
    assert {row["by"] for row in rows} == {"curious party"}
    assert {row["knows"] for row in rows if row["attack"] == "mask-reading"} == {"ars"}
    assert (folder / "ars" / "attacks" / "mask-reading" / "1-0.png").exists()


def test_noise_makes_the_decoder_worse_and_the_mask_is_read(finished):
    rows = {(row["run"], row["attack"]): row for row in table(finished[0] / "summary.csv")}
    plain, noisy = rows["none", "adversarial-decoder"], rows["ars", "adversarial-decoder"]
    assert float(noisy["mse"]) > 1.5 * float(plain["mse"])
    assert float(rows["ars", "mask-reading"]["mask-overlap"]) > 0.5


def test_claims_that_are_there_are_not_made_again(finished):
    place = RunFolder(finished[0] / "none")
    path = place.claim_file("adversarial-decoder", "1-0")
    before, scores = path.stat().st_mtime_ns, place.scores_file.read_text()
    found = judged(place, place.scenario())
    assert found.rows[0]["attack"] == "adversarial-decoder" and isinstance(
        found.rows[0]["mse"], float
    )
    assert path.stat().st_mtime_ns == before and place.scores_file.read_text() == scores


def test_an_attack_with_nothing_to_do_is_left_out_with_a_reason(finished):
    place = RunFolder(finished[0] / "none")
    [left] = [one for one in place.findings() if one["severity"] == "left out"]
    assert left["cause"] == "attack 'mask-reading'" and "secret masks" in left["detail"]
    assert not RunFolder(finished[0] / "ars").findings()


def test_the_attacker_is_told_nothing_of_its_victims_samples(finished):
    place = RunFolder(finished[0] / "ars")
    releases, _ = load_folder(place.observations)
    (knows,) = knowledge_of(place.scenario(), releases)
    assert set(knows.shared) == {0, 1} and len(knows.x) == 50
    own = knows.x.flatten(1)
    for party in (0, 1):
        assert torch.cdist(own, place.truth_of(f"1-{party}").x.flatten(1)).min() > 0


def test_pareto_has_a_point_for_each_attacked_run(finished, tmp_path):
    folder, _ = finished
    points = write_pareto([folder], RunFolder(tmp_path))
    assert [point.run for point in points] == ["run/ars", "run/none"]
    assert all(point.way == "codes" and point.data == "synthetic" for point in points)
    assert (tmp_path / "pareto.png").stat().st_size > 5000
    assert len(table(tmp_path / "pareto.csv")) == 2


def test_the_front_is_marked_for_each_data_set(finished):
    a, b = points_in([finished[0]])
    better = replace(a, accuracy=2.0, mse=9.0)
    assert [point.front for point in marked([a, b, better])] == [False, False, True]
    more = replace(better, samples=10**6)  # a run on more samples is compared with none of them
    assert [point.front for point in marked([a, b, more])] == [a.front, b.front, True]
    assert a.n > 0 and a.mse_low <= a.mse <= a.mse_high and a.mse_blind > 0


def test_a_tiny_error_does_not_stretch_the_picture(finished, tmp_path):
    a, b = points_in([finished[0]])
    draw([replace(a, mse=1e-9), b], tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 5000
    assert height(1e-9) == LOWEST


def test_the_strongest_attack_counts_and_an_analysis_does_not():
    rows = pd.DataFrame(
        [
            {"attack": "decoder", "by": "curious party", "mse": 0.2},
            {"attack": "gan", "by": "curious party", "psnr": 10.0},
            {"attack": "mask-overlap rate=1.0", "by": "analysis", "mse": 0.01},
        ]
    )
    found = strongest(rows)
    assert found is not None and (found.attack, found.n) == ("gan", 1)
    assert found.mse == pytest.approx(0.1)
    assert strongest(pd.DataFrame()) is None


def test_a_sweep_has_a_point_for_each_value_of_each_defence(tmp_path):
    folder = SweepFolder(tmp_path)
    folder.begin(from_tables({"name": "s", "data": {"name": "synthetic"}}), resume=False)
    cells = [(0.1, "dlg", 0.5, 20), (0.1, "noise-aware", 0.5, 30), (1.0, "dlg", 0.2, 10)]
    rows = [
        {"defence": "noise", "value": v, "attack": a, "batch": 1, "accuracy": acc, "psnr": psnr}
        for v, a, acc, psnr in cells
    ]
    folder.write_results([*rows, {"defence": "noise", "value": 2.0, "attack": "dlg", "batch": 1}])
    first, second = points_in([tmp_path])
    assert (first.way, first.attack) == ("updates", "noise-aware, batch 1")
    assert first.mse == pytest.approx(1e-3) and second.mse == pytest.approx(0.1)


def test_a_folder_without_attacked_runs_is_refused(tmp_path):
    with pytest.raises(BadFolder, match="attacked run"):
        write_pareto([tmp_path], RunFolder(tmp_path))
    with pytest.raises(BadFolder, match="no folder"):
        points_in([tmp_path / "nothing"])


def vertical(**changes):
    tables = merged(
        {key: value for key, value in TABLES.items() if key != "variants"},
        {
            "data": {"options": {"kind": "table", "size": 6}},
            "federation": {"strategy": "vertical"},
            "representation": {
                "curious-samples": 40,
                "publish-encoders": True,
            },
            "attacks": [{"name": "adversarial-decoder"}],
        },
    )
    return from_tables(merged(tables, changes))


def run(scenario, folder: Path) -> dict:
    return run_all(scenario, RunFolder(folder), lambda: PlainLines(Console(stderr=True)))


def test_columns_are_attacked_one_party_at_a_time(tmp_path):
    results = run(vertical(), tmp_path / "run")
    assert {row["node"] for row in table(tmp_path / "run" / "scores.csv")} == {"0", "1", "2"}
    (row,) = results["summary"]
    assert row["mse"] < 0.2


def test_encoders_that_were_not_published_cannot_be_queried(tmp_path):
    with pytest.raises(BadOption, match="publish-encoders"):
        run(vertical(representation={"publish-encoders": False}), tmp_path / "run")


def test_categories_are_hit_or_not():
    fields = [torch.tensor([0, 1]), torch.tensor([2, 3, 4])]
    truth = torch.tensor([[1.0, 0, 0, 1, 0], [0, 1, 1, 0, 0]])
    guess = torch.tensor([[0.6, 0.2, 0.9, 0.1, 0], [0.1, 0.2, 0.5, 0.1, 0]])
    hits = METRICS.build("categories")(chosen(guess, fields), chosen(truth, fields))
    assert hits.tolist() == [0.5, 1.0]


def test_masks_are_attacked_only_where_there_are_some(finished):
    names = dict(variants_of(from_tables(TABLES)))
    assert why_not("mask-reading", names["none"]) and not why_not("mask-reading", names["ars"])
    assert why_not("take-as-is", names["ars"]) and not why_not("decoder", names["none"])
    assert noise_settings(names["none"]) is None

    def masks(name):
        place = RunFolder(finished[0] / name)
        return given_to("mask-overlap", names[name], place).objects.get("masks", {})

    assert not masks("none") and set(masks("ars")) == {0, 1, 2}  # from the parties' own truth


def test_a_mask_that_no_party_kept_is_not_scored(finished):
    place = RunFolder(finished[0] / "ars")
    truth = place.truth_of("1-0")
    (claim,) = [one for one in place.claims("mask-reading") if one.names == ("1-0",)]
    assert isinstance(claim, Reconstruction) and isinstance(truth, Truth)
    judge = Judge(place.scenario())
    assert "mask-overlap" in judge.scored(claim, truth, {}).rows[0]
    assert "mask-overlap" not in judge.scored(claim, replace(truth, secrets={}), {}).rows[0]


def test_a_summary_is_the_mean_over_victims_of_each_ones_mean():
    rows = [
        {"attack": "a", "node": node, "mse": mse} for node, mse in ((0, 1.0), (1, 2.0), (1, 4.0))
    ]
    assert leaked(rows) == [{"attack": "a", "mse": 2.0}]
    overlaps = [Attack(name="mask-overlap", options={"rate": rate}) for rate in (0.5, 1.0)]
    assert labels_of(overlaps) == ["mask-overlap rate=0.5", "mask-overlap rate=1.0"]


SCENARIOS = (
    "ars-mnist",
    "ars-adult",
    "ars-fairface",
    "ran-mnist",
    "ran-cifar10",
    "ran-har",
    "arl-fairface",
)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("profile", ["small", "paper"])
def test_the_papers_scenarios_name_plugins_and_attacks_that_exist(name, profile):
    from fedpriv.catalogue import AUTOENCODERS
    from fedpriv.clients.catalogue import plugin_of

    for _, variant in variants_of(read(name, profile=profile)):
        plugin_of(variant.plugins)
        assert variant.representation.autoencoder in AUTOENCODERS
        for attack in variant.attacks:
            assert row_of(attack.name).sees == "codes"
            check_options(attack)


def test_a_verifier_tells_persons_apart_and_takes_any_picture():
    faces = synthetic(train=80, test=40, classes=4, size=32, noise=0.05)
    network = verifier(faces, epochs=8)
    assert network.accuracy > 0.9
    pictures = faces_like(faces, (3, 20, 20))
    assert pictures.shape == (120, 3, 20, 20) and network(pictures).shape == (120, 64)
    plain = grey(pictures)
    assert plain.shape[1:] == (1, 32, 32) and float(plain.mean().abs()) < 1e-4
