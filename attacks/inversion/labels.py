"""Guesses of the labels: read from the last layer's gradient, or searched for along with x."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fedpriv.attacks.analytic.head import head_of, last_biases, linear_heads, single_output
from fedpriv.attacks.inversion.label_steps import over_steps
from fedpriv.errors import BadOption
from fedpriv.evidence.victims import Victims
from fedpriv.rng import generator

LabelGuess = Callable[[Victims, Sequence[int], int], Tensor]  # victims, their restarts, seed


def joint(victims: Victims, restarts: Sequence[int], seed: int) -> Tensor:
    """Logits (V, B, C) at random, to be searched for together with x (DLG, SPN alg. 5)."""
    shape = (victims.slots, victims.facts.classes)
    drawn = [
        torch.randn(shape, generator=generator(seed, "labels", name, restart))
        for name, restart in zip(victims.names, restarts, strict=True)
    ]
    return torch.stack(drawn).to(victims.device)


def sign_counts(bias_gradient: Tensor) -> Tensor:
    """The one class whose bias gradient is negative, p − 1 against p (iDLG); (V, C) -> (V,)."""
    return bias_gradient.argmin(1)


def evidence(weight: Tensor, bias: Tensor | None) -> Tensor:
    """(V, C) with the sign of the bias gradient: itself, or the row sums where there is no bias.

    Features behind a ReLU or a sigmoid are not negative, so that a row's sum has its delta's sign.
    """
    return weight.sum(2) if bias is None else bias


def class_counts(weight: Tensor, bias: Tensor, own: Tensor, own_bias: Tensor, batch: int) -> Tensor:
    """How many samples of each class the batch held: n = B (p̄ − ∇b), rounded to add up to B.

    p̄ is what the model says of the batch's mean features, which the rows of absent classes give as
    ∇W/∇b (the idea of iLRG). weight: (V, C, F), bias: (V, C); own, own_bias: the head itself.
    """
    absent = bias.clamp_min(0)
    features = (weight * (absent > 0).unsqueeze(2)).sum(1) / absent.sum(1, keepdim=True).clamp_min(
        1e-20
    )
    chances = torch.einsum("vf,vcf->vc", features, own.expand(len(bias), -1, -1))
    chances = (chances + own_bias).softmax(1)
    wanted = batch * (chances - bias)
    counts = wanted.clamp_min(0).floor()
    for row, (count, want) in enumerate(zip(counts, wanted, strict=True)):
        missing = batch - int(count.sum())
        order = (want - count).argsort(descending=missing > 0)
        for step in range(abs(missing)):
            candidates = order if missing > 0 else order[count[order] > 0]
            counts[row, candidates[step % len(candidates)]] += 1 if missing > 0 else -1
    return counts.long()


def from_sign(victims: Victims, restarts: Sequence[int], seed: int) -> Tensor:
    """Class indices (V, B) from the last layer: exact for one sample, counts for more (iDLG, iLRG).

    After several local steps they come in the order of the steps. Of a model that ends in a
    convolution the smallest bias gradients are taken.
    """
    if (only := only_class(victims)) is not None:
        return torch.full((len(victims), victims.slots), only, device=victims.device)
    if not linear_heads(victims) and (one := single_output(victims)) is not None:
        return _of_two(victims, one)
    if not linear_heads(victims) and (biases := last_biases(victims)) is not None:
        order = biases.argsort(1)
        return order[:, torch.arange(victims.slots) % order.shape[1]].sort(1).values
    read = _from_mean_gradient(victims)
    return over_steps(victims, read, seed) if victims.facts.local_steps > 1 else read


def only_class(victims: Victims) -> int | None:
    """The class of all samples, where the model says that there is one (as of an autoencoder)."""
    found = getattr(victims.model, "only_class", None)
    return found if isinstance(found, int) else None


def _of_two(victims: Victims, path: str) -> Tensor:
    """Labels (V, B) of two classes from a layer with one output, as if it had a row for each."""
    prefix = f"{path}." if path else ""
    rows = {}
    for name, axis in (("weight", -2), ("bias", -1)):
        gradient, own = victims.gradient[prefix + name], victims.weights[prefix + name]
        rows[name] = torch.cat([-gradient, gradient], axis)
        rows[f"own {name}"] = torch.cat([torch.zeros_like(own), own], axis)
    counts = class_counts(
        rows["weight"], rows["bias"], rows["own weight"], rows["own bias"], victims.slots
    )
    return torch.stack([torch.arange(2, device=counts.device).repeat_interleave(n) for n in counts])


def _from_mean_gradient(victims: Victims) -> Tensor:
    head, batch = head_of(victims), victims.slots
    if batch == 1:
        return sign_counts(evidence(head.weight, head.bias)).unsqueeze(1)
    prefix = f"{head.path}." if head.path else ""
    own = victims.weights[f"{prefix}weight"]
    if head.bias is None:
        seen = evidence(head.weight, None)
        order = seen.argsort(1)[:, : min(batch, seen.shape[1])]
        return order[:, torch.arange(batch) % order.shape[1]].sort(1).values
    own_bias = victims.weights[f"{prefix}bias"]
    counts = class_counts(head.weight, head.bias, own, own_bias, batch)
    classes = torch.arange(counts.shape[1], device=counts.device)
    return torch.stack([classes.repeat_interleave(count) for count in counts])


def known(labels: Tensor) -> LabelGuess:
    """Labels (V, B) that the attacker has from elsewhere, in the order of the victims' names."""

    def given(victims: Victims, restarts: Sequence[int], seed: int) -> Tensor:
        distinct = list(dict.fromkeys(victims.names))
        if labels.shape != (len(distinct), victims.slots):
            raise BadOption(
                f"known labels must have the shape {(len(distinct), victims.slots)}, got "
                f"{tuple(labels.shape)}."
            )
        return labels[[distinct.index(name) for name in victims.names]].to(victims.device)

    return given
