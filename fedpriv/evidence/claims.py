"""Claims: what an attack says about private data, and what a blind guess says; no pickle."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from fedpriv.errors import BadInput
from fedpriv.evidence.truth import Truth
from fedpriv.files import whole
from fedpriv.metrics.labels import likeliest
from fedpriv.metrics.matching import assignment

FOUND = "found/"
Views = dict[str, tuple[Tensor, Tensor]]  # what is compared -> guess and truth, a row a sample
Asked = Literal["message", "candidates", "client"]  # what a claim is about: see judging.held
CLAIMS: dict[str, "type[Claim]"] = {}  # by kind; a class of claims enters when it is defined


@dataclass(frozen=True)
class Public:
    """What anybody may know without evidence: public samples of the kind, as the test set.

    `x` (M, …) as the model takes them, `y` (M,), `attributes` and `features` by name and by row.
    """

    x: Tensor
    y: Tensor
    attributes: Mapping[str, Tensor] = field(default_factory=dict)
    features: Tensor | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Claim:
    """What an attack says about V victims; the leading axis of every tensor is the victim.

    A class of its own for a new kind of claim sets `kind` and `gives`, and overrides `views` and
    `blind`.

    Args:
        names: The names of the evidence, `<round>-<node>`.
        seconds: How long the attack took for all victims together.
        partial: Whether the attack was told to stop before it had finished.
        places: (V, B) the positions of the samples meant, in the order of the victim's own samples.
            Without them a batch is claimed in any order.
        found: What the attack found besides, as tensors.
        extra: What the attack found besides, as plain numbers and texts.

    Example:
        >>> from fedpriv import Claim
        >>> Claim(names=("1-0", "1-3"), seconds=4.0).of(1).names
        ('1-3',)
    """

    kind: ClassVar[str] = ""
    gives: ClassVar[tuple[str, ...]] = ()  # what a judge can compare of it: the keys of `views`
    asked: ClassVar[Asked] = "message"  # else it is about all rounds that were seen

    names: tuple[str, ...] = ()
    seconds: float = 0.0
    partial: bool = False
    places: Tensor | None = None
    found: Mapping[str, Tensor] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        CLAIMS.setdefault(cls.kind, cls)

    def blind(self, public: Public) -> Self:
        """The claim of the same form by somebody who has seen no evidence."""
        raise NotImplementedError(f"{type(self).__name__} has no blind guess.")

    def pairs(self, truth: Truth) -> tuple[Tensor, Tensor]:
        """Which guess stands for which sample: positions in the claim, and in the truth."""
        assert self.places is not None
        return torch.arange(self.places.shape[1]), self.places[0]

    def views(self, truth: Truth, g: Tensor, t: Tensor) -> Views:
        """Guess and truth of one victim, by what is compared; `g`, `t` are from `pairs`."""
        raise NotImplementedError(f"{type(self).__name__} cannot be compared with a truth.")

    def said(self, truth: Truth, g: int, t: int) -> dict[str, Any]:
        """What a row of scores says of one guess besides its metrics."""
        return {}

    def at(self, rows: Tensor) -> Self:
        """The claim about some of its samples only."""
        count = 0 if self.places is None else self.places.shape[1]
        parts: dict[str, Any] = {
            name: value[:, rows]
            for name, value in self.tensors().items()
            if not name.startswith(FOUND) and value.dim() > 1 and value.shape[1] == count
        }
        return replace(self, **parts)

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors by field name."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        own = {name: value for name, value in values.items() if isinstance(value, Tensor)}
        return own | {FOUND + name: value for name, value in self.found.items()}

    @property
    def victims(self) -> int:
        """How many victims it is about, by the leading axis of its tensors."""
        return next((len(value) for value in self.tensors().values()), 0)

    def of(self, victim: int) -> Self:
        """The part of one victim, its leading axis kept."""
        one = slice(victim, victim + 1)
        parts: dict[str, Any] = {name: value[one] for name, value in self.tensors().items()}
        found = {name: parts.pop(FOUND + name) for name in self.found}
        seconds = self.seconds / max(1, len(self.names))
        return replace(self, **parts, found=found, seconds=seconds, names=self.names[one])

    def save(self, path: Path | str) -> Path:
        """Write an npz that needs no pickle."""
        tensors = self.tensors()
        facts = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in tensors and f.name not in ("found", "places")
        }
        arrays: dict[str, Any] = {name: value.cpu().numpy() for name, value in tensors.items()}
        with whole(Path(path)) as beside, beside.open("wb") as file:
            np.savez_compressed(
                file, **arrays, facts=np.array(json.dumps({"kind": self.kind, **facts}))
            )
        return Path(path)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reconstruction(Claim):
    """The claim "these were the samples": guesses for V victims with B samples each.

    Args:
        x: The guesses (V, B, …) as the model takes them (normalised).
        labels: Class indices (V, B); (V, 0) where none are claimed.
        loss: (V,) what the attack minimised, which ranks guesses without the truth.
        mean, std: The normalisation, a number for each channel.

    Example:
        >>> import torch
        >>> from fedpriv import Reconstruction
        >>> x, labels = torch.rand(1, 2, 3, 8, 8), torch.tensor([[4, 7]])
        >>> Reconstruction(x=x, labels=labels, loss=torch.zeros(1), names=("1-0",)).pixels.shape
        torch.Size([1, 2, 3, 8, 8])
    """

    kind: ClassVar[str] = "sample"
    gives: ClassVar[tuple[str, ...]] = (
        *("sample", "trained", "input", "labels"),
        *("owner", "faces", "categories", "mask"),
    )

    x: Tensor
    labels: Tensor
    loss: Tensor
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @property
    def pixels(self) -> Tensor:
        """`x` as pictures in [0, 1]; samples that are no pictures as they are."""
        return self.as_pixels(self.x)

    def as_pixels(self, x: Tensor) -> Tensor:
        """Pictures of the same input space in [0, 1]; samples that are no pictures as they are."""
        if self.x.ndim != 5:
            return x
        if not self.mean:
            return x.clamp(0, 1)
        mean, std = (
            torch.tensor(values, device=x.device).view(-1, 1, 1) for values in (self.mean, self.std)
        )
        return (x * std + mean).clamp(0, 1)

    def pairs(self, truth: Truth) -> tuple[Tensor, Tensor]:
        """By position, or for a batch in any order by the least squared error."""
        if self.places is not None:
            return super().pairs(truth)
        return assignment(self.pixels[0], self.as_pixels(truth.x))

    def views(self, truth: Truth, g: Tensor, t: Tensor) -> Views:
        guess = self.pixels[0][g]
        found = {
            "sample": (guess, self.as_pixels(truth.x[t])),
            "trained": (guess, self.as_pixels(truth.trained[t])),
            "input": (self.x[0][g], truth.x[t]),
        }
        return found | ({"labels": (self.labels[0][g], truth.y[t])} if self.labels.numel() else {})

    def blind(self, public: Public) -> Self:
        """The mean of public samples for everybody, and the likeliest labels of so many samples.

        Where each guess is of a known sample, that is the most frequent label for everybody.
        """
        mean = public.x.float().mean(dim=0)
        if self.labels.numel() and self.places is None:
            labels = likeliest(public.y, self.labels.shape[1]).expand_as(self.labels)
        else:
            labels = torch.full_like(self.labels, majority(public.y))
        return replace(self, x=mean.expand_as(self.x).clone(), labels=labels.to(self.labels))


@dataclass(frozen=True, kw_only=True, eq=False)
class Attribute(Claim):
    """The claim "the private attribute of these samples is …".

    Args:
        guess: Class indices (V, N).
        attribute: The attribute's name.
        classes: How many classes it has.

    Example:
        >>> import torch
        >>> from fedpriv import Attribute
        >>> claim = Attribute(guess=torch.tensor([[1, 0]]), attribute="sex", classes=2)
        >>> claim.kind
        'attribute'
    """

    kind: ClassVar[str] = "attribute"
    gives: ClassVar[tuple[str, ...]] = ("attribute",)

    guess: Tensor
    attribute: str
    classes: int

    def views(self, truth: Truth, g: Tensor, t: Tensor) -> Views:
        if self.attribute not in truth.attributes:
            return {}
        return {"attribute": (self.guess[0][g], truth.attributes[self.attribute][t])}

    def said(self, truth: Truth, g: int, t: int) -> dict[str, Any]:
        """What was said of the attribute, and what is true."""
        if self.attribute not in truth.attributes:
            return {}
        real = int(truth.attributes[self.attribute][t])
        return {"attribute": self.attribute, "guess": int(self.guess[0][g]), "truth": real}

    def blind(self, public: Public) -> Self:
        """The most frequent class of public samples, for everybody."""
        often = majority(public.attributes[self.attribute])
        return replace(self, guess=torch.full_like(self.guess, often))


@dataclass(frozen=True, kw_only=True, eq=False)
class Features(Claim):
    """The claim "these are the identity features of the samples" (ARL eq. 10).

    Args:
        guess: The features (V, N, F).

    Example:
        >>> import torch
        >>> from fedpriv import Features
        >>> Features(guess=torch.zeros(1, 2, 16)).gives
        ('features',)
    """

    kind: ClassVar[str] = "features"
    gives: ClassVar[tuple[str, ...]] = ("features",)

    guess: Tensor

    def views(self, truth: Truth, g: Tensor, t: Tensor) -> Views:
        """Nothing by itself: the judge has the network that gives the true features."""
        return {}

    def blind(self, public: Public) -> Self:
        """The mean feature of public samples."""
        if public.features is None:
            raise BadInput("A blind guess of features needs the features of public samples.")
        return replace(self, guess=public.features.mean(dim=0).expand_as(self.guess).clone())


def majority(labels: Tensor) -> int:
    """The most frequent label; the smallest of those that are equally frequent."""
    return int(torch.bincount(labels.flatten().long()).argmax())


def claims_in(found: Claim | Sequence[Claim]) -> list[Claim]:
    """What an attack returned as one claim for each victim."""
    together = [found] if isinstance(found, Claim) else list(found)
    return [claim.of(victim) for claim in together for victim in range(len(claim.names))]


def load_claim(path: Path | str) -> Claim:
    """Read what `save` wrote."""
    import fedpriv.evidence.inferences  # noqa: F401  # its classes of claims enter CLAIMS

    try:
        with np.load(path, allow_pickle=False) as file:
            facts = json.loads(str(file["facts"]))
            tensors: dict[str, Any] = {
                key: torch.from_numpy(file[key]) for key in file.files if key != "facts"
            }
        kind = CLAIMS[facts.pop("kind", Reconstruction.kind)]
        known = {f.name for f in fields(kind)}
        found = {key.removeprefix(FOUND): tensors.pop(key) for key in list(tensors) if FOUND in key}
        plain = {key: _tuple(value) for key, value in facts.items() if key in known}
        return kind(**plain, **tensors, found=found)
    except (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile, zlib.error) as error:
        raise BadInput(f"'{path}' is no claim of an attack: {error}.") from error


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
