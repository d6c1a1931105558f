"""Of which classes are a client's samples? Read from the last layer of its updates.

After one local step the gradient is a mean over samples, so that a client's update is a mixture
Σ_c s_c g_c with its class shares s (the idea of Decaf); g_c comes from the attacker's own samples.
After several steps the model has moved, and the mixture does not hold: one local epoch gave an
error seven times that of a blind guess. There the attacker trains shadow clients of known shares
from the model that was sent, and learns how an update shows them.
"""

import time
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from torch import Tensor

from fedpriv.attacks.inference.series import Series, alike
from fedpriv.attacks.inference.shadow_clients import Ridge, bound, flat, head_keys, trained
from fedpriv.engine.gradients import gradients_at, soft
from fedpriv.errors import BadInput, BadOption
from fedpriv.evidence.claims import Public
from fedpriv.evidence.inferences import Shares
from fedpriv.evidence.observation import Observation
from fedpriv.progress import Progress, Told, go_on
from fedpriv.rng import generator

ALPHAS = (0.1, 0.5, 1.0, 5.0, 50.0)  # Dirichlet's, of shadow clients: from one class to all alike


def mixture(observed: Tensor, classes: Tensor) -> Tensor:
    """The shares s ≥ 0, Σs = 1, for which Σ_c s_c classes_c is nearest to a multiple of `observed`.

    observed: (P,), classes: (C, P). The multiple is free: momentum and clipping change the length
    of an update, not what it is made of. Uniform where nothing fits.
    """
    found, _ = scipy.optimize.nnls(
        classes.double().T.cpu().numpy(), observed.double().cpu().numpy()
    )
    total = found.sum()
    even = np.full(len(found), 1 / len(found))
    return torch.from_numpy(found / total if total > 0 else even).float()


def on_simplex(shares: Tensor) -> Tensor:
    """The nearest shares (N, C) that are not negative and add up to 1 (Held et al. 1974)."""
    ordered = shares.sort(1, descending=True).values
    excess = (ordered.cumsum(1) - 1) / torch.arange(1, shares.shape[1] + 1, device=shares.device)
    kept = (ordered > excess).sum(1, keepdim=True)
    return (shares - excess.gather(1, kept - 1)).clamp_min(0)


@dataclass(frozen=True)
class ClassShares:
    """The class shares of every client, from its updates of the first rounds that were seen.

    Args:
        own: The attacker's samples.
        clients: Shadow clients for each round.
        rounds: How many rounds to look at, from the first.
        refinements: How often a guess is tried out: a shadow client with the guessed shares is
            trained, and what its update lacks corrects the guess.
        seed: Seed of everything that the attack draws.
    """

    own: Public
    clients: int = 60
    rounds: int = 2
    refinements: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.clients < 10 or self.rounds < 1 or self.refinements < 0:
            raise BadOption(
                "clients must be at least 10, rounds at least 1 and refinements at least 0; got "
                f"{self.clients}, {self.rounds}, {self.refinements}."
            )

    def __call__(self, seen: Series, progress: Progress = go_on) -> list[Shares]:
        started, told = time.perf_counter(), Told(progress)
        self.check(seen.updates[0].classes)
        weighed: dict[int | str, list[tuple[Tensor, float]]] = {}
        first = seen.rounds[: self.rounds]
        places = [place for place in seen.places() if place[2].round in first]
        for number, group in enumerate(alike(places)):
            if number and not told(number / len(places), 0.0):
                break
            clients = [one for _, _, one in group]
            found, error = self.of_group(clients)
            for one, shares in zip(clients, found, strict=True):
                weighed.setdefault(one.node, []).append((shares, 1 / max(error, 1e-12)))
        took = (time.perf_counter() - started) / len(weighed)
        last = seen.rounds[-1]
        return [
            Shares(
                shares=mean_of(each)[None],
                names=(f"{last}-{node}",),
                seconds=took,
                partial=told.stopped,
            )
            for node, each in weighed.items()
        ]

    def check(self, classes: int) -> None:
        present = torch.bincount(self.own.y.long(), minlength=classes)
        if (present == 0).any():
            raise BadInput(
                f"The attacker has no sample of class {int((present == 0).nonzero()[0])} of its "
                "own, so that it cannot know what that class would give."
            )

    def of_group(self, clients: list[Observation]) -> tuple[list[Tensor], float]:
        """(C,) for each of the clients that were sent one model, and the squared error expected."""
        keys = head_keys(clients[0])
        if all(one.local_steps == 1 for one in clients):
            classes = self.by_class(clients[0], keys)
            return [mixture(-flat(one.delta, keys), classes) for one in clients], 1.0
        stream = generator(self.seed, "shadow clients", clients[0].round)
        features, shares = [], []
        for number in range(self.clients):
            like = clients[number % len(clients)]
            alpha = torch.full((like.classes,), ALPHAS[number % len(ALPHAS)])
            wanted = torch._sample_dirichlet(alpha, generator=stream)
            update, real = self.shadow(like, wanted, keys, stream)
            features.append(update)
            shares.append(real)
        ridge = Ridge.fitted(torch.stack(features), torch.stack(shares))
        found = []
        for one in clients:
            seen = flat(one.delta, keys) / one.local_steps
            guess = on_simplex(ridge(seen[None]))[0]
            for _ in range(self.refinements):
                update, real = self.shadow(one, guess.float().cpu(), keys, stream)
                guess = on_simplex((real.double() + ridge.slope((seen - update)[None])[0])[None])[0]
            found.append(guess.float())
        return found, float(ridge.error.sum())

    def shadow(
        self, like: Observation, shares: Tensor, keys: list[str], stream: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """The last layer's change a step and the true shares of a client with these shares."""
        size = max(like.num_examples, min(like.local_steps, 2) * like.batch_size)
        labels = torch.multinomial(shares.clamp_min(1e-9), size, True, generator=stream)
        chosen, y = torch.empty(size, dtype=torch.long), self.own.y.cpu()
        for label in labels.unique():
            mine = (y == label).nonzero().flatten()
            places = (labels == label).nonzero().flatten()
            chosen[places] = drawn(mine, len(places), stream)
        update = trained(like, self.own.x[chosen], self.own.y[chosen], stream)
        real = torch.bincount(labels, minlength=like.classes).float() / size
        return flat(update, keys) / like.local_steps, real.to(self.own.x.device)

    def by_class(self, seen: Observation, keys: list[str]) -> Tensor:
        """(C, P) the mean gradient of the last layer over the attacker's samples of each class."""
        model, rows = bound(seen), []
        named = {key for key, _ in model.named_parameters()}
        weights = {key: value for key, value in seen.sent.items() if key in named}
        buffers = {key: value for key, value in seen.sent.items() if key not in named}
        for label in range(seen.classes):
            mine = self.own.y == label
            t = soft(self.own.y[mine][None], seen.classes)
            found = gradients_at(model, weights, buffers, True, self.own.x[mine][None], t)
            rows.append(torch.cat([found[key][0].flatten() for key in keys]).detach())
        return torch.stack(rows)


def drawn(pool: Tensor, count: int, stream: torch.Generator) -> Tensor:
    """Samples of a pool in random order, each once before any comes twice."""
    times = -(-count // len(pool))
    order = [torch.randperm(len(pool), generator=stream) for _ in range(times)]
    return pool[torch.cat(order)[:count]]


def mean_of(weighed: list[tuple[Tensor, float]]) -> Tensor:
    """The weighted mean of guesses."""
    total = sum(weight for _, weight in weighed)
    return torch.stack([shares * (weight / total) for shares, weight in weighed]).sum(0)
