"""The fifty transformations of ATS table 5 against Pillow, and their differentiable forms."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from fedpriv.errors import BadData
from fedpriv.policies.transforms import TRANSFORMATIONS, check_images, smoothed, transformed

NUMBERS = range(len(TRANSFORMATIONS))
SIZES = [(1, 28, 28), (3, 32, 32), (3, 24, 40), (3, 48, 48)]


def images(channels: int, height: int, width: int) -> Tensor:
    """Noise, a smooth picture, a dull one and a black one."""
    noise = torch.rand((1, channels, height, width), generator=torch.Generator().manual_seed(3))
    smooth = torch.nn.functional.avg_pool2d(noise, 5, 1, 2)
    pictures = torch.cat([noise, smooth, 0.25 + smooth / 4, torch.zeros_like(noise)])
    return (pictures * 255).to(torch.uint8)


def by_pillow(x: Tensor, number: int, sign: int) -> Tensor:
    row = TRANSFORMATIONS[number]
    value = row.strength(sign)
    array = x.permute(1, 2, 0).numpy()
    image = Image.fromarray(array[:, :, 0] if len(x) == 1 else array)
    width, height = image.size

    def affine(matrix, kernel):
        return image.transform(image.size, Image.Transform.AFFINE, matrix, kernel, fillcolor=black)

    black = 0 if len(x) == 1 else (0, 0, 0)
    nearest, cubic = Image.Resampling.NEAREST, Image.Resampling.BICUBIC
    out = {
        "shearY": lambda: affine((1, 0, 0, value, 1, 0), cubic),
        "translateX": lambda: affine((1, 0, value * width, 0, 1, 0), nearest),
        "translateY": lambda: affine((1, 0, 0, 0, 1, value * height), nearest),
        "rotate": lambda: image.rotate(value, fillcolor=black),
        "color": lambda: ImageEnhance.Color(image).enhance(value),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(value),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(value),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(value),
        "posterize": lambda: ImageOps.posterize(image, round(value)),
        "solarize": lambda: ImageOps.solarize(image, value),
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "invert": lambda: ImageOps.invert(image),
    }[row.operation]()
    array = np.array(out)
    return torch.from_numpy(array if array.ndim == 3 else array[:, :, None]).permute(2, 0, 1)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("number", NUMBERS)
def test_equals_pillow_within_one_grey_level(number, sign):
    for size in SIZES:
        x = images(*size)
        ours = transformed(x, number, sign)
        pillow = torch.stack([by_pillow(image, number, sign) for image in x])
        assert ours.dtype == torch.uint8 and ours.shape == x.shape
        assert (ours.int() - pillow.int()).abs().max() <= 1


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("number", NUMBERS)
def test_the_differentiable_form_shows_the_same_picture(number, sign):
    x = images(3, 32, 32)
    levels = smoothed(x.double() / 255, number, sign) * 255
    assert (levels - transformed(x, number, sign)).abs().max() <= 2


@pytest.mark.parametrize("number", NUMBERS)
def test_a_gradient_reaches_the_picture_behind(number):
    x = (0.3 + images(3, 12, 12)[1:2].double() / 1000).requires_grad_()
    smoothed(x, number, -1).square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert (x.grad != 0).double().mean() > 0.4


def test_the_slope_of_every_smooth_operation_is_its_own():
    x = 0.3 + torch.rand((1, 3, 8, 8), generator=torch.Generator().manual_seed(1)).double() * 0.3
    steps = {"posterize", "equalize"}  # their gradient passes straight through
    for number in {row.operation: n for n, row in enumerate(TRANSFORMATIONS)}.values():
        if TRANSFORMATIONS[number].operation not in steps:
            assert torch.autograd.gradcheck(
                lambda x, n=number: smoothed(x, n, 1), x.clone().requires_grad_(), eps=1e-7
            )


def test_table_5_has_the_papers_rows():
    assert len(TRANSFORMATIONS) == 50
    named = {n: str(TRANSFORMATIONS[n]) for n in (0, 1, 3, 7, 11, 18, 21, 28, 43, 49)}
    assert named == {
        0: "invert 7",
        1: "contrast 6",
        3: "translateX 9",
        7: "translateY 2",
        11: "posterize 5",
        18: "contrast 7",
        21: "translateX 5",
        28: "solarize 0",
        43: "translateY 4",
        49: "autocontrast 1",
    }
    assert TRANSFORMATIONS[11].strength() == pytest.approx(8 - 4 * 5 / 9)
    assert TRANSFORMATIONS[18].strength(-1, enhancement=0.9) == pytest.approx(1 - 0.7)


def test_directions_differ_exactly_where_a_sign_is_drawn():
    x = images(3, 32, 32)[:2]
    for number, row in enumerate(TRANSFORMATIONS):
        same = torch.equal(transformed(x, number, 1), transformed(x, number, -1))
        assert same == (not row.signed or row.magnitude == 0)


@pytest.mark.parametrize("shape", [(2, 3, 7, 32), (2, 3, 32, 4), (2, 2, 32, 32), (32, 32)])
def test_what_cannot_be_transformed_is_refused(shape):
    with pytest.raises(BadData, match=r"at least 8 by 8|1 or 3 channels"):
        check_images(torch.zeros(shape, dtype=torch.uint8))
