"""Several rounds of the same clients, matched together: noise averages out, x stays."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from fedpriv.attacks.inversion.attack import GradientInversion, Seen, victims_of
from fedpriv.attacks.inversion.matching import Matching
from fedpriv.engine.gradients import Gradients
from fedpriv.errors import BadObservation
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import Victims
from fedpriv.progress import Progress, go_on
from fedpriv.state import State


def pooled(rounds: Sequence[Victims]) -> Matching:
    """Matches the gradients of all rounds at once; row i of every round is the same client.

    The attack itself runs on the victims of the first round, whose names say which rows it has.
    """
    number = {name: row for row, name in enumerate(rounds[0].names)}

    def rows(victims: Victims) -> list[int]:
        return [number[name] for name in victims.names]

    def target(victims: Victims) -> State:
        return {
            f"{key}@{r}": values[rows(victims)]
            for r, one in enumerate(rounds)
            for key, values in one.gradient.items()
        }

    def found(victims: Victims, x: Tensor, y: Tensor) -> Gradients:
        return {
            f"{key}@{r}": values
            for r, one in enumerate(rounds)
            for key, values in one.rows(rows(victims)).factors_at(x, y).items()
        }

    return Matching(target, found)


@dataclass(frozen=True)
class PooledInversion:
    """An inversion of clients that train on the same samples in several rounds."""

    inversion: GradientInversion

    def __call__(self, seen: Seen, progress: Progress = go_on) -> Reconstruction:
        if isinstance(seen, Victims | Observation):
            return self.inversion(seen, progress)
        by_round: dict[int, list[Observation]] = {}
        for observation in seen:
            by_round.setdefault(observation.round, []).append(observation)
        nodes = [sorted(str(one.node) for one in group) for group in by_round.values()]
        if any(names != nodes[0] for names in nodes):
            raise BadObservation(
                "pooling needs observations of the same nodes in every round; these differ: "
                + "; ".join(
                    f"round {r}: {', '.join(n)}" for r, n in zip(by_round, nodes, strict=True)
                )
            )
        rounds = [
            victims_of(sorted(group, key=lambda one: str(one.node))) for group in by_round.values()
        ]
        return replace(self.inversion, match=pooled(rounds))(rounds[0], progress)
