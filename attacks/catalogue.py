"""ATTACKS: scenarios, the command line and the report all use these very names."""

from collections.abc import Callable
from functools import partial

from fedpriv.attacks.analytic.linear import LinearSystem
from fedpriv.attacks.analytic.readout import read_bins, read_rows
from fedpriv.attacks.analytic.recursive import Recursive
from fedpriv.attacks.inversion.attack import Seen
from fedpriv.attacks.inversion.features import FeatureInversion
from fedpriv.attacks.inversion.recipes import inversion, policy_inversion, pooled_inversion
from fedpriv.evidence.claims import Reconstruction
from fedpriv.registry import Entry, Registry

Attack = Callable[[Seen], Reconstruction]

_LBFGS = partial(inversion, optimiser="lbfgs", lr=1.0, init="patterned", patience=100)
_ADAM = partial(inversion, signed=True, schedule="steps", box=True, tv=1e-4, steps=4800)

# ATTACKS.build(name, options[, progress=…]) -> a callable (Observation, list of them or Victims) -> Reconstruction
ATTACKS: Registry[Attack] = Registry(
    "attack",
    "attacks",
    {
        "dlg": Entry(
            partial(_LBFGS, distance="l2", labels="joint", steps=1000, restarts=2),
            "image and label together by L-BFGS; seconds per image",
            "DLG; SPN alg. 5",
        ),
        "idlg": Entry(
            partial(_LBFGS, distance="l2", steps=1000, restarts=2),
            "label read from the last layer, image by L-BFGS; seconds per image",
            "iDLG",
        ),
        "quick": Entry(
            partial(inversion, lr=0.2, signed=True, schedule="cosine", box=True, tv=0.1, steps=200),
            "adam+cosine with fewer, annealed steps and a stronger prior; seconds per image",
        ),
        "lbfgs+l2": Entry(
            partial(_LBFGS, distance="l2", steps=300, restarts=16),
            "L-BFGS, Euclidean distance, best of 16",
            "ATS sect. 5.1",
        ),
        "lbfgs+cosine": Entry(
            partial(_LBFGS, distance="cosine", steps=300, restarts=16),
            "L-BFGS, cosine distance, best of 16",
            "ATS sect. 5.1",
        ),
        "adam+cosine": Entry(
            _ADAM,
            "signed Adam, cosine distance, total variation; minutes per image",
            "ATS sect. 5.1",
        ),
        "adam+l2": Entry(
            partial(_ADAM, distance="l2"), "signed Adam, Euclidean distance", "ATS sect. 5.1"
        ),
        "adam+l1": Entry(
            partial(_ADAM, distance="l1"), "signed Adam, absolute distance", "ATS sect. 5.1"
        ),
        "sgd+cosine": Entry(
            partial(_ADAM, optimiser="sgd"), "signed SGD, cosine distance", "ATS sect. 5.1"
        ),
        "fedavg-replay": Entry(
            partial(
                inversion,
                signed=True,
                schedule="cosine",
                box=True,
                tv=0.01,
                replay=True,
                steps=1000,
            ),
            "several local steps, by a differentiable replay of the client's training",
            "Dimitrov 2022",
        ),
        "grad-inversion": Entry(
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
        "pruning-aware": Entry(
            partial(inversion, signed=True, schedule="cosine", box=True, tv=0.01, shared_only=True),
            "knows of pruning: compares only what was shared",
            "SPN sect. 4.1",
        ),
        "noise-aware": Entry(
            pooled_inversion, "knows of noise: scale-free, a prior, all rounds of a client together"
        ),
        "policy-aware": Entry(
            policy_inversion, "knows the augmentation policy: searches through it", "ATS sect. 4"
        ),
        "spn-aware": Entry(
            FeatureInversion,
            "knows of the secret head: reads label and features off the public one",
            "SPN",
        ),
        "linear": Entry(
            LinearSystem,
            "solves W = B·x on a fully connected first layer; exact",
            "SPN theorem 2.2",
        ),
        "recursive": Entry(
            Recursive, "solves layer by layer from the head to the input; one sample", "R-GAP"
        ),
        "read-bins": Entry(
            read_bins, "reads bins planted in the model's own first layers; exact", "Fowl 2022"
        ),
        "read-rows": Entry(
            read_rows, "reads rows that few samples pass, planted or fished", "Boenisch 2023"
        ),
    },
)
