"""GroupNorm in the place of BatchNorm, for training that may not mix samples."""

import math

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

MOST_GROUPS = 32


def group_normalised(model: nn.Module) -> tuple[nn.Module, int]:
    """The model with GroupNorm for each BatchNorm, and how many were replaced."""
    replaced = 0
    for name, part in model.named_children():
        if isinstance(part, _BatchNorm):
            groups = math.gcd(MOST_GROUPS, part.num_features)
            setattr(model, name, nn.GroupNorm(groups, part.num_features, affine=part.affine))
            replaced += 1
        else:
            replaced += group_normalised(part)[1]
    return model, replaced
