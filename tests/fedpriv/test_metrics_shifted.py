"""PSNR up to a move, against a slow loop."""

import pytest
import torch

from fedpriv.catalogue import METRICS
from fedpriv.errors import BadInput
from fedpriv.metrics.images import psnr
from fedpriv.metrics.shifted import shifted_psnr
from fedpriv.rng import generator


def looped(a, b):
    """The best PSNR of the common part, move by move."""
    best, (_, height, width) = -100.0, a.shape
    for down in range(1 - height, height):
        for right in range(1 - width, width):
            rows, columns = height - abs(down), width - abs(right)
            if rows * columns < 0.5 * height * width:
                continue
            one = a[:, max(down, 0) :, max(right, 0) :][:, :rows, :columns]
            other = b[:, max(-down, 0) :, max(-right, 0) :][:, :rows, :columns]
            best = max(best, psnr(one[None], other[None]).item())
    return best


def test_it_is_the_best_over_all_moves():
    draw = generator(0, "shifted")
    a, b = (torch.rand(3, 2, 6, 7, generator=draw) for _ in range(2))
    expected = [looped(*pair) for pair in zip(a, b, strict=True)]
    assert shifted_psnr(a, b).tolist() == pytest.approx(expected, abs=1e-6)


def test_a_moved_copy_is_a_copy():
    truth = torch.rand(1, 3, 32, 32, generator=generator(0, "moved"))
    guess = torch.zeros_like(truth)
    guess[..., 5:, :-9] = truth[..., :-5, 9:]
    metric = METRICS.build("psnr-shifted")
    assert psnr(guess, truth).item() < 10
    assert metric(guess, truth).item() > 90
    assert metric(truth, truth).item() > 90


def test_other_shapes_are_refused():
    with pytest.raises(BadInput, match="can be moved"):
        shifted_psnr(torch.zeros(2, 5), torch.zeros(2, 5))
