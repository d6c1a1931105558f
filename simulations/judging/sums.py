"""The truth of a sum: under secure aggregation a claim is scored against all clients' samples."""

from typing import Any

import torch

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
        if not truths:
            continue
        joined: dict[str, Any] = {
            name: torch.cat([getattr(truth, name) for truth in truths])
            for name in ("x", "trained", "y", "indices")
        }
        Truth(
            **joined,
            clean=norm(seen.delta),
            added=0.0,
            round=seen.round,
            node=clients,
        ).save(folder.truth)
