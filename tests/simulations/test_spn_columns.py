"""SPN's three columns, CAP of reconstruction, membership and tracing, at batch 1, 4 and 8."""

import pandas as pd
import pytest
import torch

from fedpriv.metrics.distances import SAID
from fedpriv.metrics.matching import nearest
from fedpriv.metrics.tradeoff import cap
from fedpriv.scenario import from_tables
from fedpriv.simulations.sweep.sweep import sweep
from fedpriv.sweepfolder import SweepFolder

pytestmark = pytest.mark.thorough
BATCHES = (1, 4, 8)
GRID = {
    "name": "columns",
    "data": {"name": "synthetic"},
    "model": {"name": "mlp", "hidden": [16]},
    "training": {"lr": 0.1, "batch-size": 16},
    "federation": {"clients": 2, "rounds": 2, "strategy": "round-robin"},
    "sweep": {
        "attacks": ["quick"],
        "batch-sizes": list(BATCHES),
        "victims": 2,
        "at": 0.0,
        "options": {"quick": {"steps": 5}, "noise-aware": {"steps": 5}},
    },
    "defences": [
        {
            "name": "noise",
            "plugins": [{"name": "noise"}],
            "vary": "noise.scale",
            "values": [0.0, 1.0],
        },
    ],
}


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = SweepFolder(tmp_path_factory.mktemp("columns") / "sweep")
    sweep(from_tables(GRID), folder, workers=1)
    return folder, pd.read_csv(folder.path / "results.csv"), pd.read_csv(folder.path / "cap.csv")


def test_the_three_columns_come_out_at_every_batch_size(swept):
    folder, results, table = swept
    assert set(results["batch"]) == set(BATCHES)
    for kind in ("reconstruction", "membership", "tracing"):
        column = f"cap-{kind}"
        own = table[(table["attack"] == "quick") & (table["defence"] == "noise")]
        assert set(own["batch"]) == set(BATCHES) and own[column].notna().all()
        said = SAID.get(kind, kind)
        assert f"CAP, {said}" in (folder.path / "cap.md").read_text()


def test_membership_is_the_rest_of_recovered_labels_and_tracing_that_of_owners(swept):
    _, results, table = swept
    for kind, hits in (("membership", "label-overlap"), ("tracing", "traced-hit")):
        assert results[kind].to_list() == pytest.approx((1 - results[hits]).to_list())
    for batch in BATCHES:
        part = results[(results["batch"] == batch) & (results["attack"] == "quick")]
        own = table[(table["attack"] == "quick") & (table["batch"] == batch)].iloc[0]
        for kind in ("membership", "tracing"):
            by_hand = cap(part["accuracy"].tolist(), part[kind].tolist())
            assert own[f"cap-{kind}"] == pytest.approx(by_hand)


def test_the_nearest_reconstruction_equals_a_loop_at_any_number_of_queries():
    stream = torch.Generator().manual_seed(4)
    samples, pool = torch.rand(70, 12, generator=stream), torch.rand(33, 12, generator=stream)
    found = nearest(samples, pool)
    for sample, place in zip(samples, found.tolist(), strict=True):
        assert place == min(range(33), key=lambda one: float((sample - pool[one]).norm()))
