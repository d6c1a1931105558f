"""Where a search for x starts. Every victim and restart has its own stream of the seed."""

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from fedpriv.device import CPU
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import Victims
from fedpriv.rng import generator

Initialiser = Callable[[Victims, Sequence[int], int], Tensor]  # -> (V, B, …), normalised
Drawn = Callable[[tuple[int, ...], Generator], Tensor]


def per_victim(draw: Drawn, pixels: bool) -> Initialiser:
    """`draw` for each victim and restart; `pixels` in [0, 1] are normalised as the clients' are."""

    def start(victims: Victims, restarts: Sequence[int], seed: int) -> Tensor:
        shape = (victims.slots, *victims.facts.input_shape)
        drawn = [
            draw(shape, generator(seed, "start", name, restart))
            for name, restart in zip(victims.names, restarts, strict=True)
        ]
        x = torch.stack(drawn).to(victims.device)
        return normalised(x, victims.facts) if pixels else x

    return start


def normalised(pixels: Tensor, facts: Observation) -> Tensor:
    """Pixels in [0, 1] as the model takes them."""
    if not facts.mean:
        return pixels
    shape = (len(facts.mean),) + (1,) * (len(facts.input_shape) - 1)
    mean, std = (
        torch.tensor(part, device=pixels.device).view(shape) for part in (facts.mean, facts.std)
    )
    return (pixels - mean) / std


def box(facts: Observation, device: torch.device = CPU) -> tuple[Tensor, Tensor]:
    """The normalised values of black and white, one per channel, which every image lies between."""
    shape = (facts.input_shape[0], *[1] * (len(facts.input_shape) - 1))
    black = torch.zeros(shape, device=device)
    return normalised(black, facts), normalised(black + 1, facts)


def tiled(shape: tuple[int, ...], stream: Generator, parts: int = 4) -> Tensor:
    """One small random tile, repeated over the image: SPN's pattern initialisation (sect. 4.1)."""
    height, width = (max(1, -(-side // parts)) for side in shape[-2:])
    tile = torch.rand((*shape[:-2], height, width), generator=stream)
    whole = tile.repeat(*[1] * (len(shape) - 2), parts, parts)
    return whole[..., : shape[-2], : shape[-1]]


def _drawn_uniform(shape: tuple[int, ...], stream: Generator) -> Tensor:
    return torch.rand(shape, generator=stream)


def _drawn_gaussian(shape: tuple[int, ...], stream: Generator) -> Tensor:
    return torch.randn(shape, generator=stream)


def _drawn_tile(shape: tuple[int, ...], stream: Generator) -> Tensor:
    return tiled(shape, stream) if len(shape) > 2 else _drawn_uniform(shape, stream)


gaussian = per_victim(_drawn_gaussian, pixels=False)
uniform = per_victim(_drawn_uniform, pixels=True)
patterned = per_victim(_drawn_tile, pixels=True)
black = per_victim(lambda shape, stream: torch.zeros(shape), pixels=True)
grey = per_victim(lambda shape, stream: torch.full(shape, 0.5), pixels=True)


def given(x: Tensor) -> Initialiser:
    """Start from images that the attacker has, in the model's space.

    They are (B, …) for all victims, or (V, B, …).
    """

    def start(victims: Victims, restarts: Sequence[int], seed: int) -> Tensor:
        shape = (victims.slots, *victims.facts.input_shape)
        if x.ndim == len(shape):
            return x.expand(len(victims), *shape).clone()
        distinct = list(dict.fromkeys(victims.names))
        return x[[distinct.index(name) for name in victims.names]].clone()

    return start


INITIALISERS: dict[str, Initialiser] = {
    "gaussian": gaussian,
    "uniform": uniform,
    "patterned": patterned,
    "black": black,
    "grey": grey,
}
