"""Which labels, and which samples, a client trained on."""

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from fedpriv.attacks.analytic.head import head_of
from fedpriv.attacks.inversion.attack import Seen, victims_of
from fedpriv.attacks.inversion.labels import evidence
from fedpriv.evidence.claims import Reconstruction


def reconstructed_labels(found: Reconstruction) -> Tensor:
    """(V, B): the labels recovered together with the images (SPN alg. 5)."""
    return found.labels


def present_classes(seen: Seen) -> Tensor:
    """(V, C) scores, above 0 where the gradient alone says that a class was in the batch.

    Cross-entropy pushes up the logits of the classes that are present, and of no others: their bias
    gradient is p − (share of the batch), that of an absent class is p > 0.
    """
    head = head_of(victims_of(seen))
    return -evidence(head.weight, head.bias)


def alignment(seen: Seen, x: Tensor, y: Tensor) -> Tensor:
    """(V, M): cosine of each candidate's own gradient with each victim's update.

    A high one says that the candidate was a member. x: (M, …) candidates in the model's space, y:
    (M,). A sample that was trained on leaves its gradient in the sum; another one's is nearly
    orthogonal to it.
    """
    victims = victims_of(seen)
    model, buffers = victims.model, victims.buffers
    scores = []
    for row in range(len(victims)):
        weights = {k: v if victims.shared else v[row] for k, v in victims.weights.items()}
        state = {k: v if victims.shared else v[row] for k, v in buffers.items()}
        target = torch.cat([victims.gradient[key][row].flatten() for key in weights])

        def loss(
            w: dict[str, Tensor], a: Tensor, b: Tensor, state: dict[str, Tensor] = state
        ) -> Tensor:
            return cross_entropy(functional_call(model, {**w, **state}, (a[None],)), b[None])

        own = vmap(grad(loss), in_dims=(None, 0, 0), chunk_size=32)(weights, x, y)
        flat = torch.cat([own[key].flatten(1) for key in weights], 1)
        scores.append(nn.functional.cosine_similarity(flat, target[None]))
    return torch.stack(scores)
