"""Which clients of an app are attacked, and in which round: each counts once.

Samples of one client may leak together, and so may the updates that it sends in several rounds.
"""

from collections import Counter
from collections.abc import Iterable

import torch

from fedpriv.metrics.rates import LEVEL, SHARE, victims_for
from fedpriv.rng import generator

CLIENTS = victims_for(SHARE, LEVEL)  # what a claim about a tenth of clients needs
SIMULATED = 30  # clients of an app that names no number


def each_once(
    places: Iterable[tuple[int, int]], most: int = CLIENTS, seed: int = 0
) -> list[tuple[int, int]]:
    """(round, client) of so many clients, each once, in a random order.

    Half of them are taken in the first round and half in the last. Where too few took part in
    these, the second round follows, and the second to last, and so on inwards.
    """
    rounds: dict[int, list[int]] = {}
    for number, node in sorted(places):
        rounds.setdefault(number, []).append(node)
    stream = generator(seed, "attacked")
    taken: dict[int, int] = {}
    for quota in (-(-most // 2), most):  # the rest where rounds have too few others
        for number in inwards(sorted(rounds)):
            nodes = rounds[number]
            order = torch.randperm(len(nodes), generator=stream).tolist()
            free = [nodes[place] for place in order if nodes[place] not in taken]
            room = min(most - len(taken), quota - Counter(taken.values())[number])
            taken |= dict.fromkeys(free[: max(0, room)], number)
    found = [(number, node) for node, number in taken.items()]
    return [found[place] for place in torch.randperm(len(found), generator=stream).tolist()]


def inwards(numbers: list[int]) -> list[int]:
    """The first, the last, the second, the second to last, and so on."""
    return [
        numbers[turn // 2] if turn % 2 == 0 else numbers[-1 - turn // 2]
        for turn in range(len(numbers))
    ]


def updates_of(places: Iterable[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """So many (round, client): every client once, then those that are left, from inwards rounds."""
    known = sorted(set(places))
    found = each_once(known, most)
    order = {number: place for place, number in enumerate(inwards(sorted({n for n, _ in known})))}
    others = sorted(set(known) - set(found), key=lambda place: (order[place[0]], place[1]))
    return [*found, *others][:most]
