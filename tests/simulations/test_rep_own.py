"""The networks that an encoder was trained with: kept in the truth, and analysed beside others."""

from fedpriv.evidence.truth import NETWORKS
from fedpriv.runfolder import RunFolder, load_state
from fedpriv.scenario import from_tables
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.judging.summary import attribute_figures, targets_of
from fedpriv.simulations.pipeline import run_all

TABLES = {
    "name": "tiny",
    "seed": 3,
    "data": {"name": "mnist-5k", "limit": 90},
    "federation": {
        "clients": 3,
        "rounds": 1,
        "strategy": "representation",
        "backend": "inline",
    },
    "representation": {
        "autoencoder": "mlp",
        "options": {"hidden": [16], "code": 8},
        "initiator": 2,
        "encoder-epochs": 3,
        "decoder-epochs": 2,
        "task-epochs": 1,
        "victims": 20,
    },
    "plugins": [{"name": "ran", "lam": 0.999}],
    "attacks": [{"name": "own-decoder"}, {"name": "own-classifier"}],
}


class Nothing:
    def print(self, *_, **__):
        return None


def test_own_networks_are_kept_in_the_truth_and_scored_as_analyses(tmp_path):
    folder = RunFolder(tmp_path / "run")
    found = run_all(from_tables(TABLES), folder, lambda: PlainLines(Nothing()))
    state = load_state(folder.truth / NETWORKS)
    assert {name.split("/")[0] for name in state} == {"decoder", "classifier", "standardised"}
    assert (folder.truth / NETWORKS).stat().st_mode & 0o077 == 0
    (result,) = found["rows"].values()
    assert result["attacks-failed"] == []
    rows = result["scores"]
    assert {row["attack"] for row in rows} == {"own-decoder", "own-classifier"}
    assert {row["by"] for row in rows} == {"analysis"}
    sent = [path for path in folder.path.rglob("*.safetensors") if "truth" not in path.parts]
    for path in sent:  # the game's networks are in no message
        assert not any("decoder" in name for name in load_state(path))


def test_the_rate_of_predictions_is_that_of_the_target_class():
    rows = [{"guess": g, "truth": t, "attribute": "race"} for g, t in ((2, 0), (2, 2), (0, 0))]
    assert attribute_figures(rows, {"race": 2})["rate-r"] == 2 / 3
    assert "rate-r" not in attribute_figures(rows, {})
    plugins = [{"name": "ars", "private": ["gender", "race"], "targets": [1, 2]}]
    scenario = from_tables({**TABLES, "plugins": plugins})
    assert targets_of(scenario) == {"gender": 1, "race": 2}
