"""Mechanisms with one known fault each: what a verifier must find, and what people do get wrong.

Each is right but for its fault, and has the noise of the ε that FAULTS claims for it. Try one:
`PYTHONPATH=tests/helpers fedpriv verify-dp mechanism dp_seeded:no_clipping --epsilon 4`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message

from fedpriv.simulations.dp.bounds import gaussian_epsilon
from fedpriv.simulations.dp.findings import Claim
from fedpriv.simulations.dp.reference import clipped
from fedpriv.simulations.dp.worlds import BATCH, BUFFER, FEW, Neighbours, Update

CLIP, EPSILON, DELTA = 1.0, 4.0, 1e-5
NOISE = 1.0811618495202397  # of the Gaussian mechanism with ε = 4 at δ = 1e-5 (arXiv 1805.06530)
MORE_NOISE = 1.9938  # of ε = 2
EPOCHS = 10
POISSON_NOISE = 1.506553354701246  # of 80 Poisson steps at rate 1/8 with ε = 4 at δ = 1e-5 (PLD)
Next = Callable[[Message, Context], Message]


def noised(update: Mapping[str, np.ndarray], scale: float) -> Update:
    """The update with fresh Gaussian noise on every entry."""
    return {k: v + scale * np.random.standard_normal(v.shape) for k, v in update.items()}


def total(updates: Sequence[Update]) -> Update:
    return {k: np.sum([one[k] for one in updates], axis=0) for k in updates[0]}


def no_clipping(update: Update) -> Update:
    """The noise fits a norm of 1, and nobody sees to it that updates have it."""
    return noised(update, NOISE * CLIP)


def clipped_weights(msg: Message, ctxt: Context, call_next: Next) -> Message:
    """A mod that clips the model instead of its change: neighbours can be two norms apart."""
    reply = call_next(msg, ctxt)
    key, arrays = next(iter(reply.content.array_records.items()))
    weights = {name: array.numpy() for name, array in arrays.items()}
    released = noised(clipped(weights, CLIP), NOISE * CLIP)
    reply.content[key] = ArrayRecord(
        {k: Array(np.asarray(v, dtype=np.float32)) for k, v in released.items()}
    )
    for figures in reply.content.metric_records.values():
        figures["num-examples"] = 1
    return reply


def too_small_sensitivity(update: Update) -> Update:
    """The noise fits a sensitivity of 0.1, and the norm is 1."""
    return noised(clipped(update, CLIP), NOISE * 0.1 * CLIP)


def noise_by_root(updates: Sequence[Update]) -> Update:
    """A mean whose noise is divided by n and then by √n once more."""
    count = len(updates)
    mean = {k: v / count for k, v in total([clipped(u, CLIP) for u in updates]).items()}
    return noised(mean, NOISE * CLIP / count / np.sqrt(count))


def replaced(update: Update) -> Update:
    """Right for adding or removing a client, and sold for replacing one."""
    return noised(clipped(update, CLIP), NOISE * CLIP)


def fixed_batches(updates: Sequence[Update]) -> dict[str, np.ndarray]:
    """Ten epochs over eight batches that are never shuffled, with the noise of Poisson sampling.

    Eighty steps at rate 1/8 with this noise have ε = 4; a sample whose batch is known has more. The
    release is the sum over epochs of what each batch gave.
    """
    found: dict[str, np.ndarray] = {}
    for number, update in enumerate(updates):
        batch = {k: EPOCHS * v for k, v in clipped(update, CLIP).items()}
        noisy = noised(batch, POISSON_NOISE * CLIP * np.sqrt(EPOCHS))
        found |= {f"batch {number}, {k}": v for k, v in noisy.items()}
    return found


def floored_batch(updates: Sequence[Update]) -> Update:
    """A mean over the whole number below the expected batch size, which tells how many there are.

    Batches of four: seven samples make two batches, 3.5 expected, and the mean is taken over 3.
    """
    batches = -(-len(updates) // BATCH)
    expected = int(len(updates) / batches)
    noisy = noised(total([clipped(u, CLIP) for u in updates]), MORE_NOISE * CLIP)
    return {k: v / expected for k, v in noisy.items()}


def noise_reused(update: Update) -> Update:
    """The noise comes from a seed that is set anew in every round."""
    draw = np.random.default_rng(42)
    return {
        k: v + NOISE * CLIP * draw.standard_normal(v.shape)
        for k, v in clipped(update, CLIP).items()
    }


def bare_buffers(update: Update) -> Update:
    """Weights are clipped and noised, and running statistics are sent as they are."""
    weights = {k: v for k, v in update.items() if k in ("weight", "bias")}
    rest = {k: v for k, v in update.items() if k not in weights}
    return noised(clipped(weights, CLIP), NOISE * CLIP) | rest


def exact_counts(msg: Message, ctxt: Context, call_next: Next) -> Message:
    """A mod that clips and noises the model, and lets the number of samples through."""
    start = {k: v.numpy() for k, v in next(iter(msg.content.array_records.values())).items()}
    reply = call_next(msg, ctxt)
    key, arrays = next(iter(reply.content.array_records.items()))
    change = {k: v.numpy().astype(np.float64) - start[k] for k, v in arrays.items()}
    released = noised(clipped(change, CLIP), NOISE * CLIP)
    reply.content[key] = ArrayRecord(
        {k: Array(np.asarray(start[k] + v, dtype=np.float32)) for k, v in released.items()}
    )
    return reply


for _function in (noise_by_root, fixed_batches, floored_batch):
    _function.takes = "updates"  # type: ignore[attr-defined]
for _function in (noise_by_root, fixed_batches):
    _function.fixed = True  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Fault:
    """A row of the teaching table: the fault, what is claimed all the same, and how it shows."""

    name: str
    target: str  # a mechanism, or "" for a claim on paper
    why: str
    epsilon: float = EPSILON
    unit: Literal["sample", "client"] = "client"
    neighbours: Neighbours = "add-remove"
    account: Mapping[str, Any] | None = None  # of a claim on paper
    true: float | None = None  # its real ε, where it is known

    @property
    def claim(self) -> Claim:
        return Claim(self.epsilon, DELTA, self.unit, self.neighbours)


def shifted(times: float, noise: float = NOISE) -> float:
    """ε of Gaussian noise for a distance of so many clip norms."""
    return gaussian_epsilon(times / noise, DELTA)


HERE = "dp_seeded"
FAULTS: tuple[Fault, ...] = (
    Fault(
        "no clipping",
        f"{HERE}:no_clipping",
        "one client adds as much as it likes",
        true=math.inf,
    ),
    Fault(
        "weights clipped instead of the update",
        f"{HERE}:clipped_weights",
        "two models of norm C are up to 2C apart",
        true=shifted(2),
    ),
    Fault(
        "sensitivity unequal to the clip norm",
        f"{HERE}:too_small_sensitivity",
        "the noise must fit the largest change, which is the clip norm",
        true=shifted(10),
    ),
    Fault(
        "noise divided by √n",
        f"{HERE}:noise_by_root",
        "a mean needs noise σC/n; another √n has no reason",
        true=shifted(math.sqrt(FEW + 1)),
    ),
    Fault(
        "ε of one round",
        "",
        "every round is a release of its own",
        account={"noise": NOISE, "rounds": 20},
    ),
    Fault(
        "replace sold as add/remove",
        f"{HERE}:replaced",
        "to replace is to remove and to add: twice the distance",
        neighbours="replace",
        true=shifted(2),
    ),
    Fault(
        "fixed batches billed as Poisson",
        f"{HERE}:fixed_batches",
        "who knows the batch of a sample gains from looking there",
        unit="sample",
        true=shifted(math.sqrt(EPOCHS), POISSON_NOISE),
    ),
    Fault(
        "floor of the batch size",
        f"{HERE}:floored_batch",
        "the size of the noise tells the number of samples",
        epsilon=2.0,
        unit="sample",
    ),
    Fault(
        "noise seed reused over rounds",
        f"{HERE}:noise_reused",
        "the difference of two rounds has no noise",
        true=math.inf,
    ),
    Fault(
        "buffers not noised",
        f"{HERE}:bare_buffers",
        f"a {BUFFER} is a mean of the data",
        true=math.inf,
    ),
    Fault(
        "exact counts in metrics",
        f"{HERE}:exact_counts",
        "a count says whether one sample more was there",
        unit="sample",
        true=math.inf,
    ),
    Fault(
        "hyper-parameters tuned for free",
        "",
        "runs that were not kept saw the data too",
        epsilon=1.83,
        unit="sample",
        account={
            "noise": 1.0,
            "rate": 0.01,
            "steps": 1000,
            "sampling": "poisson",
            "runs": 20,
        },
    ),
)
