"""The fifty transformations of ATS table 5, by number, on batches of images.

`transformed` takes uint8 images and agrees with Pillow within one grey level. `smoothed` takes
floats in [0, 1] and lets gradients through, for an attacker who searches behind a policy; where an
operation has no useful slope (posterize, equalize) the gradient passes straight through.

Departures from the released code: a turn goes either way (there it always goes the same way) and
fills with black like the other geometric operations (there with grey).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedpriv.errors import BadData
from fedpriv.policies.resampling import gathered, shear_down, shift, turn

Operation = Callable[[Tensor, float], Tensor]
ENHANCEMENT = 0.5  # as released; the public AutoAugment port goes up to 0.9
SMALLEST = 8  # pixels a side: below, shifts and turns of table 5 round to nothing

_RANGES = {  # magnitude 0 to 9 is linear between the two
    "shearY": (0.0, 0.3),
    "translateX": (0.0, 150 / 331),
    "translateY": (0.0, 150 / 331),
    "rotate": (0.0, 30.0),
    "posterize": (8.0, 4.0),
    "solarize": (256.0, 0.0),
}
_ENHANCING = frozenset({"color", "contrast", "sharpness", "brightness"})
_GEOMETRIC = frozenset({"shearY", "translateX", "translateY", "rotate"})


@dataclass(frozen=True)
class Transformation:
    """One row of ATS table 5: an operation and a magnitude from 0 to 9."""

    operation: str
    magnitude: int

    @property
    def signed(self) -> bool:
        """Whether the direction is drawn at random."""
        return self.operation in _ENHANCING | _GEOMETRIC

    def strength(self, sign: int = 1, enhancement: float = ENHANCEMENT) -> float:
        """What the operation is called with: degrees, a slope, a factor, bits, a threshold …"""
        share = self.magnitude / 9
        if self.operation in _ENHANCING:
            return 1 + sign * enhancement * share
        if self.operation not in _RANGES:
            return 0.0
        low, high = _RANGES[self.operation]
        value = low + (high - low) * share
        return sign * value if self.operation in _GEOMETRIC else value

    def __str__(self) -> str:
        return f"{self.operation} {self.magnitude}"


_TABLE_5 = """
invert 7, contrast 6, rotate 2, translateX 9, sharpness 1, sharpness 3, shearY 2, translateY 2,
autocontrast 5, equalize 2, shearY 5, posterize 5, color 3, brightness 5, sharpness 9, brightness 9,
equalize 5, equalize 1, contrast 7, sharpness 5, color 5, translateX 5, equalize 7, autocontrast 8,
translateY 3, sharpness 6, brightness 6, color 8, solarize 0, invert 0, equalize 0, autocontrast 0,
equalize 8, equalize 4, color 5, equalize 5, autocontrast 4, solarize 4, brightness 3, color 0,
solarize 1, autocontrast 0, translateY 3, translateY 4, autocontrast 1, solarize 1, equalize 5,
invert 1, translateY 3, autocontrast 1
"""
TRANSFORMATIONS = tuple(
    Transformation(operation, int(magnitude))
    for operation, magnitude in (row.split() for row in _TABLE_5.split(","))
)


def _by_torchvision(name: str, *, takes_value: bool) -> Operation:
    """An operation of torchvision, which takes seconds to import: only when it is first used."""

    def operation(x: Tensor, value: float) -> Tensor:
        from torchvision.transforms.v2 import functional

        kernel = getattr(functional, name)
        found: Tensor = kernel(x, value) if takes_value else kernel(x)
        return found

    return operation


def _posterize(x: Tensor, bits: float) -> Tensor:
    return _by_torchvision("posterize", takes_value=True)(x, round(bits))


def _shift_x(x: Tensor, share: float) -> Tensor:
    height, width = x.shape[-2:]
    return gathered(x, shift(share * width, 0.0, height, width))


def _shift_y(x: Tensor, share: float) -> Tensor:
    height, width = x.shape[-2:]
    return gathered(x, shift(0.0, share * height, height, width))


def _shear_y(x: Tensor, slope: float) -> Tensor:
    return gathered(x, shear_down(slope, *x.shape[-2:]))


def _rotate(x: Tensor, degrees: float) -> Tensor:
    return gathered(x, turn(degrees, *x.shape[-2:]))


def _solarize(x: Tensor, threshold: float) -> Tensor:
    top = 1.0 if x.is_floating_point() else 255
    return torch.where(x >= threshold * top / 255, top - x, x)


PLAIN: dict[str, Operation] = {
    "shearY": _shear_y,
    "translateX": _shift_x,
    "translateY": _shift_y,
    "rotate": _rotate,
    "color": _by_torchvision("adjust_saturation", takes_value=True),
    "contrast": _by_torchvision("adjust_contrast", takes_value=True),
    "sharpness": _by_torchvision("adjust_sharpness", takes_value=True),
    "brightness": _by_torchvision("adjust_brightness", takes_value=True),
    "posterize": _posterize,
    "solarize": _solarize,
    "autocontrast": _by_torchvision("autocontrast", takes_value=False),
    "equalize": _by_torchvision("equalize", takes_value=False),
    "invert": _by_torchvision("invert", takes_value=False),
}


def straight_through(x: Tensor, y: Tensor) -> Tensor:
    """The values of `y` with the gradient of `x`."""
    return x + (y - x).detach()


def _stretched(x: Tensor, _: float) -> Tensor:
    low, high = x.amin((-2, -1), keepdim=True), x.amax((-2, -1), keepdim=True)
    flat = high == low
    return torch.where(flat, x, (x - low) / torch.where(flat, 1, high - low))


def _sharpened(x: Tensor, factor: float) -> Tensor:
    """torchvision's works in place, which autograd refuses; borders stay as they are."""
    flat = x.flatten(0, -3)[:, None]
    kernel = flat.new_tensor([[1, 1, 1], [1, 5, 1], [1, 1, 1]])[None, None] / 13
    blurred = nn.functional.conv2d(flat, kernel)
    change = nn.functional.pad(blurred - flat[..., 1:-1, 1:-1], (1, 1, 1, 1))
    return (flat + (1 - factor) * change).clamp(0, 1).view(x.shape)


def _levels(x: Tensor) -> Tensor:
    return (x.detach() * 255).round().clamp(0, 255).to(torch.uint8)


def _stepped(operation: Operation) -> Operation:
    return lambda x, value: straight_through(x, operation(_levels(x), value).to(x.dtype) / 255)


SMOOTH: dict[str, Operation] = PLAIN | {
    "autocontrast": _stretched,
    "sharpness": _sharpened,
    "equalize": _stepped(PLAIN["equalize"]),
    "posterize": _stepped(PLAIN["posterize"]),
}


def check_images(x: Tensor) -> None:
    """BadData unless `x` holds grey or colour images that are large enough to transform."""
    if x.ndim < 3 or x.shape[-3] not in (1, 3):
        raise BadData(
            f"Policies transform images of 1 or 3 channels, (…, C, H, W); got {tuple(x.shape)}."
        )
    if min(x.shape[-2:]) < SMALLEST:
        height, width = x.shape[-2:]
        raise BadData(
            f"Policies need images of at least {SMALLEST} by {SMALLEST} pixels, got {height} by "
            f"{width}; enlarge them or leave the policy out."
        )


def transformed(x: Tensor, number: int, sign: int = 1, enhancement: float = ENHANCEMENT) -> Tensor:
    """uint8 images (…, C, H, W) after transformation `number` in the direction `sign`."""
    row = TRANSFORMATIONS[number]
    return PLAIN[row.operation](x, row.strength(sign, enhancement))


def smoothed(x: Tensor, number: int, sign: int = 1, enhancement: float = ENHANCEMENT) -> Tensor:
    """The same on floats in [0, 1], differentiable."""
    row = TRANSFORMATIONS[number]
    return SMOOTH[row.operation](x, row.strength(sign, enhancement))
