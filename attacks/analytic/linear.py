"""The linear-system attack on a fully connected first layer, and the bound on its error."""

import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedpriv.attacks.inversion.attack import Seen, victims_of
from fedpriv.attacks.inversion.features import features_of
from fedpriv.attacks.inversion.labels import from_sign
from fedpriv.errors import BadObservation
from fedpriv.evidence.claims import Reconstruction
from fedpriv.progress import Progress, go_on


def solution(b: Tensor, w: Tensor) -> Tensor:
    """x from the best posed row of B·x = W (SPN eq. 2, 8): w_i / b_i where |b_i| is largest.

    b: (…, out) bias gradients, w: (…, out, in) weight gradients -> (…, in).
    """
    row = b.abs().argmax(-1, keepdim=True)
    chosen = w.take_along_dim(row.unsqueeze(-1), -2).squeeze(-2)
    return chosen / b.take_along_dim(row, -1)


def error_bound(b: Tensor, w: Tensor, e_b: Tensor, e_w: Tensor) -> Tensor:
    """The bound of SPN eq. 3 on ‖x* − x‖/‖x‖, for gradients b, w and perturbations e_b, e_w.

    A single row makes B_I a multiple of the identity, whose condition number is 1. Infinite where
    ‖B⁻¹E_B‖ ≥ 1: there the theorem promises nothing. b, e_b: (…), w, e_w: (…, in).
    """
    off = (e_b / b).abs()
    bound = (off + e_w.norm(dim=-1) / w.norm(dim=-1)) / (1 - off)
    return torch.where(off < 1, bound, torch.full_like(bound, torch.inf))


def system_bound(b: Tensor, w: Tensor, e_b: Tensor, e_w: Tensor) -> Tensor:
    """The bound of SPN eq. 3 for a whole system B x = W, B (n, n) and W (n,), with spectral norms.

    Infinite where ‖B⁻¹E_B‖ ≥ 1. One row, several rows and a convolution are such systems.
    """
    off = torch.linalg.matrix_norm(torch.linalg.solve(b, e_b), 2)
    size = torch.linalg.matrix_norm(b, 2)
    noise = torch.linalg.matrix_norm(e_b, 2) / size + e_w.norm() / w.norm()
    bound = torch.linalg.cond(b, 2) / (1 - off) * noise
    return torch.where(off < 1, bound, torch.full_like(bound, torch.inf))


def first_linear(model: nn.Module) -> str:
    """The path of the linear layer that the input reaches unchanged."""
    for path, module in model.named_modules():
        if list(module.children()) or isinstance(module, nn.Flatten | nn.Identity):
            continue
        if isinstance(module, nn.Linear) and module.bias is not None:
            found: str = path
            return found
        raise BadObservation(
            f"the first layer is {type(module).__name__} '{path}'; the linear attack needs a "
            "linear layer with a bias there. Try 'recursive' or an inversion."
        )
    raise BadObservation("the model has no layers.")


@dataclass(frozen=True)
class LinearSystem:
    """Solves ∇W = ∇b ⊗ x for one sample, by least squares over all rows.

    SPN eq. 2-3 and theorem 2.2.
    """

    def __call__(self, seen: Seen, progress: Progress = go_on) -> Reconstruction:
        started = time.perf_counter()
        victims = victims_of(seen)
        if victims.slots != 1:
            raise BadObservation(
                f"the linear attack takes updates of one sample, not of {victims.slots}."
            )
        path = first_linear(victims.model)
        w, b = (victims.gradient[f"{path}.{part}" if path else part] for part in ("weight", "bias"))
        x = features_of(w.double(), b.double())
        gap = (torch.einsum("vo,vi->voi", b.double(), x) - w).square().sum((1, 2))
        return Reconstruction(
            x=x.float().view(len(victims), 1, *victims.facts.input_shape),
            labels=from_sign(victims, [0] * len(victims), 0),
            loss=(gap / w.double().square().sum((1, 2))).float(),
            seconds=time.perf_counter() - started,
            names=victims.names,
            mean=victims.facts.mean,
            std=victims.facts.std,
        )
