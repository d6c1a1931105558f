"""ATTACKS: the names people type, in one registry for updates, codes and models."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from fedpriv.attacks.analytic.linear import LinearSystem
from fedpriv.attacks.analytic.readout import read_bins, read_rows
from fedpriv.attacks.analytic.recursive import Recursive
from fedpriv.attacks.codes.attributes import AttributeAttack, FeatureAttack
from fedpriv.attacks.codes.decoder import DecoderAttack, TakeAsIs
from fedpriv.attacks.codes.masks import MaskOverlap, MaskReading, MaskSearch
from fedpriv.attacks.inversion.features import FeatureInversion
from fedpriv.attacks.inversion.recipes import (
    exact,
    inversion,
    policy_inversion,
    pooled_inversion,
    strongest,
)
from fedpriv.evidence.claims import Claim
from fedpriv.registry import Entry, Registry

# An attack is called with evidence and a progress. Evidence of updates is a list of observations,
# that
# of codes a Knowledge. It gives one claim about all victims, or a claim for each.
Attack = Callable[..., Claim | Sequence[Claim]]


@dataclass(frozen=True)
class AttackRow(Entry[Attack]):
    """A row of ATTACKS: what the attack sees, who carries it out, what it knows, claims and needs.

    `knows` are the plugins whose users it is informed of. `needs` are conditions by name, which
    fedpriv.simulations.judging.conditions checks and fulfils. An analysis is told a part of the
    secret: it is no attack, and no verdict rests on it.
    """

    sees: Literal["update", "codes", "models"] = "update"
    by: Literal["curious server", "malicious server", "curious party", "analysis"] = (
        "curious server"
    )
    knows: tuple[str, ...] = ()
    claims: str = "sample"
    needs: tuple[str, ...] = ()

    def known(self, plugins: Iterable[str]) -> list[str]:
        """The plugins among these that it is informed of."""
        return [name for name in plugins if name in self.knows]

    def __post_init__(self) -> None:
        for name in ("knows", "needs"):
            value: Any = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, (value,) if value else ())


_LBFGS = partial(inversion, optimiser="lbfgs", lr=1.0, init="patterned", patience=100)
_on_codes = partial(AttackRow, sees="codes", by="curious party")
_ADAM = partial(inversion, signed=True, schedule="steps", box=True, tv=1e-4, steps=4800)

ATTACKS: Registry[Attack] = Registry(
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
            "knows of noise: scale-free, a prior, all rounds of a client together",
            knows=("noise", "dp"),
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
            "knows of the secret head: reads label and features off the public one",
            "SPN",
            knows=("spn",),
            needs=("one-sample",),
        ),
        "linear": AttackRow(
            LinearSystem,
            "solves W = B·x on a fully connected first layer; exact",
            "SPN theorem 2.2",
            needs=("one-sample",),
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
        "decoder": _on_codes(
            partial(DecoderAttack, codes="clean"), "decoder of clean codes", "ARS eq. 8"
        ),
        "adversarial-decoder": _on_codes(
            partial(DecoderAttack, codes="noisy"),
            "decoder of its own noisy codes",
            "ARS eq. 11",
            knows=("ars", "noisy"),
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
