"""Recovery of one sample layer by layer, from the last one back to the input (R-GAP's idea)."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from fedpriv.attacks.analytic.head import head_of
from fedpriv.attacks.inversion.attack import Seen, victims_of
from fedpriv.attacks.inversion.features import features_of
from fedpriv.attacks.inversion.labels import evidence, sign_counts
from fedpriv.errors import BadObservation
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.victims import Victims
from fedpriv.progress import Progress, Told, go_on
from fedpriv.state import State

_EDGE = 1e-12  # keeps the inverse of a saturated activation finite


@dataclass(frozen=True)
class Inverse:
    """An activation backwards: `before(a)`, where that is certain, and its slope there."""

    before: Callable[[Tensor], Tensor]
    certain: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


def _everywhere(a: Tensor) -> Tensor:
    return torch.ones_like(a, dtype=torch.bool)


def _on(a: Tensor) -> Tensor:
    return a > 1e-4 * a.abs().max()


INVERSES: dict[type[nn.Module], Inverse] = {
    nn.Sigmoid: Inverse(
        lambda a: torch.logit(a, eps=_EDGE), _everywhere, lambda a: (a * (1 - a)).clamp_min(_EDGE)
    ),
    nn.Tanh: Inverse(
        lambda a: torch.atanh(a.clamp(_EDGE - 1, 1 - _EDGE)),
        _everywhere,
        lambda a: (1 - a.square()).clamp_min(_EDGE),
    ),
    nn.ReLU: Inverse(lambda a: a, lambda a: _on(a), lambda a: _on(a).double()),
    nn.Identity: Inverse(lambda a: a, _everywhere, torch.ones_like),
}


def as_matrix(module: nn.Module, weight: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The layer without its bias as a matrix (outputs, inputs)."""
    if isinstance(module, nn.Linear):
        return weight
    assert isinstance(module, nn.Conv2d)
    size = int(torch.tensor(shape).prod())
    units = torch.eye(size, dtype=weight.dtype, device=weight.device).view(size, *shape)
    out = conv2d(units, weight, None, module.stride, module.padding, module.dilation, module.groups)
    return out.flatten(1).mT


def gradient_matrix(module: nn.Module, d: Tensor, shape: tuple[int, ...]) -> Tensor:
    """∇W at dL/dz = d as a linear function of the input: (elements of ∇W, inputs)."""
    size = int(torch.tensor(shape).prod())
    units = torch.eye(size, dtype=d.dtype, device=d.device).view(size, *shape)
    if isinstance(module, nn.Linear):
        return torch.einsum("o,ni->oin", d, units).flatten(0, 1)
    assert isinstance(module, nn.Conv2d) and not isinstance(module.padding, str)
    d, parts = d.view(module.out_channels, -1), []
    for some in units.split(256):  # patches of all units at once would take gigabytes
        patches = nn.functional.unfold(
            some, module.kernel_size, module.dilation, module.padding, module.stride
        )
        parts.append(torch.einsum("op,nkp->okn", d, patches))
    return torch.cat(parts, 2).flatten(0, 1)


def solved(rows: Tensor, values: Tensor) -> Tensor:
    """Least squares by the normal equations, in double precision and slightly regularised."""
    square = rows.mT @ rows
    square.diagonal().add_(1e-13 * square.diagonal().mean())
    found: Tensor = torch.linalg.solve(square, rows.mT @ values)
    return found


def recovered(
    chain: list[tuple[str, nn.Module]], weights: State, gradient: State, shape: tuple[int, ...]
) -> Tensor:
    """The input of a chain of layers and activations from one sample's gradient."""
    layers = [(path, m) for path, m in chain if isinstance(m, nn.Linear | nn.Conv2d)]
    shapes = _input_shapes(chain, weights, shape)
    path, _ = layers[-1]
    d = gradient[f"{path}.bias"]
    a = features_of(gradient[f"{path}.weight"][None], d[None])[0]
    back = weights[f"{path}.weight"].mT @ d
    for (path, module), after in zip(
        reversed(layers[:-1]), reversed(_activations(chain)), strict=True
    ):
        inverse = INVERSES[type(after)]
        z, certain = inverse.before(a), inverse.certain(a)
        d = back * inverse.slope(a)
        weight, inputs = weights[f"{path}.weight"], shapes[path]
        matrix = as_matrix(module, weight, inputs)
        if f"{path}.bias" in weights:
            bias = weights[f"{path}.bias"]
            z = z - bias.repeat_interleave(len(z) // len(bias))
        by_gradient = gradient_matrix(module, d, inputs)
        seen = gradient[f"{path}.weight"].flatten()
        scale = matrix.norm() / by_gradient.norm().clamp_min(1e-300)
        rows = torch.cat([matrix[certain], scale * by_gradient])
        a = solved(rows, torch.cat([z[certain], scale * seen]))
        back = matrix.mT @ d
    return a.view(shape)


def _activations(chain: list[tuple[str, nn.Module]]) -> list[nn.Module]:
    """What stands behind each layer but the last."""
    found: list[nn.Module] = []
    for _, module in chain:
        if isinstance(module, nn.Linear | nn.Conv2d):
            found.append(nn.Identity())
        elif type(module) in INVERSES and not isinstance(module, nn.Identity):
            found[-1] = module
    return found[:-1]


def _input_shapes(
    chain: list[tuple[str, nn.Module]], weights: State, shape: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    device = next((value.device for value in weights.values()), None)
    x, found = torch.zeros(1, *shape, device=device), {}
    for path, module in chain:
        found[path] = tuple(x.shape[1:])
        x = module(x)
    return found


def chain_of(victims: Victims) -> list[tuple[str, nn.Module]]:
    """The model as a plain chain, or BadObservation that names the layer which breaks it."""
    taken = (nn.Linear, nn.Conv2d, nn.Flatten, nn.Dropout, *INVERSES)
    chain = [(p, m) for p, m in victims.model.named_modules() if not list(m.children())]
    sequences = [m for m in victims.model.modules() if list(m.children())]
    for path, module in chain:
        if not isinstance(module, taken):
            raise BadObservation(
                f"{type(module).__name__} '{path}' cannot be inverted layer by layer; the "
                "recursive attack takes convolutions, linear layers, sigmoid, tanh and ReLU."
            )
    if not all(isinstance(module, nn.Sequential) for module in sequences):
        raise BadObservation("the recursive attack takes models that are nn.Sequential chains.")
    return chain


@dataclass(frozen=True)
class Recursive:
    """Solves for each layer's input from its output and its weight gradient, last to first.

    The head gives features and dL/dz exactly; each layer below adds one linear system. Needs one
    sample and a bias on the last layer; precision is lost where activations saturate or ReLUs are
    off.
    """

    def __call__(self, seen: Seen, progress: Progress = go_on) -> Reconstruction:
        started, told = time.perf_counter(), Told(progress)
        victims = victims_of(seen)
        head, chain = head_of(victims), chain_of(victims)
        if victims.slots != 1 or head.bias is None:
            raise BadObservation(
                "the recursive attack takes updates of one sample and a last layer with a bias; "
                f"these hold {victims.slots} samples, bias: {head.bias is not None}."
            )
        guesses = []
        for row in range(len(victims)):
            weights = {
                key: (value if victims.shared else value[row]).double()
                for key, value in victims.weights.items()
            }
            gradient = {key: value[row].double() for key, value in victims.gradient.items()}
            guesses.append(recovered(chain, weights, gradient, victims.facts.input_shape))
            if not told((row + 1) / len(victims), 0.0):
                break
        victims = victims.rows(range(len(guesses)))
        head = head_of(victims)
        assert head.bias is not None
        x = torch.stack(guesses).unsqueeze(1).float()
        labels = sign_counts(evidence(head.weight, head.bias)).unsqueeze(1)
        with torch.no_grad():
            again = victims.gradient_at(x, labels)
        gaps = [
            (again[key] - value).square().flatten(1).sum(1)
            for key, value in victims.gradient.items()
        ]
        return Reconstruction(
            x=x,
            labels=labels,
            loss=torch.stack(gaps).sum(0),
            seconds=time.perf_counter() - started,
            partial=told.stopped,
            names=victims.names,
            mean=victims.facts.mean,
            std=victims.facts.std,
        )
