"""The federations of a sweep: trained once, and one update of every client exposed to attacks."""

import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from fedpriv.files import write_bytes
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.federation.run import simulate
from fedpriv.state import State
from fedpriv.strategies.rounds import Record

START, START_CLIENTS = "start.safetensors", "start-clients"
Result = dict[str, Any]


class Snapshot:
    """A show without pictures that keeps the public model and the clients' state of one round."""

    def __init__(self, folder: RunFolder, at: int) -> None:
        self.folder, self.at = folder, at

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, *about: object) -> None:
        return None

    def on_start(self, first: int, last: int) -> None:
        return None

    def on_reply(self, node: int) -> None:
        return None

    def on_round(self, record: Record, state: State) -> None:
        if record["round"] != self.at:
            return
        write_bytes(self.folder.path / START, save(dict(state)))
        kept = self.folder.path / START_CLIENTS
        shutil.rmtree(kept, ignore_errors=True)
        for path in sorted(self.folder.clients.glob("*-*.bin"), key=_round):
            kept.mkdir(mode=0o700, exist_ok=True)
            shutil.copy(path, kept / f"{path.stem.partition('-')[0]}-0.bin")


def _round(path: Path) -> int:
    return int(path.stem.partition("-")[2])


def train(folder: RunFolder, scenario: Scenario, at: float) -> Result:
    """Train one federation, or go on with it; its accuracy, time and ε."""
    torch.set_num_threads(1)
    started = time.monotonic()
    rounds = scenario.federation.rounds
    simulate(
        scenario, folder, Snapshot(folder, round(at * rounds)), resume=folder.rounds_file.exists()
    )
    records = folder.rounds()
    last = records[-max(1, min(5, len(records))) :]
    return {
        "accuracy": statistics.fmean(record["accuracy"] for record in last),
        "epsilon": records[-1].get("train-epsilon"),
        "bytes-up": sum(record["bytes-up"] for record in records),
        "training-seconds": round(sum(record["seconds"] for record in records), 2),
        "seconds": round(time.monotonic() - started, 2),
    }


def expose(folder: RunFolder, scenario: Scenario, source: RunFolder, at: float) -> None:
    """Let every client share one update, from the first model or from the trained one."""
    torch.set_num_threads(1)
    if folder.rounds_file.exists() and folder.last_round()["round"] == 1:
        return
    shutil.rmtree(folder.path, ignore_errors=True)
    start = source.path / START if at > 0 else None
    if start is not None and (source.path / START_CLIENTS).is_dir():
        shutil.copytree(source.path / START_CLIENTS, folder.clients)
        folder.clients.chmod(0o700)
    simulate(scenario, folder, Snapshot(folder, -1), start=start)
