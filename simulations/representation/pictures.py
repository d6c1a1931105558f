"""Pictures of what decoders saw: originals above, guesses below."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.utils import make_grid

from fedpriv.files import whole

SHOWN = 8


def save_pair(path: Path, truth: Tensor, guess: Tensor) -> None:
    """Write the first samples of two batches of pictures in [0, 1] as one PNG."""
    rows = torch.cat([truth[:SHOWN], guess[:SHOWN]]).float()
    grid = make_grid(rows, nrow=min(SHOWN, len(truth)), padding=1, pad_value=1.0)
    pixels = (grid.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    with whole(path) as beside:
        Image.fromarray(np.ascontiguousarray(pixels)).save(beside, format="PNG")
