"""Work in units that are the same on every machine, and what a unit takes on this one.

One unit is one step of a search for one sample. Minutes become units once, by a short calibration;
from then on an audit plans in units alone, so that the same number of units repeats it exactly.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedpriv.attacks.inversion.recipes import inversion
from fedpriv.device import moved
from fedpriv.evidence.victims import alike, slots_of
from fedpriv.scenario import Scenario
from fedpriv.simulations.audit.battery import Method, built, searches, shortened, work_of
from fedpriv.simulations.judging.attacking import Recording

_FIRST, _ENOUGH = 4, 1.0  # steps of the first trial, seconds that the last one takes at the least
_CLIENTS = 8  # an attack searches for several clients at once, which is faster than one by one


@dataclass(frozen=True)
class Rate:
    """How long a unit takes here, and what every attack takes before its first step."""

    seconds: float
    first: float


def calibrated(recording: Recording) -> Rate:
    """Searches on a few clients, each twice as long as the one before: what their steps take.

    They replay the clients' local steps, which is the slowest way of searching.
    """
    seen = moved(alike(recording.updates)[0][:_CLIENTS], recording.device)
    samples = slots_of(seen[0]) * len(seen)

    def took(steps: int) -> float:
        started = time.perf_counter()
        inversion(signed=True, schedule="cosine", box=True, tv=0.1, replay=True, steps=steps)(seen)
        return time.perf_counter() - started

    took(_FIRST)  # what is done once in a process is no part of a rate
    steps, before = _FIRST, took(_FIRST)
    while (after := took(2 * steps)) < _ENOUGH:
        steps, before = 2 * steps, after
    unit = max(after - before, 0.1 * after) / (steps * samples)
    return Rate(unit, max(0.0, after - 2 * steps * samples * unit))


def units_of(method: Method, scenario: Scenario, clients: int, samples: int) -> int:
    """What an attack costs on so many clients with so many samples each."""
    return max(1, work_of(built(method, scenario))) * clients * samples


@dataclass(frozen=True)
class Planned:
    """Attacks that fit into some units, on so many clients, and those that found no room."""

    methods: tuple[Method, ...]
    clients: int
    units: int
    dropped: tuple[Method, ...] = ()


def planned(
    methods: Sequence[Method],
    scenario: Scenario,
    *,
    samples: int,
    needed: int,
    most: int,
    units: int,
    planted: int = 0,
    ran: Mapping[str, float] | None = None,
) -> Planned:
    """As many steps as fit on the clients that a bound needs; then more clients, if there is room.

    Steps are cut first, but no search is planned with fewer than `battery.LEAST` of them. Then
    searches are dropped, those that come last first. One search that is left has fewer clients.
    Attacks that compute their answer are never dropped. `planted` clients are attacked besides.
    `ran` says of attacks which part of their steps they really take.
    """
    clients, kept, dropped = min(needed, most), list(methods), list[Method]()

    def cost(part: float, clients: int) -> int:
        cut = [shortened(method, scenario, part) for method in kept]
        takes = [units_of(method, scenario, planted + clients, samples) for method in cut]
        parts = [(ran or {}).get(method.label, 1.0) for method in cut]
        return sum(int(part * units) for part, units in zip(parts, takes, strict=True))

    while cost(0.0, clients) > units:
        searching = [method for method in kept if searches(method, scenario)]
        if len(searching) == 1 and cost(0.0, 1) <= units:
            clients = max(count for count in range(1, clients) if cost(0.0, count) <= units)
        elif searching:
            kept.remove(searching[-1])
            dropped.insert(0, searching[-1])
        else:
            break
    part = next((p / 20 for p in range(20, 0, -1) if cost(p / 20, clients) <= units), 0.0)
    while part == 1.0 and clients < most and cost(1.0, clients + 1) <= units:
        clients += 1
    cut = tuple(shortened(method, scenario, part) for method in kept)
    return Planned(cut, clients, cost(part, clients), tuple(dropped))
