"""Loss scaling: a louder gradient, to be heard over noise of a fixed size."""

from dataclasses import dataclass

from fedpriv.errors import BadOption
from fedpriv.state import State
from fedpriv.strategies.malicious.layers import parts_of
from fedpriv.strategies.malicious.wrapper import Known


@dataclass(frozen=True)
class LossScaling:
    """The head's weights times `factor`: what flows back through it grows as much.

    The ranking of classes hardly changes, so accuracy stays plausible; noise that a client adds
    with a fixed standard deviation becomes small beside the update.

    Args:
        factor: What the head's weights are multiplied by; above 1.
    """

    factor: float = 30.0

    def __post_init__(self) -> None:
        if self.factor <= 1:
            raise BadOption(f"loss-scaling: factor must be above 1, got {self.factor}.")

    def __call__(self, state: State, known: Known) -> State:
        parts = parts_of(known.model, "loss-scaling")
        keys = [parts.key(parts.head, name) for name in ("weight", "bias")]
        return state | {key: state[key] * self.factor for key in keys}
