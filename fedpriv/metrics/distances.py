"""The distances of CAP (SPN eq. 1), by kind of attack: which metric gives each of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from fedpriv.catalogue import METRICS
from fedpriv.columns import BLIND

SAID = {"membership": "labels (SPN: membership)"}


@dataclass(frozen=True)
class Distance:
    """A metric that leaks when low is a distance itself; of a share of hits it is the rest."""

    kind: str
    metric: str
    is_metric: bool

    @property
    def said(self) -> str:
        """How a reader is told of it: SPN's membership is no question about training sets."""
        return SAID.get(self.kind, self.kind)

    @property
    def column(self) -> str:
        """Its column in a table of figures."""
        return self.metric if self.is_metric else self.kind

    def among(self, figures: Mapping[str, float]) -> dict[str, float]:
        """The column and that of the blind guess, where the figures hold the metric."""
        return {
            self.column + end: value if self.is_metric else 1 - value
            for end in ("", BLIND)
            if (value := figures.get(self.metric + end)) is not None
        }


def distances() -> list[Distance]:
    """What METRICS say of CAP, in their order: the reconstruction of samples comes first."""
    built = {name: METRICS.build(name) for name in METRICS}
    return [
        Distance(metric.cap, name, metric.leaks == "low")
        for name, metric in built.items()
        if metric.cap
    ]
