"""A run on a real federation: submitted, followed round by round, and its real end reported."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from clients.bundle import own_bundle
from fedpriv.errors import WorkFailed
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from simulations.deploy.control import Control, Status
from simulations.progress import described

Tell = Callable[[str], None]


class Engine(Protocol):
    """Whoever runs the services: this machine or Docker."""

    def control(self) -> Control: ...

    def seen_by_server(self, out: Path) -> str:
        """A run folder as the ServerApp sees it."""


def submitted(engine: Engine, scenario: Scenario, out: Path, *, resume: bool = False) -> int:
    """Submit a scenario; the run's number."""
    run_config: dict[str, Any] = {
        "scenario": scenario.text(),
        "out": engine.seen_by_server(out),
        "resume": resume,
    }
    return engine.control().start(own_bundle(), run_config)


def carried_out(
    engine: Engine, run: int, scenario: Scenario, folder: RunFolder, tell: Tell
) -> dict[str, Any]:
    """What came of a run; WorkFailed with the last words of the ServerApp when it failed."""
    status = finished(engine, run, folder, scenario.federation.rounds, tell)
    rounds = folder.rounds()
    if not status.good:
        last = "".join(engine.control().log(run)).strip().splitlines()[-12:]
        raise WorkFailed(
            f"Run {run} ended as {status} after {len(rounds)} of {scenario.federation.rounds} "
            f"rounds. {status.details}\n" + "\n".join(last)
        )
    return {"run": run, "status": str(status), "folder": str(folder.path), "rounds": rounds}


def finished(engine: Engine, run: int, folder: RunFolder, last: int, tell: Tell) -> Status:
    """The status when the run has finished; tells of each round as it ends."""
    told = len(folder.rounds())

    def look() -> None:
        nonlocal told
        rounds = folder.rounds()
        for record in rounds[told:]:
            tell(f"round {record['round']}/{last}  {described(record)}")
            for failure in record["failed"]:
                tell(f"  client {failure['client']}: {failure['why']}")
        told = len(rounds)

    status = engine.control().wait(run, look)
    look()
    return status
