"""A client that has spent its privacy budget leaves; the federation goes on without it."""

import pytest
from shows import quiet

from fedpriv.clients.plugins.differential_privacy import spent
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import shares_of
from fedpriv.simulations.federation.run import simulate


@pytest.mark.filterwarnings("ignore")
def test_the_federation_goes_on_without_who_has_spent_its_budget(tiny, tmp_path):
    tables = tiny.plain() | {
        "data": {"name": "synthetic", "partition": "dirichlet", "alpha": 0.3},
        "training": {"lr": 0.1, "batch-size": 8, "local-steps": 3},
    }
    tables["federation"] = {**tables["federation"], "rounds": 2}
    sizes = [len(share) for share in shares_of(from_tables(tables))]
    after_two = sorted(spent([(1.0, min(1, 8 / n), 6)], 1e-5, "rdp") for n in sizes)
    budget = after_two[-1] - 1e-3  # the second round of the smallest client is too much
    dp = {"name": "dp", "noise-multiplier": 1.0, "budget": budget}
    place = RunFolder(tmp_path / "run")
    simulate(from_tables(tables | {"plugins": [dp]}), place, quiet())
    first, second = place.rounds()
    assert first["clients"] == 4 and second["clients"] == 3
    [left] = second["failed"]
    assert left["client"] == sizes.index(min(sizes)) and "budget" in left["why"]
    assert second["train-epsilon"] <= budget


@pytest.mark.filterwarnings("ignore")
def test_the_epsilon_of_a_run_counts_its_evaluations(tiny, tmp_path):
    tables = tiny.plain() | {
        "training": {"lr": 0.1, "batch-size": 8, "local-steps": 3, "holdout": 0.5},
    }
    tables["federation"] = {**tables["federation"], "rounds": 2}
    dp = {"name": "dp", "noise-multiplier": 1.0, "samples": 32, "evaluation-noise": 10.0}
    place = RunFolder(tmp_path / "run")
    simulate(from_tables(tables | {"plugins": [dp]}), place, quiet())
    for number, record in enumerate(place.rounds(), 1):
        history = [(1.0, 0.5, 3 * number), (10.0, 1.0, number)]
        assert record["train-epsilon"] == pytest.approx(spent(history, 1e-5, "rdp"))
        assert 0 <= record["client-accuracy"] <= 1
        assert {"train-epsilon", "client-accuracy", "client-loss"} <= set(record["claimed"])
        assert "client-epsilon" not in record and not record.get("odd")
