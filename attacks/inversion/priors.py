"""What images look like, before any gradient is seen. A prior: (x, victims) -> (V,)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from fedpriv.evidence.victims import Victims

Prior = Callable[[Tensor, Victims], Tensor]


def flat(x: Tensor, victims: Victims) -> Tensor:
    """No preference."""
    return x.new_zeros(len(x))


def total_variation(x: Tensor) -> Tensor:
    """mean |∂x| + mean |∂y| per victim; x: (V, B, C, H, W)."""
    across = x.diff(dim=-1).abs().flatten(1).mean(1)
    return across + x.diff(dim=-2).abs().flatten(1).mean(1)


@dataclass(frozen=True)
class TotalVariation:
    """Neighbouring pixels are alike; nothing is asked of what is no image."""

    weight: float

    def __call__(self, x: Tensor, victims: Victims) -> Tensor:
        return self.weight * total_variation(x) if x.ndim == 5 else flat(x, victims)

    def with_slope(self, x: Tensor, victims: Victims) -> tuple[Tensor, Tensor]:
        """The same and its derivative, which is what the signs of differences add up to."""
        slope = torch.zeros_like(x)
        if x.ndim != 5:
            return flat(x, victims), slope
        values = x.new_zeros(len(x))
        for axis in (-1, -2):
            step = x.diff(dim=axis)
            size = step[0].numel()
            values += torch.linalg.vector_norm(step.flatten(1), 1, 1) / size
            step.sign_().mul_(self.weight / size)
            length = step.shape[axis]
            slope.narrow(axis, 1, length).add_(step)
            slope.narrow(axis, 0, length).sub_(step)
        return self.weight * values, slope


def tv(weight: float) -> Prior:
    return TotalVariation(weight)


def with_slope(prior: Prior, x: Tensor, victims: Victims) -> tuple[Tensor, Tensor]:
    """A prior's values (V,) and their derivatives with respect to x."""
    if isinstance(prior, TotalVariation):
        return prior.with_slope(x, victims)
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        values = prior(x, victims)
        slope = torch.autograd.grad(values.sum(), x)[0] if values.requires_grad else None
    return values.detach(), torch.zeros_like(x) if slope is None else slope


def norm(weight: float) -> Prior:
    """Values are small: weight · mean x²."""
    return lambda x, victims: weight * x.square().flatten(1).mean(1)


def group(weight: float) -> Prior:
    """Restarts of one victim agree: the squared distance to their mean (GradInversion)."""

    def penalty(x: Tensor, victims: Victims) -> Tensor:
        numbers = {name: i for i, name in enumerate(dict.fromkeys(victims.names))}
        member = torch.tensor([numbers[name] for name in victims.names], device=x.device)
        sums = x.new_zeros(len(numbers), *x.shape[1:]).index_add(0, member, x.detach())
        sizes = torch.bincount(member).to(x)
        means = sums / sizes.view(-1, *[1] * (x.ndim - 1))
        return weight * (x - means[member]).square().flatten(1).mean(1)

    return penalty


def batch_statistics(weight: float) -> Prior:
    """Feature means and variances are those of the BatchNorm layers (GradInversion).

    A client that trains in train mode moves its running statistics by `momentum` towards those of
    its batch and sends them back: for one local step the batch's own are read off exactly.
    """

    def penalty(x: Tensor, victims: Victims) -> Tensor:
        wanted = _statistics(victims)
        if not wanted:
            return flat(x, victims)
        found: dict[str, tuple[Tensor, Tensor]] = {}
        hooks = [
            module.register_forward_pre_hook(_collect(found, path))
            for path, module in victims.model.named_modules()
            if path in wanted
        ]
        try:
            terms = []
            for row in range(len(x)):
                state = {
                    key: value if victims.shared else value[row]
                    for key, value in {**victims.weights, **victims.buffers}.items()
                }
                functional_call(victims.model, state, (x[row],))
                gaps = [
                    (found[path][0] - mean[row]).square().mean()
                    + (found[path][1] - var[row]).square().mean()
                    for path, (mean, var) in wanted.items()
                ]
                terms.append(torch.stack(gaps).sum())
        finally:
            for hook in hooks:
                hook.remove()
        return weight * torch.stack(terms)

    return penalty


def _collect(
    found: dict[str, tuple[Tensor, Tensor]], path: str
) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
    def hook(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        a = args[0].transpose(0, 1).flatten(1)
        found[path] = (a.mean(1), a.var(1, unbiased=False))

    return hook


def _statistics(victims: Victims) -> dict[str, tuple[Tensor, Tensor]]:
    """(V, C) means and variances per BatchNorm layer."""
    wanted = {}
    for path, module in victims.model.named_modules():
        key = f"{path}.running_mean"
        if not isinstance(module, _BatchNorm) or key not in victims.delta:
            continue
        pair = []
        for kind in ("running_mean", "running_var"):
            moved = victims.delta[f"{path}.{kind}"]
            start = torch.stack([seen.sent[f"{path}.{kind}"].float() for seen in victims.each])
            exact = victims.facts.mode == "train" and victims.facts.local_steps == 1
            pair.append(start + moved / (module.momentum or 0.1) if exact else start + moved)
        wanted[path] = (pair[0], pair[1])
    return wanted


def total(*priors: Prior) -> Prior:
    """The sum of priors is a prior."""
    if len(priors) == 1:
        return priors[0]
    return lambda x, victims: torch.stack([prior(x, victims) for prior in priors]).sum(0)
