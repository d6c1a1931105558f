"""Planted clients: what the victims' protocol makes of samples that the attacker chose itself."""

from dataclasses import replace

import torch
from torch import Generator, Tensor
from torch.nn.functional import avg_pool2d, interpolate

from fedpriv.attacks.inversion.initialisers import normalised
from fedpriv.attacks.inversion.labels import only_class
from fedpriv.errors import BadOption
from fedpriv.evidence.victims import Victims
from fedpriv.rng import generator
from fedpriv.state import State


def leaves(count: int, shape: tuple[int, ...], stream: Generator, many: int = 40) -> Tensor:
    """Made-up pictures (count, C, H, W) in [0, 1] with the edges and surfaces of photographs.

    Discs of random place, size and colour cover each other, a wide light lies over them, and a
    little blur takes the steps off the edges.
    """
    channels, height, width = shape
    rows = torch.arange(height).view(-1, 1) / height
    columns = torch.arange(width).view(1, -1) / width
    base = torch.rand(count, channels, 1, 1, generator=stream)
    x = base.expand(count, *shape).clone()
    for _ in range(many):
        # Sizes follow a power law, as those of things in photographs do.
        radius = 0.06 / (torch.rand(count, 1, 1, generator=stream) + 0.08)
        place = torch.rand(2, count, 1, 1, generator=stream)
        inside = (rows - place[0]).square() + (columns - place[1]).square() < radius.square()
        grey = torch.rand(count, 1, 1, 1, generator=stream)
        tint = 0.25 * torch.randn(count, channels, 1, 1, generator=stream)
        x = torch.where(inside.unsqueeze(1), (grey + tint).clamp(0, 1), x)
    light = torch.rand(count, 1, 3, 3, generator=stream) * 0.5 + 0.6
    x = x * interpolate(light, (height, width), mode="bilinear", align_corners=True)
    if min(height, width) >= 8:
        x = avg_pool2d(x, 3, 1, 1, count_include_pad=False)
    return x.clamp(0, 1)


def samples(victims: Victims, count: int, seed: int, public: Tensor | None) -> Tensor:
    """(count, slots, …) as the model takes them: public ones, or made up."""
    facts = victims.facts
    stream = generator(seed, "control")
    total = count * victims.slots
    if public is not None:
        if tuple(public.shape[1:]) != tuple(facts.input_shape) or len(public) < victims.slots:
            raise BadOption(
                f"public samples must be at least {victims.slots} of the shape "
                f"{facts.input_shape}, "
                f"got {tuple(public.shape)}."
            )
        chosen = torch.randperm(len(public), generator=stream)[torch.arange(total) % len(public)]
        x = public[chosen]
    elif len(facts.input_shape) == 3:
        x = normalised(leaves(total, facts.input_shape, stream), facts)
    else:
        x = normalised(torch.rand(total, *facts.input_shape, generator=stream), facts)
    found: Tensor = x.unflatten(0, (count, victims.slots)).to(victims.device)
    return found


def planted(
    victims: Victims, count: int, seed: int = 0, public: Tensor | None = None
) -> tuple[Victims, Tensor, Tensor]:
    """`count` clients of the first victim's protocol and model, and their samples and labels.

    Their updates are what the victims would have sent for these samples: as many local steps, the
    same optimiser, the same precision, and as many zeros in each parameter.
    """
    facts = victims.facts
    like = victims.rows([0] * count)
    x = samples(victims, count, seed, public)
    stream = generator(seed, "control labels")
    y = torch.randint(facts.classes, (count, victims.slots), generator=stream).to(victims.device)
    if (only := only_class(victims)) is not None:
        y = torch.full_like(y, only)
    with torch.no_grad():
        delta = _sent_back(like, x, y)
    delta = {key: _as_sparse(value, like.delta[key]) for key, value in delta.items()}
    names = tuple(f"control-{i}" for i in range(count))
    return replace(like, delta=delta, names=names), x, y


def _sent_back(victims: Victims, x: Tensor, y: Tensor) -> State:
    facts = victims.facts
    if facts.local_steps > 1 or facts.optimiser != "sgd":
        return victims.update_at(x, y)
    scale = facts.lr * (1 + facts.momentum * facts.nesterov)
    found = {}
    for key, gradient in victims.gradient_at(x, y).items():
        w = victims.weights[key]
        moved = -scale * (gradient + facts.weight_decay * w)
        exact = facts.received[key].dtype == torch.float64
        found[key] = moved if exact else (w + moved) - w
    return found


def _as_sparse(value: Tensor, seen: Tensor) -> Tensor:
    """Keep only as many of the largest elements as the victim's update has that are not zero."""
    kept = int((seen[0] != 0).sum())
    if kept >= 0.98 * seen[0].numel():
        return value
    if not kept:
        return torch.zeros_like(value)
    least = value.flatten(1).abs().topk(kept, dim=1).values[:, -1:]
    return torch.where(value.flatten(1).abs() >= least, value.flatten(1), 0).view_as(value)
