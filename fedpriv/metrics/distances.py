"""The distances of CAP (SPN eq. 1), by kind of attack: which metric gives each of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from fedpriv.catalogue import METRICS


@dataclass(frozen=True)
class Distance:
    """A metric that leaks when low is a distance itself; of a share of hits it is the rest."""

    kind: str
    metric: str
    is_metric: bool

    @property
    def column(self) -> str:
        """Its column in a table of figures."""
        return self.metric if self.is_metric else self.kind

    def among(self, figures: Mapping[str, float]) -> dict[str, float]:
        """The column with its value, where the figures hold the metric."""
        if self.metric not in figures:
            return {}
        value = figures[self.metric]
        return {self.column: value if self.is_metric else 1 - value}


def distances() -> list[Distance]:
    """What METRICS say of CAP, in their order: the reconstruction of samples comes first."""
    built = {name: METRICS.build(name) for name in METRICS}
    return [
        Distance(metric.cap, name, metric.leaks == "low")
        for name, metric in built.items()
        if metric.cap
    ]
