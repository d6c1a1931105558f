"""Gates: leakage worse than this fails the run, for CI."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedpriv.catalogue import METRICS
from fedpriv.errors import BadOption, GateCrossed
from fedpriv.simulations.judging.scoring import Row

PATTERN = re.compile(r"\s*([a-z][a-z0-9-]*)\s*([<>])\s*([-+0-9.eE]+)\s*")


@dataclass(frozen=True)
class Gate:
    """`psnr>20`: crossed when any victim's value lies beyond the bound."""

    metric: str
    above: bool  # whether above the bound is the bad side
    bound: float

    def __str__(self) -> str:
        return f"{self.metric}{'>' if self.above else '<'}{self.bound:g}"

    def crossed(self, value: float) -> bool:
        return value > self.bound if self.above else value < self.bound


def parsed(text: str) -> Gate:
    """A gate as people type it."""
    match = PATTERN.fullmatch(text)
    try:
        metric, side, bound = match.groups() if match else ("", "", "")
        return Gate(metric, side == ">", float(bound))
    except ValueError:
        raise BadOption(f"A gate reads like 'psnr>20' or 'rmse<0.3', got '{text}'.") from None


def gates_of(bounds: Mapping[str, float], texts: Iterable[str] = ()) -> list[Gate]:
    """The gates of a scenario's [gate] and of --fail-if; METRICS say which side is leakage."""
    own = [Gate(name, METRICS.build(name).leaks == "high", value) for name, value in bounds.items()]
    return own + [parsed(text) for text in texts]


def check(gates: Iterable[Gate], rows: Iterable[Row]) -> None:
    """GateCrossed with the worst victim of the first gate that any one crosses."""
    rows = list(rows)
    for gate in gates:
        values = [(float(row[gate.metric]), row) for row in rows if gate.metric in row]
        if not values:
            raise BadOption(
                f"The gate '{gate}' cannot be checked: no score has '{gate.metric}'. "
                "It needs attacks, and the truth of an audit."
            )
        worst, row = (max if gate.above else min)(values, key=lambda pair: pair[0])
        if gate.crossed(worst):
            count = sum(gate.crossed(value) for value, _ in values)
            raise GateCrossed(
                f"The gate '{gate}' is crossed by {count} of {len(values)} reconstructions; the worst "
                f"is {worst:.2f}: {described(row)}."
            )


def described(row: Row) -> str:
    """`dlg on client 3 in round 1`, as far as the row says."""
    parts = [("", "attack"), ("on client ", "node"), ("in round ", "round")]
    return " ".join(f"{word}{row[key]}" for word, key in parts if key in row)
