"""Parties that share codes as Ray actors: the bytes of the inline run."""

from pathlib import Path

import pytest
from rich.console import Console

from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario, from_tables, merged
from fedpriv.simulations.federation.cluster import cluster
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TABLES = {
    "seed": 3,
    "data": {"name": "synthetic", "options": {"train": 90, "test": 30, "size": 6}},
    "model": {"name": "mlp"},
    "federation": {"clients": 3, "rounds": 1, "backend": "inline", "strategy": "representation"},
    "representation": {
        "options": {"hidden": [8], "code": 4},
        "encoder-epochs": 2,
        "decoder-epochs": 2,
        "task-epochs": 2,
        "curious-samples": 10,
    },
}


def bytes_of(scenario: Scenario, path: Path) -> bytes:
    return simulate(
        scenario, RunFolder(path), PlainLines(Console(quiet=True))
    ).model_file.read_bytes()


def test_ray_shares_the_codes_of_inline(tmp_path):
    rows = {"plugins": [{"name": "ars"}]}
    columns = {
        "data": {"options": {"kind": "table"}},
        "federation": {"strategy": "vertical"},
    }
    with cluster(cpus=2):
        for number, changes in enumerate((rows, columns)):
            inline = merged(TABLES, changes)
            actors = merged(inline, {"federation": {"backend": "ray"}})
            here = bytes_of(from_tables(inline), tmp_path / f"inline-{number}")
            assert bytes_of(from_tables(actors), tmp_path / f"ray-{number}") == here
