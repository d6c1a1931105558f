"""Encoders cut at a named layer, and decoders with the same layers in reverse (ARS sect. 5.1.2)."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn

from fedpriv.errors import BadOption
from fedpriv.scenario.binding import nearest

INPUT = "input"  # the layer whose output is the sample itself
Stages = dict[str, nn.Module]


@dataclass(frozen=True)
class Coder:
    """One architecture for samples of `shape`: its encoder up to any layer, and decoders back."""

    shape: tuple[int, ...]
    encode: Callable[[], Stages]  # layer name -> module, in order
    decode: Callable[[Sequence[tuple[int, ...]], int], nn.Module]  # shapes on the way, width

    @property
    def layers(self) -> list[str]:
        return [INPUT, *self.encode()]

    def checked(self, layer: str) -> str:
        """The layer's name; the last one for ''."""
        if layer and layer not in self.layers:
            raise BadOption(
                f"There is no layer '{layer}' to share.{nearest(layer, self.layers)} "
                f"Choose from: {', '.join(self.layers)}."
            )
        return layer or self.layers[-1]

    def encoder(self, layer: str = "") -> nn.Sequential:
        """From samples (N, *shape) to the output of `layer`."""
        layer = self.checked(layer)
        stages = self.encode()
        count = 0 if layer == INPUT else list(stages).index(layer) + 1
        chosen = list(stages.items())[:count]
        return nn.Sequential(OrderedDict(chosen))

    @torch.no_grad()
    def shapes(self, layer: str = "") -> list[tuple[int, ...]]:
        """Of the sample and of the output of every layer up to `layer`."""
        x = torch.zeros(1, *self.shape)
        found = [tuple(x.shape[1:])]
        for stage in self.encoder(layer).eval():
            x = stage(x)
            found.append(tuple(x.shape[1:]))
        return found

    def code(self, layer: str = "") -> tuple[int, ...]:
        """The shape of one code."""
        return self.shapes(layer)[-1]

    def decoder(self, layer: str = "", width: int = 1) -> nn.Module:
        """From codes back to samples; `width` multiplies the mirror's maps or units."""
        shapes = self.shapes(layer)
        return self.decode(shapes if len(shapes) > 1 else shapes * 2, width)


class View(nn.Module):
    """Samples as (N, *shape)."""

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        self.shape = tuple(shape)

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), *self.shape)


def mlp_coder(
    shape: tuple[int, ...], hidden: tuple[int, ...] = (512, 256), code: int = 64
) -> Coder:
    """Fully connected ReLU layers `fc1`, `fc2`, …, the last one linear (ARS sect. 5.1.2).

    Args:
        shape: Shape of a sample.
        hidden: Widths of the hidden layers.
        code: Numbers in a code.
    """
    if min((*hidden, code)) < 1:
        raise BadOption(f"Widths must be at least 1, got hidden={list(hidden)}, code={code}.")
    widths = (prod(shape), *hidden, code)

    def encode() -> Stages:
        stages: Stages = {}
        for number, (before, after) in enumerate(pairwise(widths), 1):
            parts: list[nn.Module] = [nn.Flatten()] if number == 1 else []
            parts.append(nn.Linear(before, after))
            if number < len(widths) - 1:
                parts.append(nn.ReLU())
            stages[f"fc{number}"] = nn.Sequential(*parts)
        return stages

    return Coder(shape, encode, dense_decoder)


def dense_decoder(shapes: Sequence[tuple[int, ...]], width: int) -> nn.Module:
    """Linear layers through the sizes of `shapes`, backwards, to one sample."""
    sizes = [prod(shape) for shape in reversed(shapes)]
    inner = [size * width for size in sizes[1:-1]] or [max(sizes) * width]
    widths = [sizes[0], *inner, sizes[-1]]
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1], View(shapes[0]))


def conv_coder(
    shape: tuple[int, ...],
    widths: tuple[int, ...] = (16, 32, 64),
    code: int = 128,
    normalise: bool = True,
) -> Coder:
    """Stride-2 convolutions `conv1`, `conv2`, … with BatchNorm and ReLU, then `fc` (RAN 2.3).

    Strides take the place of the papers' pooling: half the work. Images and signals.

    Args:
        shape: Shape of a sample.
        widths: Channels of the convolutions.
        code: Numbers in a code, the output of the last layer `fc`.
        normalise: Put BatchNorm after each convolution.
    """
    flat = len(shape) == 2
    if len(shape) not in (2, 3):
        raise BadOption(f"Convolutions need images or signals, got samples of shape {shape}.")
    conv, norm = (nn.Conv1d, nn.BatchNorm1d) if flat else (nn.Conv2d, nn.BatchNorm2d)

    def encode() -> Stages:
        stages: Stages = {}
        for number, (before, after) in enumerate(pairwise((shape[0], *widths)), 1):
            parts: list[nn.Module] = [conv(before, after, 3, stride=2, padding=1)]
            parts += [norm(after)] if normalise else []
            stages[f"conv{number}"] = nn.Sequential(*parts, nn.ReLU())
        with torch.no_grad():
            x = torch.zeros(2, *shape)
            for stage in stages.values():
                x = stage(x)
        stages["fc"] = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), code))
        return stages

    return Coder(shape, encode, conv_decoder)


def conv_decoder(shapes: Sequence[tuple[int, ...]], width: int) -> nn.Module:
    """Up-sampling and 3×3 convolutions through the shapes, backwards.

    A vector first passes a linear layer.
    """
    if len(shapes) > 1 and shapes[0] == shapes[1]:
        return refiner(shapes[0], width)
    layers: list[nn.Module] = []
    back = list(reversed(shapes))
    if len(back[0]) == 1:
        layers += [nn.Linear(back[0][0], prod(back[1])), nn.ReLU(), View(back[1])]
        back = back[1:]
    flat = len(back[0]) == 2
    conv, norm = (nn.Conv1d, nn.BatchNorm1d) if flat else (nn.Conv2d, nn.BatchNorm2d)
    maps = back[0][0]
    only = width if len(back) == 2 else 1  # with a single stage, that stage has the width
    for after in back[1:]:
        last = after == back[-1]
        out = max(after[0], maps) * only if last else after[0] * width
        layers += [nn.Upsample(size=after[1:]), conv(maps, out, 3, padding=1), norm(out), nn.ReLU()]
        maps = out
    return nn.Sequential(*layers, conv(maps, shapes[0][0], 3, padding=1))


def refiner(shape: tuple[int, ...], width: int, maps: int = 32) -> nn.Module:
    """From noisy samples to samples, for parties that share those instead of codes."""
    conv = nn.Conv1d if len(shape) == 2 else nn.Conv2d
    inner = maps * width
    return nn.Sequential(
        conv(shape[0], inner, 3, padding=1),
        nn.ReLU(),
        conv(inner, inner, 3, padding=1),
        nn.ReLU(),
        conv(inner, shape[0], 3, padding=1),
    )


def classifier(code: Sequence[int], classes: int, hidden: tuple[int, ...] = (128,)) -> nn.Module:
    """A perceptron on codes of any shape: the C of ARS eq. 6, RAN 2.3, ARL eq. 6."""
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise((prod(code), *hidden)):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear((prod(code), *hidden)[-1], classes))


def critic(shape: tuple[int, ...], width: int = 16) -> nn.Module:
    """D of ARL eq. 2-3: is a picture real?"""
    layers = [conv_coder(shape, (width, 2 * width), 1, normalise=False).encoder("conv2")]
    with torch.no_grad():
        size = layers[0](torch.zeros(1, *shape)).numel()
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(size, 1))


def module_coder(build: Callable[[], nn.Module], shape: tuple[int, ...]) -> Coder:
    """A coder around somebody's encoder; the children of an nn.Sequential are its layers.

    The decoder mirrors it with convolutions where codes are maps, and with linear layers elsewhere.
    """

    def encode() -> Stages:
        module = build()
        named = module.named_children() if isinstance(module, nn.Sequential) else ()
        return dict(named) or {"code": module}

    def decode(shapes: Sequence[tuple[int, ...]], width: int) -> nn.Module:
        ends = [shapes[0], shapes[-1]]
        maps = len(ends[1]) == len(ends[0]) and len(ends[0]) in (2, 3)
        return conv_decoder(ends, width) if maps else dense_decoder(ends, width)

    return Coder(shape, encode, decode)
