"""What the benchmarks of attacks share: networks, held-out pictures, clients, and the plain loop.

The plain loop is that of the literature, with the settings of the library breaching (its attack
"invertinggradients"): one client at a time, autograd through the gradient, cosine distance, signed
Adam with three falls of the step size, total variation, box, the best point kept. It gets the true
labels. After several local steps it goes through the client's training, as breaching does.

Nothing was chosen on these pictures (CIFAR-100's test pictures from number 200) and weight seeds.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, interpolate
from torchvision.models import VisionTransformer, resnet18

from fedpriv.attacks.inversion.initialisers import box
from fedpriv.catalogue import DATASETS, MODELS
from fedpriv.data.dataset import Dataset
from fedpriv.engine.gradients import gradient_of
from fedpriv.evidence.observation import Observation
from fedpriv.models.group_norm import group_normalised
from fedpriv.state import state_of

TV, REFERENCE_STEPS = 0.1, 1000
FIRST, SEEDS = 200, (11, 12)
LR = 0.1  # of a client that takes several steps
Build = Callable[[Dataset], nn.Module]


def of_registry(name: str, **options: object) -> Build:
    return lambda data: MODELS.build(
        name, options, channels=data.shape[0], size=data.shape[1], classes=data.classes
    )


def small_vit(data: Dataset) -> nn.Module:
    """Four blocks of four heads on patches of 4 × 4."""
    return VisionTransformer(data.shape[1], 4, 4, 4, 64, 128, num_classes=data.classes)


NETS: dict[str, Build] = {
    "dlnet": of_registry("dlnet"),
    "lenet": of_registry("lenet"),
    "resnet20": of_registry("resnet20", init="fan-out"),
    "resnet20-gn": lambda data: group_normalised(of_registry("resnet20", init="fan-out")(data))[0],
    "vit": small_vit,
    "convnet16": of_registry("convnet", width=16),
    "convnet64": of_registry("convnet", width=64),
    "resnet18-64px": lambda data: resnet18(num_classes=data.classes),
}


def built(name: str, data: Dataset, seed: int = SEEDS[0]) -> nn.Module:
    torch.manual_seed(seed)
    return NETS[name](data).eval()


def images() -> Dataset:
    return DATASETS.build("cifar100", {}, root=None)


def enlarged(data: Dataset) -> Dataset:
    """The test images that are used here, twice as large in each direction."""
    x = interpolate(data.x_test[: FIRST + 40].float(), scale_factor=2, mode="bilinear")
    test = x.round().to(torch.uint8)
    return replace(
        data, x_train=test, y_train=data.y_test[: len(x)], x_test=test, y_test=data.y_test[: len(x)]
    )


def observed(
    model: nn.Module, data: Dataset, count: int, batch: int = 1, steps: int = 1, first: int = FIRST
) -> list[Observation]:
    """Clients of `batch` images each: the exact gradient, or the update of so many steps.

    With several steps, each is on one image after the other.
    """
    part = slice(first, first + count * batch)
    x, y = data.normalised(data.x_test[part]), data.y_test[part]
    found = []
    for i in range(count):
        own = slice(i * batch, (i + 1) * batch)
        facts = {
            "classes": data.classes,
            "input_shape": data.shape,
            "mode": "eval",
            "mean": data.mean,
            "std": data.std,
            "node": i,
            "model": model,
            "num_examples": batch,
        }
        sent = state_of(model)
        if steps == 1:
            gradient = gradient_of(model, x[own], y[own])
            one = Observation.of_gradient(sent, gradient, batch_size=batch, **facts)
        else:
            moved = trained(model, dict(model.named_parameters()), x[own], y[own], steps)
            received = sent | {key: value.detach() for key, value in moved.items()}
            one = Observation(
                sent=sent, received=received, lr=LR, local_steps=steps, batch_size=1, **facts
            )
        found.append(one)
    return found


def trained(
    model: nn.Module,
    weights: dict[str, Tensor],
    x: Tensor,
    y: Tensor,
    steps: int,
    differentiable: bool = False,
) -> dict[str, Tensor]:
    """The weights after `steps` steps of SGD, each on one image, one after the other."""
    for step in range(steps):
        at = slice(step % len(x), step % len(x) + 1)
        loss = cross_entropy(functional_call(model, weights, (x[at],)), y[at])
        slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=differentiable)
        weights = {
            key: value - LR * slope
            for (key, value), slope in zip(weights.items(), slopes, strict=True)
        }
    return weights


def sent_by(model: nn.Module, x: Tensor, y: Tensor, steps: int) -> list[Tensor]:
    """What a client with these images would send, as a graph: its gradient, or minus its update."""
    if steps == 1:
        loss = cross_entropy(model(x), y)
        return list(torch.autograd.grad(loss, list(model.parameters()), create_graph=True))
    before = dict(model.named_parameters())
    after = trained(model, before, x, y, steps, differentiable=True)
    return [value - after[key] for key, value in before.items()]


def reference(
    model: nn.Module, seen: Observation, label: Tensor, x: Tensor, steps: int, total: int
) -> Tensor:
    """`steps` of the plain loop's `total` iterations from the start images x (B, C, H, W)."""
    attentive = any(isinstance(part, nn.MultiheadAttention) for part in model.modules())
    gradient = seen.gradient  # worked out anew at each look
    target = [gradient[name] for name, _ in model.named_parameters()]
    size = torch.stack([value.square().sum() for value in target]).sum().sqrt()
    low, high = box(seen)
    x = x.clone().requires_grad_()
    adam = torch.optim.Adam([x], lr=0.1)
    schedule = torch.optim.lr_scheduler.MultiStepLR(
        adam, [total * 3 // 8, total * 5 // 8, total * 7 // 8], 0.1
    )
    best, least = x.detach().clone(), torch.inf
    for _ in range(steps):
        adam.zero_grad()
        with sdpa_kernel(SDPBackend.MATH) if attentive else nullcontext():
            found = sent_by(model, x, label, seen.local_steps)
        dot = torch.stack([(a * b).sum() for a, b in zip(found, target, strict=True)]).sum()
        own = torch.stack([value.square().sum() for value in found]).sum().sqrt()
        rough = x.diff(dim=-1).abs().mean() + x.diff(dim=-2).abs().mean()
        value = 1 - dot / (own * size) + TV * rough
        value.backward(inputs=[x])
        if value.item() < least:
            best, least = x.detach().clone(), value.item()
        assert x.grad is not None
        x.grad.sign_()
        adam.step()
        schedule.step()
        with torch.no_grad():
            x.clamp_(low, high)
    return best


def start(data: Dataset, batch: int, number: int) -> Tensor:
    """Where the search on client `number` starts from (B, C, H, W)."""
    stream = torch.Generator().manual_seed(1000 + number)
    return torch.randn(batch, *data.shape, generator=stream)
