"""The truth behind a sum: what secure aggregation adds up is scored against all its clients' samples."""

import torch

from fedpriv.evidence.observation import Observation
from fedpriv.evidence.truth import Truth
from fedpriv.runfolder import RunFolder
from fedpriv.state import norm


def join_truths(folder: RunFolder, clients: int) -> None:
    """For every observed sum the samples of its clients, under the sum's own name."""
    for path in sorted(folder.observations.glob(f"*-{clients}.safetensors")):
        seen = Observation.load(path)
        files = [folder.truth / f"{seen.round}-{client}.npz" for client in range(clients)]
        truths = [Truth.load(file) for file in files if file.exists()]
        if not truths:
            continue
        Truth(
            x=torch.cat([truth.x for truth in truths]),
            trained=torch.cat([truth.trained for truth in truths]),
            y=torch.cat([truth.y for truth in truths]),
            indices=torch.cat([truth.indices for truth in truths]),
            clean=norm(seen.delta),
            added=0.0,
            round=seen.round,
            node=clients,
        ).save(folder.truth)
