"""A translation that can be learned: pixels between the grid's points are interpolated."""

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample


def moved(x: Tensor, by: Tensor) -> Tensor:
    """Images (…, C, H, W) moved right and down by (…, 2) pixels; what comes in repeats the edge."""
    images, size = x.flatten(0, -4), torch.tensor([x.shape[-1], x.shape[-2]], device=x.device)
    still = torch.eye(2, device=x.device, dtype=x.dtype).expand(len(images), 2, 2)
    places = torch.cat([still, (-2 * by.flatten(0, -2) / size).unsqueeze(-1)], dim=-1)
    grid = affine_grid(places, list(images.shape), align_corners=False)
    return grid_sample(images, grid, padding_mode="border", align_corners=False).view_as(x)
