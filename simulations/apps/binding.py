"""What was seen of an app, bound to its model: the evidence that attacks get."""

from dataclasses import replace

from torch import nn

from fedpriv.errors import BadObservation
from fedpriv.evidence.claims import Public
from fedpriv.evidence.naming import fitted_to
from fedpriv.evidence.observation import Observation, check_finite
from fedpriv.simulations.apps.adapting import adapted
from fedpriv.simulations.apps.source import Source
from fedpriv.simulations.apps.support import NotSupported
from fedpriv.simulations.apps.suspects import evaluated
from fedpriv.simulations.apps.updates import sums_of
from fedpriv.simulations.apps.watching import Watched
from fedpriv.simulations.judging.sums import mean_of
from fedpriv.state import State


def usable(watched: Watched, clients: int) -> tuple[list[Observation], list[str]]:
    """The updates bound to the app's model, and what is wrong with them or why there are none."""
    seen = sums_of(watched, clients) if watched.summed else watched.evidence
    if not seen:
        return [], ["no round's sum was seen" if watched.summed else "no update was seen"]
    notes = next((one for one in watched.notes if one.x), watched.notes[0])
    try:
        model = adapted(notes, seen[0].sent, watched.target)
    except NotSupported as error:
        return [], [str(error).rstrip(".")]
    if seen[0].loss != "cross-entropy" or "loss" in seen[0].unknown:
        named = " and ".join(sorted(watched.losses)) or "unknown"
        return [], [f"its loss ({named}) is not supported yet"]
    good = [one for one in seen if finite(one)]
    reasons = [f"{len(seen) - len(good)} updates hold NaN or infinity"] if good != seen else []
    # A sum in place of a mean stretches gradients, which is measured; weights bend them.
    if bent := sorted(text for text in notes.scaled if not text.startswith("reduction")):
        reasons.append(f"attacks took its loss for the plain mean, and it has {' and '.join(bent)}")
    return [in_types_of(fitted_to(one, model), model).on(model) for one in good], reasons


def named_model(watched: Watched, source: Source) -> str:
    """`pkg.module:Net` of a model that attacks take as the app has it; nothing for others."""
    notes = next((one for one in watched.notes if one.chain), None)
    if notes is None or len(notes.chain) != 1 or watched.target is not None:
        return ""
    kind = type(notes.chain[0][0])
    own = kind.__module__.partition(".")[0] in source.modules and "<" not in kind.__qualname__
    plain = watched.losses <= {"cross-entropy", "nll"}
    return f"{kind.__module__}:{kind.__qualname__}" if own and plain else ""


def finite(seen: Observation) -> bool:
    """Whether neither side holds NaN or an infinity, as after a client diverged."""
    try:
        check_finite(seen)
    except BadObservation:
        return False
    return True


def in_types_of(seen: Observation, model: nn.Module) -> Observation:
    """The same numbers in the model's own types: masked sums travel in double precision."""
    own = model.state_dict()

    def typed(state: State) -> State:
        return {
            key: value.to(own[key].dtype) if key in own else value for key, value in state.items()
        }

    return replace(seen, sent=typed(seen.sent), received=typed(seen.received))


def last_model(evidence: list[Observation]) -> State:
    """The mean of the last round's updates, which a server that sees them can take itself."""
    last = max(seen.round for seen in evidence)
    return mean_of([seen for seen in evidence if seen.round == last], 0).received


def public_of(watched: Watched, evidence: list[Observation]) -> Public | None:
    """Samples that the app's clients only evaluated."""
    shape = tuple(evidence[0].input_shape) if evidence else ()
    return evaluated(watched.eyes.held, watched.numbers, shape, watched.target)


def others_of(watched: Watched, evidence: list[Observation]) -> Public | None:
    """Samples that nobody trained on and that look as those that somebody did."""
    if not watched.eyes.random:
        return public_of(watched, evidence)
    shape = tuple(evidence[0].input_shape) if evidence else ()
    return evaluated(watched.bystanders, watched.numbers, shape, watched.target)
