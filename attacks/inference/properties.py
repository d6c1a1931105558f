"""How many of a client's samples have a private attribute? A rate, from its updates (property).

The attribute is not what clients learn. The attacker trains shadow clients whose rate it chose,
from the model that was sent, and learns how an update shows the rate (Ateniese 2015, Melis 2019).
"""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from fedpriv.attacks.inference.series import Series, alike
from fedpriv.attacks.inference.shadow_clients import Ridge, flat, trained
from fedpriv.errors import BadInput, BadOption
from fedpriv.evidence.claims import Public
from fedpriv.evidence.inferences import Rates
from fedpriv.evidence.observation import Observation
from fedpriv.progress import Progress, Told, go_on
from fedpriv.rng import generator


@dataclass(frozen=True)
class PropertyRate:
    """The rate of one class of an attribute among every client's samples.

    Args:
        own: The attacker's samples, with the attribute.
        attribute: Its name; the first of the data set without one.
        value: The class whose rate is asked for.
        clients: Shadow clients for each round.
        rounds: How many rounds to look at, from the first.
        seed: Seed of everything that the attack draws.
    """

    own: Public
    attribute: str = ""
    value: int = 1
    clients: int = 60
    rounds: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.clients < 10 or self.rounds < 1:
            raise BadOption(
                f"clients must be at least 10 and rounds at least 1; got {self.clients}, "
                f"{self.rounds}."
            )

    @property
    def name(self) -> str:
        known = [name for name in self.own.attributes if name != "label"]
        chosen = self.attribute or (known[0] if known else "")
        if chosen not in known:
            raise BadInput(
                f"The attacker's samples have no attribute '{chosen}'; choose from: "
                f"{', '.join(known) or 'none'}."
            )
        return chosen

    def __call__(self, seen: Series, progress: Progress = go_on) -> list[Rates]:
        started, told = time.perf_counter(), Told(progress)
        has = self.own.attributes[self.name] == self.value
        if not has.any() or has.all():
            raise BadInput(
                f"All or none of the attacker's samples have {self.name} = {self.value}: it cannot "
                "know what the others would give."
            )
        found: dict[int | str, list[Tensor]] = {}
        first = seen.rounds[: self.rounds]
        groups = alike([place for place in seen.places() if place[2].round in first])
        for number, group in enumerate(groups):
            if number and not told(number / len(groups), 0.0):
                break
            clients = [one for _, _, one in group]
            for one, rate in zip(clients, self.of_group(clients, has), strict=True):
                found.setdefault(one.node, []).append(rate)
        took = (time.perf_counter() - started) / len(found)
        last = seen.rounds[-1]
        return [
            Rates(
                rate=torch.stack(each).mean(0)[None],
                attribute=self.name,
                value=self.value,
                names=(f"{last}-{node}",),
                seconds=took,
                partial=told.stopped,
            )
            for node, each in found.items()
        ]

    def of_group(self, clients: list[Observation], has: Tensor) -> Tensor:
        """(V,) the rates of clients that were sent one model."""
        stream = generator(self.seed, "property", clients[0].round)
        keys = list(trained_keys(clients[0]))
        features, rates = [], []
        for number in range(self.clients):
            like = clients[number % len(clients)]
            wanted = float(torch.rand(1, generator=stream))
            chosen = self.sampled(like, wanted, has, stream)
            update = trained(like, self.own.x[chosen], self.own.y[chosen], stream)
            features.append(flat(update, keys) / like.local_steps)
            rates.append(has[chosen].float().mean())
        ridge = Ridge.fitted(torch.stack(features), torch.stack(rates)[:, None])
        seen = torch.stack([flat(one.delta, keys) / one.local_steps for one in clients])
        return ridge(seen)[:, 0].clamp(0, 1).float()

    def sampled(
        self, like: Observation, rate: float, has: Tensor, stream: torch.Generator
    ) -> Tensor:
        """Places of samples: classes as the attacker's own, the attribute at this rate in each."""
        size = max(like.num_examples, min(like.local_steps, 2) * like.batch_size)
        y, has = self.own.y.cpu(), has.cpu()  # where the stream draws
        labels = y[torch.randint(len(y), (size,), generator=stream)]
        wants = torch.rand(size, generator=stream) < rate
        chosen = torch.empty(size, dtype=torch.long)
        for label in labels.unique():
            for side in (False, True):
                places = ((labels == label) & (wants == side)).nonzero().flatten()
                pool = ((y == label) & (has == side)).nonzero().flatten()
                pool = pool if len(pool) else (y == label).nonzero().flatten()
                chosen[places] = pool[torch.randint(len(pool), (len(places),), generator=stream)]
        return chosen


def trained_keys(seen: Observation) -> list[str]:
    """The parameters that training changes."""
    assert seen.model is not None
    return [key for key, _ in seen.model.named_parameters()]
