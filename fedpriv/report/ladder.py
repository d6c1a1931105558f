"""One sample at 10, 15, 20, 25 and 30 dB, so that a bound on PSNR can be judged by eye."""

import base64
import io

import numpy as np
from PIL import Image

from fedpriv.report.blocks import Tile
from fedpriv.report.gallery import picture_uri
from fedpriv.rng import seed_of

STEPS = (10, 15, 20, 25, 30)  # dB
HALVINGS = 40


def ladder(original: str, bound: float | None) -> Tile:
    """The sample of a data URI under white noise of five strengths; the bound is marked."""
    pixels = pixels_of(original)
    parts = tuple(
        (f"{step} dB" + (" (bound)" if step == bound else ""), picture_uri(at(pixels, step)))
        for step in STEPS
    )
    words = (
        "How to read PSNR: the same sample under white noise of five strengths. Judge for yourself "
        "from where on you know it again."
    )
    return Tile(words, (("original", original), *parts))


def at(pixels: np.ndarray, decibels: float) -> np.ndarray:
    """Pixels in [0, 1] with noise on them that leaves this PSNR, after they were cut to [0, 1]."""
    noise = np.random.default_rng(seed_of(0, "ladder")).standard_normal(pixels.shape)
    wanted = 10 ** (-decibels / 10)
    low, high = 0.0, 64.0  # the noise's strength; more of it never brings the error down
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        error = float(np.square(np.clip(pixels + middle * noise, 0, 1) - pixels).mean())
        low, high = (middle, high) if error < wanted else (low, middle)
    return np.clip(pixels + low * noise, 0, 1)


def pixels_of(uri: str) -> np.ndarray:
    """(C, H, W) in [0, 1] of a PNG's data URI."""
    with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as image:
        plain = np.asarray(image, dtype=np.float64) / 255
    return plain[None] if plain.ndim == 2 else np.moveaxis(plain, -1, 0)
