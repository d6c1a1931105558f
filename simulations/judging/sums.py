"""The truth of a sum: under secure aggregation a claim is scored against all clients' samples."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from fedpriv.evidence.folder import load_folder
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.truth import Truth
from fedpriv.runfolder import RunFolder
from fedpriv.state import norm


def join_truths(folder: RunFolder, clients: int) -> None:
    """For every observed sum the samples of its clients, under the sum's own name."""
    for path in sorted(folder.observations.glob(f"*-{clients}.safetensors")):
        seen = Observation.load(path)
        kept = [folder.truth_of(f"{seen.round}-{client}") for client in range(clients)]
        truths = [truth for truth in kept if truth is not None]
        if truths:
            joined(truths, seen, clients).save(folder.truth)


def joined(truths: Sequence[Truth], seen: Observation, node: int) -> Truth:
    """The samples of several clients as those behind one sum."""
    parts: dict[str, Any] = {
        name: torch.cat([getattr(truth, name) for truth in truths])
        for name in ("x", "trained", "y", "indices")
    }
    return Truth(**parts, clean=norm(seen.delta), added=0.0, round=seen.round, node=node)


def put_together(clients: RunFolder, folder: RunFolder, many: int) -> None:
    """The updates of every `many` clients as one sum, with their samples, in another folder.

    It is what a server sees behind secure aggregation, without the rounding of masked numbers:
    never less than a real sum shows. Clients that are left over are in no sum.
    """
    seen = [one for one in load_folder(clients.observations)[0] if isinstance(one, Observation)]
    known = [(one, truth) for one in seen if (truth := clients.truth_of(one.name)) is not None]
    for node in range(len(known) // many):
        group = known[node * many : (node + 1) * many]
        total = mean_of([one for one, _ in group], node)
        joined([truth for _, truth in group], total, node).save(folder.truth)
        total.save(folder.observations)


def mean_of(seen: Sequence[Observation], node: int) -> Observation:
    """The mean that FedAvg makes of some updates, as one client's update on everybody's samples."""
    examples = [one.num_examples for one in seen]
    received = {}
    for key, first in seen[0].received.items():
        parts = [
            one.received[key].double() * (count / sum(examples))
            for one, count in zip(seen, examples, strict=True)
        ]
        mean = torch.stack(parts).sum(dim=0).to(first.dtype)
        received[key] = mean if first.is_floating_point() else first
    batch = seen[0].batch_size * len(seen)
    return replace(
        seen[0], received=received, batch_size=batch, num_examples=sum(examples), node=node
    )
