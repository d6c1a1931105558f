"""A run on a real federation: submitted, followed round by round, and its real end reported."""

import math
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from fedpriv.clients.protection.bundle import own_bundle
from fedpriv.errors import BadInput, WorkFailed
from fedpriv.metrics.gates import Gate
from fedpriv.progress import Progress, Told, go_on
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.deploy.control import Control, Status
from fedpriv.simulations.federation.follow import following
from fedpriv.simulations.federation.progress import described
from fedpriv.simulations.judging.attacking import Tell as TellOfAttacks
from fedpriv.simulations.judging.attacking import silent
from fedpriv.simulations.pipeline import concluded, judge

Tell = Callable[[str], None]


class Engine(Protocol):
    """Whoever runs the services: this machine or Docker."""

    def control(self) -> Control: ...

    def seen_by_server(self, out: Path) -> str:
        """A run folder as the ServerApp sees it."""

    def truths(self) -> Iterable[Path]:
        """Folders in which clients of this machine keep the truth, if their owner lets them."""


def fitted(engine: Engine, scenario: Scenario, tell: Tell) -> Scenario:
    """The scenario for the clients that are there."""
    online = sum(how == "online" for _, how, _ in engine.control().nodes())
    if scenario.variants:
        raise BadInput(
            f"Scenario '{scenario.name}' has variants; a federation takes one run at a time. "
            "Give a scenario without [[variants]], and its settings with --set."
        )
    if not online:
        raise WorkFailed("No client is online; `fedpriv deploy status` shows the services.")
    federation = scenario.federation
    if online >= federation.clients:
        return scenario
    tell(f"the scenario wants {federation.clients} clients; going on with the {online} online")
    least = min(federation.min_clients, online)
    return replace(scenario, federation=replace(federation, clients=online, min_clients=least))


def submitted(engine: Engine, scenario: Scenario, out: Path, *, resume: bool = False) -> int:
    """Submit a scenario; the run's number."""
    run_config: dict[str, Any] = {
        "scenario": scenario.text(),
        "out": engine.seen_by_server(out),
        "resume": resume,
    }
    return engine.control().start(own_bundle(), run_config)


def carried_out(
    engine: Engine,
    run: int,
    scenario: Scenario,
    folder: RunFolder,
    tell: Tell,
    tell_attacks: TellOfAttacks = silent,
    gates: Sequence[Gate] = (),
    progress: Progress = go_on,
) -> dict[str, Any]:
    """What came of a run, attacked and judged as a simulated one, with its page.

    When `progress` says stop during training, the run goes on without us and nothing is judged.
    WorkFailed with the last words of the ServerApp when it failed.
    """
    told = Told(progress)
    with following(folder, scenario, told):
        status = finished(engine, run, folder, scenario.federation.rounds, tell, told)
    rounds = folder.rounds()
    results: dict[str, Any] = {"run": run, "status": str(status), "report": ""}
    results |= {"folder": str(folder.path), "rounds": rounds}
    if told.stopped:
        return results | {"partial": True}
    if not status.good:
        last = "".join(engine.control().log(run)).strip().splitlines()[-12:]
        raise WorkFailed(
            f"Run {run} ended as {status} after {len(rounds)} of {scenario.federation.rounds} "
            f"rounds. {status.details}\n" + "\n".join(last)
        )
    gather_truths(engine, folder)
    judge(results, folder, scenario, tell_attacks, gates, progress=told)
    return results | {"report": concluded(folder, {"": results})["report"]}


def gather_truths(engine: Engine, folder: RunFolder) -> None:
    """Where clients of this machine kept the truth of this run, the judge may read a copy.

    A file older than the run is of an earlier one.
    """
    since = folder.scenario_file.stat().st_mtime if folder.scenario_file.exists() else 0.0
    for source in engine.truths():
        folder.truth.mkdir(mode=0o700, exist_ok=True)
        for path in source.glob("*.npz"):
            if path.stat().st_mtime >= since:
                shutil.copy(path, folder.truth / path.name)


def finished(
    engine: Engine, run: int, folder: RunFolder, last: int, tell: Tell, progress: Progress = go_on
) -> Status:
    """The status when the run has finished, or when told to stop; tells of each round that ends."""
    told = len(folder.rounds())

    def look() -> bool:
        nonlocal told
        rounds = folder.rounds()
        for record in rounds[told:]:
            tell(f"round {record['round']}/{last}  {described(record)}")
            for one in (*record["failed"], *record.get("odd", ())):
                tell(f"  client {one['client']}: {one['why']}")
        told = len(rounds)
        return progress(told / last, math.nan)

    status = engine.control().wait(run, look)
    look()
    return status
