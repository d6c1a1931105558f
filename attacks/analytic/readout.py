"""Read inputs off the first linear layer: its weight gradient over its bias gradient (SPN eq. 2-3).

For one sample, ∇W = δ ⊗ φ and ∇b = δ, so every row gives φ. In a batch the rows are sums over
samples, and a malicious server sends weights that keep samples apart: bins whose neighbours are
subtracted (`ByDifference`, Fowl et al. 2022), or rows and heads that few samples pass (`ByRow`,
Boenisch et al. 2023, Wen et al. 2022). φ is the input itself, or what convolutions made of it: then
it is solved for the input.
"""

import time
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedpriv.attacks.inversion.attack import Seen, victims_of
from fedpriv.errors import BadObservation
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.victims import Victims
from fedpriv.progress import Progress, Told, go_on
from fedpriv.state import State

SMALL = 1e-9


class Rows(Protocol):
    """How the rows of a linear layer's gradient are taken apart."""

    def parts(self, gradient: Tensor, sent: Tensor) -> Tensor:
        """(k, …): the gradient of k rows as k parts; sent (k,) are the biases the server chose."""

    def certainty(self, features: Tensor, delta: Tensor) -> Tensor:
        """(k,): how much speaks for a part being one sample, 0 for nothing."""


class ByDifference:
    """Neighbouring bins subtracted; their planted biases say which are neighbours."""

    def parts(self, gradient: Tensor, sent: Tensor) -> Tensor:
        ordered = gradient[sent.argsort(descending=True)]
        return ordered - torch.cat([ordered[1:], torch.zeros_like(ordered[:1])])

    def certainty(self, features: Tensor, delta: Tensor) -> Tensor:
        return delta.abs()


class ByRow:
    """Reads every row as it is. Rows that give the same features hold one sample.

    A row that holds the sum of several samples agrees with no other row.
    """

    def parts(self, gradient: Tensor, sent: Tensor) -> Tensor:
        return gradient

    def certainty(self, features: Tensor, delta: Tensor) -> Tensor:
        good = delta.abs() > 1e-4 * delta.abs().amax().clamp(min=SMALL)
        size = features.norm(dim=1).clamp(min=SMALL)
        close = (torch.cdist(features, features) < 0.02 * size[:, None]) & good[None]
        first = ~close.tril(-1).any(1)  # of rows that agree, one is enough
        found: Tensor = (
            close.sum(1) * good * first * (1 + delta.abs() / delta.abs().amax().clamp(min=SMALL))
        )
        return found


by_difference, by_row = ByDifference(), ByRow()


def away_from_zero(values: Tensor) -> Tensor:
    return torch.where(values.abs() < SMALL, torch.full_like(values, SMALL), values)


@dataclass(frozen=True)
class Readout:
    """As many inputs as a victim's batch has, the most certain ones first; labels by trial."""

    rows: Rows = by_difference

    def __call__(self, seen: Seen, progress: Progress = go_on) -> Reconstruction:
        started, told = time.perf_counter(), Told(progress)
        victims = victims_of(seen)
        path = first_linear(victims.model)
        found = [
            self.one(victims, v, path)
            for v in range(len(victims))
            if v == 0 or told(v / len(victims), 0.0)
        ]
        return Reconstruction(
            x=torch.stack([x for x, _, _ in found]),
            labels=torch.stack([y for _, y, _ in found]),
            loss=torch.tensor([loss for _, _, loss in found], device=victims.device),
            seconds=time.perf_counter() - started,
            partial=told.stopped,
            names=victims.names[: len(found)],
            mean=victims.facts.mean,
            std=victims.facts.std,
        )

    def one(self, victims: Victims, v: int, path: str) -> tuple[Tensor, Tensor, float]:
        """Inputs, labels, and the part of the batch that was not read, of one victim."""
        weights = (
            victims.weights if victims.shared else {k: w[v] for k, w in victims.weights.items()}
        )
        gradient = [victims.gradient[f"{path}.{name}"][v] for name in ("weight", "bias")]
        weight, delta = (self.rows.parts(part, weights[f"{path}.bias"]) for part in gradient)
        features = weight / away_from_zero(delta)[:, None]
        certainty = self.rows.certainty(features, delta)
        top = certainty.topk(min(victims.slots, len(certainty)))
        count = int((top.values > 1e-4 * certainty.amax().clamp(min=SMALL)).sum())
        x = solved(victims, weights, path, features[top.indices])
        y = self.labels(victims, weights, path, x, top.indices, delta)
        x, y = padded(x, victims.slots), padded(y, victims.slots)
        return x, y, 1 - count / victims.slots

    def labels(
        self, victims: Victims, weights: State, path: str, x: Tensor, at: Tensor, delta: Tensor
    ) -> Tensor:
        """The class (N,) whose gradient δ is the one seen in the part an input was read from."""
        model, classes, key = victims.model.eval(), victims.facts.classes, f"{path}.bias"
        free = weights[key].detach().clone().requires_grad_()
        size = victims.facts.batch_size

        def left(x: Tensor, label: Tensor) -> Tensor:
            output = functional_call(model, {**weights, key: free}, (x[None],))
            loss = nn.functional.cross_entropy(output, label[None]) / size
            return self.rows.parts(torch.autograd.grad(loss, free)[0], weights[key])

        labels = torch.arange(classes, device=x.device)
        off = [
            [float((left(one, label)[i] - delta[i]).abs()) for label in labels]
            for one, i in zip(x, at.tolist(), strict=True)
        ]
        return torch.tensor(off, device=x.device).argmin(1)


def padded(values: Tensor, count: int) -> Tensor:
    """The values with the last one repeated up to `count`."""
    return torch.cat([values, values[-1:].expand(count - len(values), *values.shape[1:])])


def first_linear(model: nn.Module) -> str:
    """The path of the first linear layer that has a bias."""
    for path, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            found: str = path
            return found
    raise BadObservation("the model has no linear layer with a bias: nothing can be read off it.")


@torch.no_grad()
def entering(model: nn.Module, weights: State, path: str, x: Tensor) -> Tensor:
    """(N, d): what enters the layer at `path` when the model with these weights sees x."""
    caught: list[Tensor] = []
    hook = model.get_submodule(path).register_forward_pre_hook(
        lambda _, given: caught.append(given[0])
    )
    try:
        functional_call(model, weights, (x,))
    finally:
        hook.remove()
    return caught[0].flatten(1)


@torch.no_grad()
def solved(victims: Victims, weights: State, path: str, features: Tensor) -> Tensor:
    """The inputs (N, *shape) that have these features, the smoothest where several do.

    The layers before are taken as affine, φ = A·x + c, as a malicious server makes them. The guess
    is the mean of x given φ when neighbouring pixels are alike (a Gaussian prior).
    """
    shape = victims.facts.input_shape
    size = int(torch.tensor(shape).prod())
    model = victims.model.eval()
    middle = torch.zeros(1, *shape, device=features.device)
    c = entering(model, weights, path, middle)[0]
    counted = torch.arange(size, device=c.device).float()
    if len(c) == size and torch.equal(
        entering(model, weights, path, counted.view(1, *shape))[0], counted
    ):
        return features.view(-1, *shape)
    unit = torch.eye(size, device=c.device).view(size, *shape)
    a = torch.cat([entering(model, weights, path, part) for part in unit.split(256)]) - c  # (n, d)
    prior = smooth(shape).to(c.device).double()
    a, rest = a.double(), (features - c).double()
    middle_of = a.T @ prior @ a
    noise = 1e-7 * middle_of.diagonal().mean() * torch.eye(len(c), device=c.device).double()
    found: Tensor = (
        (prior @ a @ torch.linalg.solve(middle_of + noise, rest.T)).T.float().view(-1, *shape)
    )
    return found


def smooth(shape: tuple[int, ...], length: float = 3.0) -> Tensor:
    """Covariance (n, n) of pixels: the nearer two are, the more alike. Channels are independent."""
    channels, height, width = shape
    rows, columns = torch.meshgrid(
        torch.arange(float(height)), torch.arange(float(width)), indexing="ij"
    )
    places = torch.stack([rows.flatten(), columns.flatten()], 1)
    found: Tensor = torch.block_diag(*[torch.exp(-torch.cdist(places, places) / length)] * channels)
    return found


def read_bins() -> Readout:
    """For a server that planted bins (malicious.name = "imprint")."""
    return Readout(by_difference)


def read_rows() -> Readout:
    """For a server that planted traps or fishes, such as "trap-weights" or "class-fishing"."""
    return Readout(by_row)
