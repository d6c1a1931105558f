"""By how much a client's gradients differ from those of the plain mean loss of its batch.

Gradients that are added up over several batches, a loss that is a sum, and clipping all make a
step longer or shorter than its learning rate says.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

LOSSES: Mapping[str, Callable[..., Tensor]] = {
    "cross-entropy": functional.cross_entropy,
    "nll": functional.nll_loss,
    "bce": functional.binary_cross_entropy,
    "bce-with-logits": functional.binary_cross_entropy_with_logits,
    "mse": functional.mse_loss,
    "l1": functional.l1_loss,
    "smooth-l1": functional.smooth_l1_loss,
    "huber": functional.huber_loss,
}
ALIKE = 0.999  # cosine from which two gradients point the same way
NEAR = 0.02  # a factor that differs less from 1 is 1


def factor_of(
    chain: Sequence[tuple[nn.Module, tuple[int, ...]]], x: Tensor, y: Tensor, loss: str
) -> float:
    """The factor between the gradients that are there and the mean loss's own; 1 if unlike.

    They are unlike where dropout, noise or another loss made them. Nothing of the model changes.
    """
    own = {id(p): p for module, _ in chain for p in module.parameters() if p.requires_grad}
    there = [p for p in own.values() if p.grad is not None]
    if loss not in LOSSES or not there or hooked(chain):
        return 1.0
    devices = [there[0].device] if there[0].is_cuda else []
    with torch.random.fork_rng(devices), torch.enable_grad():
        try:
            out = x
            for module, shape in chain:
                buffers = {name: value.clone() for name, value in module.named_buffers()}
                out = functional_call(module, buffers, (out.reshape(len(out), *shape),))
            value = LOSSES[loss](out, y.reshape(out.shape) if y.numel() == out.numel() else y)
            found = torch.autograd.grad(value, there, allow_unused=True)
        except (RuntimeError, ValueError, IndexError, TypeError, AttributeError):
            return 1.0  # a model of several inputs, or a loss of something else than its output
    pairs = [(p.grad, g) for p, g in zip(there, found, strict=True) if g is not None]
    if not pairs:
        return 1.0
    theirs = torch.cat([grad.detach().flatten().double() for grad, _ in pairs if grad is not None])
    ours = torch.cat([g.flatten().double() for _, g in pairs])
    size, product = float(ours.norm()), float(theirs @ ours)
    if not size or not float(theirs.norm()) or product < ALIKE * size * float(theirs.norm()):
        return 1.0
    factor = product / size**2
    return 1.0 if abs(factor - 1) < NEAR else factor


def hooked(chain: Sequence[tuple[nn.Module, tuple[int, ...]]]) -> bool:
    """Whether a module has hooks, as Opacus sets them: another call would disturb them."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(
        getattr(each, kind) for part, _ in chain for each in part.modules() for kind in kinds
    )
