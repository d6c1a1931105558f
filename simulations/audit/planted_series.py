"""A control for attacks on all rounds: a federation that the attacker planted, made to leak.

Its clients hold few samples of few classes each, and pass over them many times, without a defence.
Who cannot tell members, owners or class shares there cannot tell them anywhere, and its silence
about the real federation says nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from fedpriv.errors import FedprivError
from fedpriv.progress import Progress
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario, from_tables, merged
from fedpriv.scenario.built import shares_of
from fedpriv.simulations.audit.series import SeriesTask, recorded
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.judging.inferred import JUDGES, beating
from fedpriv.tables import Row

SAMPLES, EPOCHS, ROUNDS = 20, 20, 8  # of each planted client, its passes over them, rounds at most


def planted(scenario: Scenario) -> Scenario:
    """The scenario as a federation that leaks: few samples, few classes, many passes."""
    training, federation = scenario.training, scenario.federation
    each, held = SAMPLES * federation.clients, sum(map(len, shares_of(scenario)))
    return from_tables(
        merged(
            replace(scenario, plugins=(), gate={}, defences=(), malicious=None).plain(),
            {
                "data": {
                    "partition": "shards",
                    "shards-per-client": 2,
                    "reserve": scenario.data.reserve + max(0, held - each),
                },
                "training": {
                    "local-epochs": EPOCHS,
                    "batch-size": min(SAMPLES // 2, training.batch_size),
                },
                "federation": {
                    "secagg": False,
                    "fraction": 1.0,
                    "rounds": min(ROUNDS, federation.rounds),
                    "backend": "inline",
                },
            },
        )
    )


@dataclass(frozen=True)
class ControlTask:
    """The scores of a planted federation, made in a folder; none where it cannot be made."""

    scenario: Scenario
    place: Path
    metrics: tuple[str, ...]

    def __call__(self, progress: Progress) -> list[Row]:
        training = replace(self.scenario.training, local_steps=None)
        folder = RunFolder(self.place)
        try:
            plain = planted(replace(self.scenario, training=training))
            simulate(
                recorded(plain),
                folder,
                PlainLines(Console(quiet=True)),
                resume=folder.rounds_file.exists(),
                progress=progress,
            )
        except FedprivError:
            return []
        task = SeriesTask(plain, self.place, (), self.metrics, 0, ROUNDS, shadows=False)
        return task(progress).rows


def of_controls(rows: Iterable[Row], controls: Iterable[Row]) -> list[str]:
    """Doubts about kinds of claim where nobody beats a blind guess, not even on the control."""
    real, known = by_claim(rows), by_claim(controls)
    found = []
    for claim, own in real.items():
        acted = {str(row.get("attack", "")) for row in own}
        proven = beating(claim, own) | beating(claim, known.get(claim, []))
        if not acted & proven:
            found.append(
                f"all rounds: no attack on the {claim} beats a blind guess, and no control shows "
                "that one works here"
            )
    return found


def by_claim(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("claim") in JUDGES:
            found.setdefault(str(row["claim"]), []).append(row)
    return found
