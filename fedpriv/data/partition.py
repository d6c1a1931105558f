"""Who holds what: IID, Dirichlet, shards, natural owners, and columns.

SPN app. C, ARS sect. 4.4.2.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch

from fedpriv.errors import BadOption
from fedpriv.rng import seed_of

Kind = Literal["iid", "dirichlet", "shards", "natural"]
Labels = np.ndarray | torch.Tensor


def iid(labels: np.ndarray, clients: int, seed: int) -> list[np.ndarray]:
    """Equal parts with equal class counts, both to within one sample (SPN app. C).

    flwr-datasets' IID partitioner does not balance classes: shuffle each class and deal it out,
    each class going on where the last one ended.
    """
    draw = np.random.default_rng(seed_of(seed, "partition", "iid"))
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    deck = np.concatenate([draw.permutation(indices) for indices in members])
    return [np.sort(deck[client::clients]) for client in range(clients)]


def _divided(partitioner: Any, labels: np.ndarray, clients: int) -> list[np.ndarray]:
    """The indices that one of flwr-datasets' partitioners gives to each client."""
    from datasets import Dataset

    partitioner.dataset = Dataset.from_dict({"index": np.arange(len(labels)), "label": labels})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a draw that it repeats
        parts = [partitioner.load_partition(client) for client in range(clients)]
    return [np.sort(np.asarray(part["index"][:], dtype=np.int64)) for part in parts]


def dirichlet(
    labels: np.ndarray, clients: int, alpha: float, smallest: int, seed: int
) -> list[np.ndarray]:
    """Each class divided in proportions drawn from Dirichlet(α, …, α); small α, unlike clients."""
    if not alpha > 0:
        raise BadOption(f"alpha must be positive, got {alpha}; 0.9 is SPN's, large ones are IID.")
    from flwr_datasets.partitioner import DirichletPartitioner  # seconds to import

    partitioner = DirichletPartitioner(
        num_partitions=clients,
        partition_by="label",
        alpha=alpha,
        min_partition_size=smallest,
        self_balancing=False,
        shuffle=False,
        seed=seed_of(seed, "partition", "dirichlet") % 2**32,
    )
    try:
        return _divided(partitioner, labels, clients)
    except ValueError as error:
        raise BadOption(
            f"Dirichlet with alpha={alpha} does not give each of {clients} clients at least "
            f"{smallest} of {len(labels)} samples; raise alpha, or lower clients or smallest."
        ) from error


def shards(labels: np.ndarray, clients: int, each: int, seed: int) -> list[np.ndarray]:
    """The samples sorted by class, cut into clients × each equal shards, dealt out at random.

    What does not fill a shard is left out, fewer than clients × each samples.
    """
    if each < 1 or clients * each > len(labels):
        raise BadOption(
            f"shards must be at least 1, and clients × shards at most the {len(labels)} samples; "
            f"got {clients} × {each}."
        )
    from flwr_datasets.partitioner import ShardPartitioner  # seconds to import

    partitioner = ShardPartitioner(
        num_partitions=clients,
        partition_by="label",
        num_shards_per_partition=each,
        shard_size=len(labels) // (clients * each),
        shuffle=False,
        seed=seed_of(seed, "partition", "shards") % 2**32,
    )
    return _divided(partitioner, labels, clients)


def natural(owners: np.ndarray, clients: int) -> list[np.ndarray]:
    """The samples of one owner stay together; more owners than clients are dealt out in turn."""
    known = np.unique(owners)
    if clients > len(known):
        raise BadOption(f"{clients} clients need as many owners; the data have {len(known)}.")
    return [np.flatnonzero(np.isin(owners, known[client::clients])) for client in range(clients)]


def partition(
    labels: Labels,
    clients: int,
    kind: Kind = "iid",
    *,
    alpha: float = 0.9,
    shards_each: int = 2,
    smallest: int = 2,
    owners: Labels | None = None,
    seed: int = 0,
) -> list[np.ndarray]:
    """Ascending indices into the training samples, one array a client; same seed, same arrays.

    `alpha` and `smallest` (samples of the poorest client; 2 is what BatchNorm needs) are
    Dirichlet's, `shards_each` is shards', `owners` (`Dataset.ids[0]`) natural's.
    """
    labels = np.asarray(labels)
    if clients < 1 or clients > len(labels):
        raise BadOption(
            f"clients must be in 1..{len(labels)}, the number of training samples; got {clients}."
        )
    if kind == "iid":
        return iid(labels, clients, seed)
    if kind == "dirichlet":
        return dirichlet(labels, clients, alpha, smallest, seed)
    if kind == "shards":
        return shards(labels, clients, shards_each, seed)
    if kind == "natural":
        if owners is None:
            raise BadOption("These data have no natural owners; choose iid, dirichlet or shards.")
        return natural(np.asarray(owners), clients)
    raise BadOption(
        f"No partition is named '{kind}'. Choose from: iid, dirichlet, shards, natural."
    )


def vertical(columns: int | Mapping[str, slice], parties: int) -> list[np.ndarray]:
    """Ascending column indices, one array a party, as even as whole attributes allow (ARS table 3).

    Columns of one attribute stay together: those of one group, and of groups named alike up to
    a colon. The widest attribute goes first, to the party with the fewest columns.
    """
    if isinstance(columns, int):
        columns = {str(i): slice(i, i + 1) for i in range(columns)}
    attributes: dict[str, list[int]] = {}
    for name, place in columns.items():
        attributes.setdefault(name.partition(":")[0], []).extend(range(place.start, place.stop))
    if not 1 <= parties <= len(attributes):
        raise BadOption(
            f"parties must be in 1..{len(attributes)}, the number of attributes; got {parties}."
        )
    shares: list[list[int]] = [[] for _ in range(parties)]
    for indices in sorted(attributes.values(), key=len, reverse=True):
        min(shares, key=len).extend(indices)
    return [np.sort(np.array(share)) for share in shares]


def class_counts(labels: Labels, parts: Sequence[np.ndarray], classes: int) -> np.ndarray:
    """How many samples of each class each client has, (clients, classes)."""
    labels = np.asarray(labels)
    return np.stack([np.bincount(labels[part], minlength=classes) for part in parts])
