"""ATTACKS: the names people type, in one registry for updates, codes and models."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from fedpriv.attacks.analytic.linear import LinearSystem
from fedpriv.attacks.analytic.readout import read_bins, read_rows
from fedpriv.attacks.analytic.recursive import Recursive
from fedpriv.attacks.codes.attributes import AttributeAttack, FeatureAttack
from fedpriv.attacks.codes.decoder import DecoderAttack, TakeAsIs
from fedpriv.attacks.codes.masks import (
    AttributeBehindMask,
    MaskOverlap,
    MaskReading,
    MaskSearch,
)
from fedpriv.attacks.codes.own import OwnClassifier, OwnDecoder
from fedpriv.attacks.inference.class_shares import ClassShares
from fedpriv.attacks.inference.membership import (
    by_model,
    by_norm,
    by_others,
    by_update,
    matched,
    on_shared,
)
from fedpriv.attacks.inference.owners import OwnerByUpdate
from fedpriv.attacks.inference.properties import PropertyRate
from fedpriv.attacks.inference.references import ByReferences
from fedpriv.attacks.inversion.features import FeatureInversion
from fedpriv.attacks.inversion.recipes import (
    exact,
    inversion,
    policy_inversion,
    pooled_inversion,
    restored,
    strongest,
)
from fedpriv.evidence.claims import Claim
from fedpriv.registry import Entry, Registry
from fedpriv.tables import decides

# An attack is called with evidence and a progress. Evidence of updates is a list of observations,
# of all rounds together a Series, of codes a Knowledge. It gives one claim about all victims, or a
# claim for each.
Attack = Callable[..., Claim | Sequence[Claim]]


@dataclass(frozen=True)
class AttackRow(Entry[Attack]):
    """A row of ATTACKS: what the attack sees, who carries it out, what it knows, claims and needs.

    `knows` are the plugins whose users it is informed of. `needs` are conditions by name, which
    fedpriv.simulations.judging.conditions checks and fulfils. An analysis is told a part of the
    secret: it is no attack, and no verdict rests on it. A `whole` attack looks at all rounds and
    clients at once; one that `pools` looks at all rounds of a client at once.
    """

    sees: Literal["update", "codes", "models"] = "update"
    by: Literal["curious server", "malicious server", "curious party", "analysis"] = (
        "curious server"
    )
    knows: tuple[str, ...] = ()
    claims: str = "sample"
    needs: tuple[str, ...] = ()
    whole: bool = False
    pools: bool = False

    @property
    def decides(self) -> bool:
        """Whether a verdict may rest on it."""
        return decides(self.by)

    def known(self, plugins: Iterable[str]) -> list[str]:
        """The plugins among these that it is informed of."""
        return [name for name in plugins if name in self.knows]

    def __post_init__(self) -> None:
        for name in ("knows", "needs"):
            value: Any = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, (value,) if value else ())


class AttackRegistry(Registry[Attack]):
    """ATTACKS; somebody else's may also be a plain function of evidence and a progress."""

    def _row_of(self, build: Any, name: str) -> Entry[Attack]:
        row = super()._row_of(build, name)
        return replace(row, build=made_by(build)) if is_attack(build) else row


def is_attack(thing: Any) -> bool:
    """Whether a function is an attack itself: it must be given something, and has no fields.

    A function all of whose parameters have defaults makes an attack from its options.
    """
    if not inspect.isfunction(thing):
        return False
    first = next(iter(inspect.signature(thing).parameters.values()), None)
    return first is not None and first.default is inspect.Parameter.empty


def made_by(function: Callable[..., Any]) -> Callable[..., Attack]:
    """What builds the attack that a function is; its further parameters are options."""
    takes = list(inspect.signature(function).parameters.values())
    heard = len(takes) > 1 and takes[1].default is inspect.Parameter.empty

    def build(**options: Any) -> Attack:
        def attack(evidence: Any, progress: Any) -> Any:
            given = (evidence, progress) if heard else (evidence,)
            return function(*given, **options)

        return attack

    build.__doc__ = function.__doc__
    build.__signature__ = inspect.Signature(takes[1 + heard :])  # type: ignore[attr-defined]
    return build


_LBFGS = partial(inversion, optimiser="lbfgs", lr=1.0, init="patterned", patience=100)
_on_codes = partial(AttackRow, sees="codes", by="curious party")
_on_series = partial(AttackRow, whole=True, needs=("candidates",), claims="member")
_on_shadows = partial(_on_series, needs=("candidates", "shadows"))
_ADAM = partial(inversion, signed=True, schedule="steps", box=True, tv=1e-4, steps=4800)

ATTACKS: Registry[Attack] = AttackRegistry(
    "attack",
    "attacks",
    {
        "dlg": AttackRow(
            exact,
            "image and label together by L-BFGS; seconds per image",
            "DLG; SPN alg. 5",
        ),
        "idlg": AttackRow(
            partial(exact, labels="read"),
            "label read from the last layer, image by L-BFGS; seconds per image",
            "iDLG",
        ),
        "quick": AttackRow(
            partial(inversion, lr=0.2, signed=True, schedule="cosine", box=True, tv=0.1, steps=200),
            "adam+cosine with fewer, annealed steps and a stronger prior; seconds per image",
        ),
        "strongest": AttackRow(
            strongest,
            "races settings on planted clients, runs the winner, finishes by L-BFGS; seconds per "
            "image",
        ),
        "learned": AttackRow(
            restored,
            "quick, then repaired by a network that learned on planted clients; minutes in all",
            needs=("pictures", "own-samples"),
        ),
        "lbfgs+l2": AttackRow(
            partial(_LBFGS, distance="l2", steps=300, restarts=16),
            "L-BFGS, Euclidean distance, best of 16",
            "ATS sect. 5.1",
        ),
        "lbfgs+cosine": AttackRow(
            partial(_LBFGS, distance="cosine", steps=300, restarts=16),
            "L-BFGS, cosine distance, best of 16",
            "ATS sect. 5.1",
        ),
        "adam+cosine": AttackRow(
            _ADAM,
            "signed Adam, cosine distance, total variation; minutes per image",
            "ATS sect. 5.1",
        ),
        "adam+l2": AttackRow(
            partial(_ADAM, distance="l2"), "signed Adam, Euclidean distance", "ATS sect. 5.1"
        ),
        "adam+l1": AttackRow(
            partial(_ADAM, distance="l1"), "signed Adam, absolute distance", "ATS sect. 5.1"
        ),
        "sgd+cosine": AttackRow(
            partial(_ADAM, optimiser="sgd"), "signed SGD, cosine distance", "ATS sect. 5.1"
        ),
        "fedavg-replay": AttackRow(
            partial(
                inversion,
                signed=True,
                schedule="cosine",
                box=True,
                tv=0.1,
                replay=True,
                steps=1000,
            ),
            "several local steps, by a differentiable replay of the client's training",
            "Dimitrov 2022",
        ),
        "grad-inversion": AttackRow(
            partial(
                inversion,
                distance="l2",
                schedule="cosine",
                box=True,
                tv=1e-3,
                norm=1e-5,
                bn=0.01,
                group=0.01,
                restarts=4,
                steps=1000,
            ),
            "BatchNorm statistics and agreement of restarts as priors",
            "GradInversion",
        ),
        "pruning-aware": AttackRow(
            partial(inversion, signed=True, schedule="cosine", box=True, tv=0.01, shared_only=True),
            "knows of pruning: compares only what was shared",
            "SPN sect. 4.1",
            knows=("pruning",),
        ),
        "noise-aware": AttackRow(
            pooled_inversion,
            "knows of noise and clipping: scale-free, a prior, all rounds of a client together",
            knows=("noise", "dp", "clip"),
            pools=True,
        ),
        "policy-aware": AttackRow(
            policy_inversion,
            "knows the augmentation policy: searches through it",
            "ATS sect. 4",
            knows=("augment",),
            needs=("policy",),
        ),
        "spn-aware": AttackRow(
            FeatureInversion,
            "knows of the secret head: reads labels and features off the public one",
            "SPN",
            knows=("spn",),
            needs=("few-samples",),
        ),
        "linear": AttackRow(
            LinearSystem,
            "solves W = B·x on a fully connected first layer; exact",
            "SPN theorem 2.2",
            needs=("one-sample", "first-linear"),
        ),
        "recursive": AttackRow(
            Recursive,
            "solves layer by layer from the head to the input; one sample",
            "R-GAP",
            needs=("one-sample",),
        ),
        "read-bins": AttackRow(
            read_bins,
            "reads bins planted in the model's own first layers; exact",
            "Fowl 2022",
            by="malicious server",
        ),
        "read-rows": AttackRow(
            read_rows,
            "reads rows that few samples pass, planted or fished",
            "Boenisch 2023",
            by="malicious server",
        ),
        "member-loss": _on_series(
            by_model, "small loss under the last public model", "Yeom 2018", sees="models"
        ),
        "member-confidence": _on_series(
            partial(by_model, signal="confidence"),
            "high logit of the true class under the last public model",
            "LiRA",
            sees="models",
        ),
        "member-rounds": _on_series(
            partial(by_model, signal="confidence", over="all"),
            "the same under the public models of all rounds",
            sees="models",
        ),
        "member-norm": _on_series(
            by_norm, "small gradient under the public models", "Nasr 2019", sees="models"
        ),
        "member-own-loss": _on_series(
            partial(by_update, signal="confidence"),
            "high logit of the true class under what the suspect sent back",
            "Nasr 2019",
        ),
        "member-cosine": _on_series(
            by_update, "cosine of the sample's gradient with the suspect's updates", "FedMIA"
        ),
        "member-difference": _on_series(
            partial(by_update, signal="difference"),
            "how much of the suspect's updates the sample's gradient explains",
            "Li 2022",
        ),
        "member-matched": _on_series(
            matched,
            "knows of noise: rounds weighed as a matched filter does",
            knows=("noise", "dp"),
        ),
        "member-shared": _on_series(
            on_shared,
            "knows of pruning: compares only the entries that were shared",
            knows=("pruning",),
        ),
        "fedmia": _on_series(
            by_others,
            "cosine against that of all other clients, over all rounds",
            "FedMIA",
            needs=("candidates", "several-clients"),
        ),
        "fedmia-loss": _on_series(
            partial(by_others, signal="confidence"),
            "logit under the suspect's model against that under all other clients'",
            "FedMIA",
            needs=("candidates", "several-clients"),
        ),
        "lira": _on_shadows(
            partial(ByReferences, rule="online"),
            "likelihood ratio against shadow federations with and without the sample",
            "LiRA",
        ),
        "lira-offline": _on_shadows(
            partial(ByReferences, rule="offline"),
            "chance of so high a value in shadow federations without the sample",
            "LiRA",
        ),
        "lira-pooled": _on_shadows(
            partial(ByReferences, rule="pooled"),
            "likelihood ratio with few shadows: variances and shifts drawn to common ones",
            "LiRA; Smyth 2004",
        ),
        "rmia": _on_shadows(
            partial(ByReferences, rule="pairwise", statistic="confidence"),
            "probability relative to shadows, compared with that of samples nobody has",
            "RMIA",
            sees="models",
        ),
        "member-calibrated": _on_shadows(
            partial(ByReferences, rule="calibrated", statistic="confidence"),
            "high logit under the last public model, beyond that in shadows without the sample",
            "Watson 2022",
            sees="models",
        ),
        "owner-loss": _on_series(
            partial(OwnerByUpdate, signal="confidence"),
            "the client whose own model fits the sample best",
            "Hu 2021",
            claims="owner",
            needs=("candidates", "several-clients"),
        ),
        "owner-cosine": _on_series(
            partial(OwnerByUpdate, signal="cosine"),
            "the client whose update points most along the sample's gradient",
            claims="owner",
            needs=("candidates", "several-clients"),
        ),
        "owner-difference": _on_series(
            partial(OwnerByUpdate, signal="difference"),
            "the client whose updates the sample's gradient explains best",
            claims="owner",
            needs=("candidates", "several-clients"),
        ),
        "class-shares": _on_series(
            ClassShares,
            "the last layer's updates, against shadow clients with known classes",
            "Decaf",
            claims="classes",
            needs=("own-samples",),
        ),
        "property-rate": _on_series(
            PropertyRate,
            "how many samples have a private attribute, against shadow clients of known rates",
            "Melis 2019",
            claims="rate",
            needs=("own-samples", "attributes"),
        ),
        "decoder": _on_codes(
            partial(DecoderAttack, codes="clean"), "decoder of clean codes", "ARS eq. 8"
        ),
        "adversarial-decoder": _on_codes(
            partial(DecoderAttack, codes="noisy"),
            "decoder of its own noisy codes",
            "ARS eq. 11",
            knows=("ars", "noisy", "dnn-resized"),
        ),
        "even-decoder": _on_codes(
            partial(DecoderAttack, even=True),
            "decoder of standardised codes",
            "ours",
            knows=("ran", "arl"),
        ),
        "large-decoder": _on_codes(
            partial(DecoderAttack, width=2, longer=2),
            "decoder twice as wide, trained twice as long",
            "RAN 3.1",
            knows=("ran", "arl"),
        ),
        "gan-decoder": _on_codes(
            partial(DecoderAttack, mu1=0.01, mu2=0.1),
            "decoder with GAN and perceptual losses; pictures",
            "ARL eq. 5",
            knows=("ran", "arl"),
            needs=("pictures",),
        ),
        "own-decoder": _on_codes(
            OwnDecoder,
            "analysis: the decoder that the encoder was trained against",
            "RAN sect. 3.1",
            by="analysis",
            needs=("own-decoder",),
        ),
        "own-classifier": _on_codes(
            OwnClassifier,
            "analysis: the classifier that the encoder was trained with",
            "RAN sect. 3.1",
            by="analysis",
            claims="attribute",
            needs=("own-classifier",),
        ),
        "mask-reading": _on_codes(
            MaskReading,
            "reads masks off the codes, then decodes",
            "ours",
            knows=("ars",),
            needs=("masks",),
        ),
        "mask-search": _on_codes(
            MaskSearch, "tries random masks", "ARS sect. 6.1", knows=("ars",), needs=("masks",)
        ),
        "mask-overlap": _on_codes(
            MaskOverlap,
            "analysis: masks known in part",
            "ARS table 6",
            by="analysis",
            knows=("ars",),
            needs=("masks", "true-masks"),
        ),
        "attribute": _on_codes(
            AttributeAttack,
            "classifier of a private attribute",
            "ARS eq. 13",
            claims="attribute",
        ),
        "attribute-behind-mask": _on_codes(
            AttributeBehindMask,
            "reads masks off the codes, then an attribute off what passes",
            "ours",
            knows=("ars",),
            claims="attribute",
            needs=("masks",),
        ),
        "features": _on_codes(
            FeatureAttack,
            "codes to identity features",
            "ARL eq. 10",
            claims="features",
            needs=("faces",),
        ),
        "take-as-is": _on_codes(
            TakeAsIs, "noisy raw data as they are", "RAN sect. 3.1", needs=("input-layer",)
        ),
    },
    AttackRow,
)
