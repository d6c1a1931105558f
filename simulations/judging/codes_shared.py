"""The codes that runs shared, with their labels, to be looked at."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedpriv.errors import BadFolder
from fedpriv.evidence.folder import load_folder
from fedpriv.evidence.release import Release
from fedpriv.rng import generator
from fedpriv.runfolder import RunFolder

Codes = tuple[np.ndarray, np.ndarray]  # (N, K) and their labels (N,)


def codes_in(
    folders: Sequence[Path], most: int, party: int | None = None, seed: int = 0
) -> dict[str, Codes]:
    """Codes of the last round by the run's name: runs, and the variants right below a folder."""
    runs = [
        (name, folder)
        for path in folders
        for name, folder in below(path)
        if any(folder.observations.glob("*.safetensors"))
    ]
    names = [name for name, _ in runs]
    found = {
        name if names.count(name) == 1 else str(folder.path): drawn(folder, most, party, seed)
        for name, folder in runs
    }
    if not found:
        raise BadFolder(
            "None of these folders holds codes; run a scenario that shares them, such as "
            "`fedpriv run ran-mnist --profile small`."
        )
    return found


def below(path: Path) -> list[tuple[str, RunFolder]]:
    if not path.is_dir():
        raise BadFolder(f"'{path}' is no folder; give the folders of runs.")
    own = path.resolve().name
    if RunFolder(path).scenario_file.exists():
        return [(own, RunFolder(path))]
    return [
        (f"{own}/{part.name}", RunFolder(part))
        for part in sorted(path.iterdir())
        if RunFolder(part).scenario_file.exists()
    ]


def labels(release: Release) -> Tensor:
    """The label of the first task of each code; zeros where a party shares none."""
    count, y = len(release.shared.z), release.shared.y
    return torch.zeros(count) if y is None else y.reshape(count, -1)[:, 0]


def drawn(folder: RunFolder, most: int, party: int | None, seed: int) -> Codes:
    """At most so many codes of a run, drawn at random over its parties."""
    evidence, _ = load_folder(folder.observations)
    releases = [one for one in evidence if isinstance(one, Release)]
    if not releases:
        raise BadFolder(f"'{folder.path}' shares updates, not codes; t-SNE is for codes.")
    last = max(one.round for one in releases)
    taken = [
        one
        for one in releases
        if one.round == last and (party is None or str(one.node) == str(party))
    ]
    if not taken:
        raise BadFolder(f"'{folder.path}' has no codes of party {party}.")
    z = torch.cat([one.shared.z.flatten(1) for one in taken])
    y = torch.cat([labels(one) for one in taken])
    order = torch.randperm(len(z), generator=generator(seed, "t-sne"))[:most]
    return z[order].double().numpy(), y[order].numpy()
