"""Observation: all that a server knows of one client's update, on disk without pickle."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch import nn

from fedpriv.errors import BadObservation, BadOption
from fedpriv.evidence.files import read_evidence, write_evidence
from fedpriv.scenario.binding import fitted
from fedpriv.scenario.sections import why_no_name
from fedpriv.state import State

_SENT, _RECEIVED = "sent/", "received/"
_TENSORS = ("model", "sent", "received")
_STAND_INS = {"classes": 1, "input_shape": (), "lr": 1.0}  # of facts that have no default
MOST = 10**9  # of anything that is counted in a fact


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """What was sent, what came back, and the facts of the protocol; never the truth.

    Args:
        sent: The weights that the server sent, by name.
        received: The weights that came back.
        classes: The number of classes.
        input_shape: The shape of one sample.
        lr: The learning rate.
        optimiser: The client's optimiser.
        momentum, nesterov, weight_decay: Its options.
        local_steps: Steps of training in a round.
        batch_size: Samples in a step.
        num_examples: Samples of the client.
        loss: The loss that clients minimise.
        mode: Whether the model was in "train" or "eval" mode.
        dropout: The rate that the model trains with.
        mean, std: The normalisation that clients apply, a number for each channel.
        augmentation: Names of what changes samples at random before training.
        round: The server round.
        node: The client's name; in a simulation its partition.
        model: The architecture. Its own weights are never used.
        unknown: Names of facts that nobody told. Their values here are stand-ins; on disk they are
            null.

    Example:
        >>> import torch
        >>> from fedpriv import Observation
        >>> sent, received = {"w": torch.tensor([1.0])}, {"w": torch.tensor([0.5])}
        >>> seen = Observation(sent=sent, received=received, classes=2, input_shape=(4,), lr=0.1)
        >>> seen.gradient["w"].tolist()
        [5.0]
    """

    sent: State
    received: State
    classes: int
    input_shape: tuple[int, ...]
    lr: float
    optimiser: str = "sgd"
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    local_steps: int = 1
    batch_size: int = 1
    num_examples: int = 1
    loss: str = "cross-entropy"
    mode: Literal["train", "eval"] = "train"
    dropout: float = 0.0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    augmentation: tuple[str, ...] = ()
    round: int = 0
    node: int | str = 0
    model: nn.Module | None = field(default=None, repr=False)
    unknown: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.lr <= 0:
            raise BadObservation(f"lr must be above 0, got {self.lr}.")
        for name in ("local_steps", "batch_size", "num_examples", "classes"):
            if getattr(self, name) < 1:
                raise BadObservation(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.mode not in ("train", "eval"):
            raise BadObservation(f"mode must be 'train' or 'eval', got '{self.mode}'.")
        if len(self.mean) != len(self.std):
            raise BadObservation(f"mean has {len(self.mean)} channels and std {len(self.std)}.")
        unlike = self.sent.keys() ^ self.received.keys()
        if unlike:
            raise BadObservation(
                f"{self.name}: sent and received differ in {_some(unlike)}; both must hold one "
                "model."
            )
        for key, value in self.sent.items():
            if value.shape != self.received[key].shape:
                raise BadObservation(
                    f"{self.name}: '{key}' was sent as {tuple(value.shape)} and "
                    f"received as {tuple(self.received[key].shape)}."
                )

    @property
    def name(self) -> str:
        """`<round>-<node>`, which is also the name of its files."""
        return f"{self.round}-{self.node}"

    @property
    def facts(self) -> dict[str, Any]:
        """Everything but the tensors, ready for JSON; what nobody told is None."""
        return {name: None if name in self.unknown else getattr(self, name) for name in FACTS}

    def knows(self, *names: str) -> bool:
        """Whether all these facts were told, so that their values are no stand-ins."""
        return not set(names) & set(self.unknown)

    def told(self, **facts: Any) -> Self:
        """The same observation with these facts known."""
        rest = tuple(name for name in self.unknown if name not in facts)
        return replace(self, **facts, unknown=rest)

    @property
    def delta(self) -> State:
        """received − sent for the floating-point entries, taken in double precision."""
        return {
            key: (self.received[key].double() - value.double()).float()
            for key, value in self.sent.items()
            if value.is_floating_point()
        }

    @property
    def gradient(self) -> State:
        """The mean gradient of the local steps, −Δ/(lr · steps) − weight decay.

        Exact for one plain SGD step (FedSGD), an approximation for more, and only the direction of
        each element where the optimiser rescales its steps.
        """
        return mean_gradient(self, self.delta, self.sent)

    def on(self, model: nn.Module) -> Self:
        """The same observation with the model it is of; its own weights are never used."""
        check_fits(self, model)
        return replace(self, model=model)

    def save(self, folder: Path | str) -> Path:
        """Write `<round>-<node>.safetensors` and `.json` into `folder`; the path of the first."""
        tensors = {_SENT + key: value for key, value in self.sent.items()}
        tensors |= {_RECEIVED + key: value for key, value in self.received.items()}
        return write_evidence(Path(folder), self.name, tensors, self.facts)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote; BadObservation says what is wrong with a file."""
        return cls.of(*read_evidence(Path(path)), name=Path(path).name)

    @classmethod
    def of(cls, tensors: State, facts: Mapping[str, Any], name: str) -> Self:
        """The observation whose tensors and facts were read from the file `name`."""
        sent, received = _parts(tensors, name)
        return cls(sent=sent, received=received, **_known(facts, name))

    @classmethod
    def of_gradient(cls, sent: State, gradient: State, *, lr: float = 1.0, **facts: Any) -> Self:
        """The observation of a client that shares a gradient: one SGD step, in double precision."""
        received = {
            key: value.double() - lr * gradient[key].double() if key in gradient else value
            for key, value in sent.items()
        }
        return cls(sent=sent, received=received, lr=lr, **facts)


FACTS = tuple(f.name for f in fields(Observation) if f.name not in (*_TENSORS, "unknown"))


def mean_gradient(seen: Observation, delta: State, sent: State) -> State:
    """−Δ/(lr · steps) − weight decay · w for every entry of `delta`, of one victim or of many."""
    scale = seen.lr * seen.local_steps * (1 + seen.momentum * seen.nesterov)
    return {
        key: -change / scale - seen.weight_decay * sent[key].float()
        for key, change in delta.items()
    }


def check_finite(seen: Observation) -> None:
    """BadObservation if a NaN or an infinity was sent or received."""
    for what, state in (("sent", seen.sent), ("received", seen.received)):
        for key, value in state.items():
            if value.is_floating_point() and not torch.isfinite(value).all():
                raise BadObservation(
                    f"{seen.name}: '{key}' as {what} holds NaN or infinity; the client diverged "
                    "or the recording is damaged, leave it out."
                )


def check_fits(seen: Observation, model: nn.Module) -> None:
    """BadObservation unless the model has the recorded entries, with their shapes."""
    own = model.state_dict()
    missing, extra = own.keys() - seen.sent.keys(), seen.sent.keys() - own.keys()
    if missing or extra:
        parts = [f"lacks {_some(missing)}"] if missing else []
        parts += [f"has {_some(extra)}, unknown to the model"] if extra else []
        raise BadObservation(
            f"{seen.name} does not fit {type(model).__name__}: it {' and '.join(parts)}. "
            "Give the model that the clients trained."
        )
    for key, value in own.items():
        if value.shape != seen.sent[key].shape:
            raise BadObservation(
                f"{seen.name} does not fit {type(model).__name__}: '{key}' is "
                f"{tuple(seen.sent[key].shape)}, the model's is {tuple(value.shape)}."
            )


def _parts(tensors: State, name: str) -> tuple[State, State]:
    sent, received = (
        {key.removeprefix(part): value for key, value in tensors.items() if key.startswith(part)}
        for part in (_SENT, _RECEIVED)
    )
    if not sent or not received:
        raise BadObservation(
            f"{name} is no observation: it holds no '{_SENT}…' and '{_RECEIVED}…' tensors."
        )
    return sent, received


def _known(facts: Mapping[str, Any], name: str) -> dict[str, Any]:
    strange = facts.keys() - set(FACTS)
    if strange:
        raise BadObservation(
            f"the facts of {name} hold {_some(strange)}, which fedpriv does not know."
        )
    lacking = {"classes", "input_shape", "lr"} - facts.keys()
    if lacking:
        raise BadObservation(f"the facts of {name} lack {_some(lacking)}.")
    unknown = tuple(key for key in FACTS if key in facts and facts[key] is None)
    facts = {key: value for key, value in facts.items() if value is not None}
    try:
        found = fitted(Observation, facts, f"the facts of {name}")
    except BadOption as error:
        raise BadObservation(str(error)) from error
    found |= {key: _STAND_INS[key] for key in unknown if key in _STAND_INS}
    check_sane(found, name)
    return {**found, "unknown": unknown}


def check_sane(facts: Mapping[str, Any], name: str) -> None:
    """BadObservation for facts of the right type that no training has."""
    if why := why_no_name(f"{facts.get('round', 0)}-{facts.get('node', 0)}"):
        raise BadObservation(f"the facts of {name}: round and node give no file name: {why}.")
    for key in ("classes", "local_steps", "batch_size", "num_examples", "round"):
        if not 0 <= facts.get(key, 1) <= MOST:
            raise BadObservation(
                f"the facts of {name}: {key} must be at most {MOST}, got {facts[key]}."
            )
    shape = facts["input_shape"]
    if any(side < 1 for side in shape) or math.prod(shape) > MOST:
        raise BadObservation(
            f"the facts of {name}: input_shape must be positive, with at most {MOST} numbers, got "
            f"{shape}."
        )
    for key in ("momentum", "dropout", "weight_decay"):
        if not 0 <= facts.get(key, 0) < (MOST if key == "weight_decay" else 1):
            raise BadObservation(f"the facts of {name}: {key} is out of range: {facts[key]}.")
    if any(not deviation > 0 for deviation in facts.get("std", ())):
        raise BadObservation(f"the facts of {name}: std must be above 0, got {facts['std']}.")


def _some(names: Iterable[str], most: int = 3) -> str:
    ordered = sorted(names)
    rest = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(f"'{name}'" for name in ordered[:most]) + rest
