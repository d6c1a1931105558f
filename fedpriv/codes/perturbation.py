"""Noise on codes that misleads a decoder or an attribute classifier (ARS eq. 9-10, 12, 14-15).

A party uses it to protect its codes, an attacker to make training codes like those it wants to
decode.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedpriv.errors import BadOption
from fedpriv.rng import Source, draws

Network = Callable[[Tensor], Tensor]
AT_ONCE = 512  # samples, so that memory does not grow with a party's data


def misleading(
    z: Tensor,
    x: Tensor,
    decoder: Network,
    epsilon: Tensor | float,
    steps: int = 10,
    mask: Tensor | None = None,
) -> Tensor:
    """ẑ after `steps` of ε/n · sign(m · ∇ D(x, SDec(ẑ))) (ARS eq. 9; with a mask, eq. 12).

    |ẑ − z| ≤ ε holds for every coordinate (proposition 1), and masked ones stay as they were.
    z is (N, *code); ε is a number or (*code); the mask is (*code), of zeros and ones.
    """
    step = torch.as_tensor(epsilon, dtype=z.dtype, device=z.device) / steps
    noisy = [
        _misled(codes, samples, decoder, step, steps, mask)
        for codes, samples in zip(z.split(AT_ONCE), x.split(AT_ONCE), strict=True)
    ]
    bound = step * steps  # n additions of ε/n may round to a little more than ε
    return torch.minimum(torch.maximum(torch.cat(noisy), z - bound), z + bound)


def _misled(
    z: Tensor, x: Tensor, decoder: Network, step: Tensor, steps: int, mask: Tensor | None
) -> Tensor:
    noisy = z.detach().clone()
    for _ in range(steps):
        noisy.requires_grad_(True)
        distance = (decoder(noisy) - x).square().flatten(1).mean(dim=1).sum()
        (gradient,) = torch.autograd.grad(distance, noisy)
        gradient = gradient if mask is None else mask * gradient
        noisy = (noisy + step * gradient.sign()).detach()
    return noisy


def toward(z: Tensor, classifier: Network, target: int, epsilon: Tensor | float) -> Tensor:
    """δ_A = −ε · sign(∇ D(r, F(z))): one step that makes F take z for `target` (ARS eq. 14)."""
    point = z.detach().clone().requires_grad_(True)
    wanted = torch.full((len(z),), target, dtype=torch.long, device=z.device)
    distance = cross_entropy(classifier(point), wanted, reduction="sum")
    (gradient,) = torch.autograd.grad(distance, point)
    return -torch.as_tensor(epsilon, dtype=z.dtype, device=z.device) * gradient.sign()


def blended(noises: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """δ = Σ λ_k δ_k with Σ λ_k = 1, so that |δ| ≤ ε still holds (ARS eq. 15)."""
    if len(noises) != len(weights) or not noises:
        raise BadOption(f"{len(noises)} noises need as many weights, got {len(weights)}.")
    if min(weights) < 0 or abs(sum(weights) - 1) > 1e-6:
        raise BadOption(f"The weights of a blend must be positive and sum to 1, got {weights}.")
    return sum((w * noise for w, noise in zip(weights, noises, strict=True)), 0 * noises[0])


def noise_on(
    z: Tensor,
    x: Tensor,
    decoder: Network,
    attributes: Sequence[tuple[Network, int]],
    weights: Sequence[float],
    epsilon: Tensor,
    steps: int,
    mask: Tensor | None,
) -> Tensor:
    """m · Σ λ_k δ_k: what a party adds to its codes (ARS eq. 12, 15).

    `attributes` are F_k and r_k, a classifier and the class that it should say. The mask is on all
    of the noise; the paper writes it into the decoder's part.
    """
    noises = [
        misleading(z, x, decoder, epsilon, steps, mask) - z,
        *(toward(z, network, target, epsilon) for network, target in attributes),
    ]
    noise = blended(noises, weights or half_and_half(len(attributes)))
    return noise if mask is None else mask * noise


def half_and_half(attributes: int) -> list[float]:
    """λ0 = 1/2 and λk = 1/2M, the paper's choice; all for pixels without attributes (ARS 4.4.1)."""
    return [0.5] + [0.5 / attributes] * attributes if attributes else [1.0]


def random_mask(code: Sequence[int], draw: Source, share: float = 0.5) -> Tensor:
    """A mask of zeros and ones: on average `share` of the coordinates are perturbed (ARS 4.3)."""
    return draws(draw).coins(share, code).float()


def spread(z: Tensor) -> Tensor:
    """The deviation of every coordinate over samples, (*code): the unit of a relative ε."""
    return z.detach().std(dim=0, unbiased=False)


def budget(z: Tensor, epsilon: float, relative: bool) -> Tensor:
    """ε as a number, or as that many deviations of each coordinate."""
    return epsilon * spread(z) if relative else z.new_tensor(epsilon)
