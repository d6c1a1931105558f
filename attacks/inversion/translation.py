"""Images moved and resized by differentiable functions, which interpolate between pixels."""

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, affine_grid, grid_sample, interpolate


def moved(x: Tensor, by: Tensor) -> Tensor:
    """Images (…, C, H, W) moved right and down by (…, 2) pixels; what comes in repeats the edge."""
    images, size = x.flatten(0, -4), torch.tensor([x.shape[-1], x.shape[-2]], device=x.device)
    still = torch.eye(2, device=x.device, dtype=x.dtype).expand(len(images), 2, 2)
    places = torch.cat([still, (-2 * by.flatten(0, -2) / size).unsqueeze(-1)], dim=-1)
    grid = affine_grid(places, list(images.shape), align_corners=False)
    return grid_sample(images, grid, padding_mode="border", align_corners=False).view_as(x)


def shrunk(x: Tensor, by: int) -> Tensor:
    """Images (V, B, C, H, W), `by` times smaller in each direction, as means of their pixels."""
    height, width = (max(1, side // by) for side in x.shape[-2:])
    found: Tensor = adaptive_avg_pool2d(x.flatten(0, 1), (height, width)).unflatten(0, x.shape[:2])
    return found


def enlarged(x: Tensor, size: torch.Size) -> Tensor:
    """Images (V, B, C, h, w) with `size` pixels, by bilinear interpolation."""
    whole = interpolate(x.flatten(0, 1), (size[0], size[1]), mode="bilinear", align_corners=False)
    found: Tensor = whole.unflatten(0, x.shape[:2])
    return found
