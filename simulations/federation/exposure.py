"""One more round from a given start, with evidence and truth kept. Sweeps and audits attack it."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from fedpriv.clients.catalogue import calibrated
from fedpriv.errors import WorkFailed
from fedpriv.progress import Progress, go_on
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario, from_tables, merged
from fedpriv.simulations.federation.contexts import SEEDED
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.state import State
from fedpriv.strategies.catalogue import row_of

UNUSED = ("defences", "sweep", "gate", "variants", "malicious")


@dataclass(frozen=True)
class Starts:
    """Public models and private client states as they were before some rounds."""

    path: Path

    def of(self, server_round: int) -> RunFolder:
        return RunFolder(self.path / str(server_round))

    def keep(self, server_round: int, state: State, clients: Path) -> None:
        """Keep what a round starts from."""
        place = self.of(server_round)
        place.save_model(state, {"round": server_round - 1})
        if clients.is_dir():
            shutil.copytree(clients, place.clients, dirs_exist_ok=True)

    def rounds(self) -> list[int]:
        """The rounds that can be started: the first always can."""
        return sorted({1, *(int(place.name) for place in self.path.glob("[0-9]*"))})

    def give(self, server_round: int, folder: RunFolder, as_round: int) -> None:
        """Put what a round starts from into a folder whose next round is `as_round`.

        A first round that was not kept needs nothing: it starts from the model that the seed gives.
        """
        place = self.of(server_round)
        if not place.has_checkpoint():
            if server_round > 1:
                raise WorkFailed(
                    f"The start of round {server_round} was not kept: training did not get so far."
                )
            return
        folder.save_model(place.checkpoint_state(), {"round": as_round - 1})
        newest: dict[str, Path] = {}
        for path in sorted(place.clients.glob("*-*.bin"), key=_round):
            newest[path.stem.partition("-")[0]] = path
        for client, path in newest.items():
            folder.clients.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copy(path, folder.clients / f"{client}-{as_round - 1}.bin")


def _round(path: Path) -> int:
    return int(path.stem.partition("-")[2])


def one_more_round(
    scenario: Scenario,
    *,
    name: str,
    server_round: int,
    training: Mapping[str, Any],
    attacks: Sequence[Mapping[str, Any]],
    clients: int | None = None,
    fraction: float = 1.0,
) -> Scenario:
    """The scenario of an exposed round: the same clients, every plugin as strong as in training.

    `training` are the settings in which the round differs from the scenario's. Clients that share
    updates all answer at once: fedavg replaces a strategy whose replies make no sum.
    """
    federation: dict[str, Any] = {"rounds": server_round, "fraction": fraction, "backend": "inline"}
    federation["clients"] = clients or scenario.federation.clients
    tables = {key: value for key, value in scenario.plain().items() if key not in UNUSED}
    row = row_of(scenario)
    if row.reply != "codes" and not row.summable:
        federation["strategy"] = "fedavg"
        tables.pop("strategy", None)
    tables = merged(tables, {"federation": federation, "training": training})
    tables |= {"name": name, "keep-truth": True, "attacks": list(attacks)}
    tables["plugins"] = [calibrated(spec, scenario) for spec in scenario.plugins]
    return from_tables(tables)


def exposed(
    scenario: Scenario, folder: RunFolder, starts: Starts, start: int, progress: Progress = go_on
) -> RunFolder:
    """Train the scenario's last round from the start of round `start`.

    Evidence and truth are in the folder. One in which this was done before is left as it is.
    """
    from fedpriv.simulations.federation.run import simulate

    last = scenario.federation.rounds
    if folder.rounds_file.exists() and folder.last_round()["round"] == last:
        return folder
    folder.clear()
    folder.start(scenario, SEEDED)
    starts.give(start, folder, as_round=last)
    show = PlainLines(Console(quiet=True))
    return simulate(scenario, folder, show, resume=True, progress=progress)
