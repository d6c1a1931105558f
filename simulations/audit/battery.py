"""The standard battery: which rounds, batch sizes and attacks an audit tries, most telling first."""

from collections.abc import Sequence
from dataclasses import dataclass

from attacks.catalogue import ATTACKS
from fedpriv.scenario import Scenario
from fedpriv.sections import Spec

STANDARD = ("dlg", "adam+cosine")
# Who knows of a plugin attacks it like this.
KNOWS = {
    "spn": "spn-readout",
    "pruning": "mask-aware",
    "noise": "round-pooling",
    "augmentation": "through-policy",
}
BATCHES = (1, 4, 8)


@dataclass(frozen=True)
class Cell:
    """One round at one batch size; None is the scenario's own training, all its local steps."""

    round: int
    batch: int | None

    @property
    def name(self) -> str:
        return f"round-{self.round}-batch-{self.batch or 'own'}"

    def training(self) -> dict[str, int]:
        """The settings in which this cell differs from the scenario's [training]."""
        return {} if self.batch is None else {"batch-size": self.batch, "local-steps": 1}

    def samples(self, scenario: Scenario) -> int:
        return self.batch or scenario.training.batch_size


def milestones(rounds: int) -> tuple[int, ...]:
    """Early, middle and late: the first, the middle and the last round."""
    return tuple(sorted({1, (rounds + 1) // 2, rounds}))


def cells(scenario: Scenario, rounds: int) -> list[Cell]:
    """Every round and batch size; single samples first, then what the clients really do.

    Early rounds come first: an untrained model gives most away.
    """
    early, *others = milestones(rounds)
    own = scenario.training.local_steps == 1 and scenario.training.batch_size in BATCHES
    batches = [batch for batch in (1, None, 4, 8) if batch is not None or not own]
    numbers = [early, *reversed(others)]
    return [Cell(number, batch) for batch in batches for number in numbers]


def attacks_on(plugins: Sequence[Spec]) -> list[str]:
    """The standard attacks, and those that know one of the plugins."""
    informed = [KNOWS[spec.name] for spec in plugins if spec.name in KNOWS]
    return [name for name in (*STANDARD, *informed) if name in ATTACKS]
