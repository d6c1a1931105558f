"""How large the linear attack's error on one update can be at most (SPN theorem 2.2)."""

import copy
import math

from fedpriv.attacks.analytic.linear import error_bound, first_linear
from fedpriv.engine.gradients import gradient_of
from fedpriv.errors import BadObservation
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.truth import Truth
from fedpriv.scenario.built import loaded


def promised(seen: Observation, truth: Truth) -> float | None:
    """The bound on ‖x* − x‖/‖x‖ of the best posed row of the noisy system B̄·x* = W̄ (SPN eq. 3).

    None where the theorem does not apply as it stands: more than one sample, more than one step, or
    a first layer that is not linear; also where the client kept no samples. Infinite where the
    perturbation is larger than the gradient.
    """
    if seen.model is None or len(truth.x) != 1 or not truth.samples or seen.local_steps != 1:
        return None
    try:
        path = first_linear(seen.model)
    except BadObservation:
        return None
    model = loaded(copy.deepcopy(seen.model), seen.sent).train(seen.mode == "train")
    clean, released = gradient_of(model, truth.x, truth.y), seen.gradient
    b, w = (clean[f"{path}.{part}"].double() for part in ("bias", "weight"))
    e_b, e_w = (
        released[f"{path}.{part}"].double() - value for part, value in (("bias", b), ("weight", w))
    )
    row = int((b + e_b).abs().argmax())
    bound = float(error_bound(b[row], w[row], e_b[row], e_w[row]))
    return math.inf if math.isnan(bound) else bound
