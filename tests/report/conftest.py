"""Small made-up run folders, in the format that runs write."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.truth import Truth
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables

MakeRun = Callable[..., RunFolder]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """A finished run: three rounds, two attacks on each client, PSNR as given."""

    def make(name: str = "plain", psnr: float = 30.0, clients: int = 3, **tables: Any) -> RunFolder:
        folder = RunFolder(tmp_path / name)
        attacks = [{"name": "dlg"}]
        folder.start(
            from_tables({"name": folder.path.name, "seed": 7, "attacks": attacks, **tables})
        )
        for number in (1, 2, 3):
            figures = {"accuracy": 0.3 * number, "loss": 1 / number, "seconds": 0.5}
            traffic = {"asked": 3, "clients": 3, "failed": [], "bytes-up": 100, "bytes-down": 100}
            folder.add_round({"round": number, **figures, **traffic})
        rows = []
        for attack in ("dlg", "adam+cosine"):
            for number in (1, 3):
                for node in range(clients):
                    value = psnr - min(node, 2) - (attack != "dlg")
                    row = {"run": name, "round": number, "node": node, "attack": attack}
                    rows.append(row | {"psnr": value, "ssim": value / 40, "victim": node})
                    x = torch.full((1, 1, 1, 6, 6), 0.3 * min(node, 2))
                    guess = {"labels": torch.zeros(1, 1), "loss": torch.zeros(1)}
                    found = Reconstruction(x=x + 0.05, names=(f"{number}-{node}",), **guess)
                    found.save(folder.claim_file(attack, f"{number}-{node}"))
                    same = {"x": x[0], "trained": x[0], "y": torch.zeros(1), "clean": 1.0}
                    about = {"indices": torch.tensor([node]), "round": number, "node": node}
                    Truth(**same, **about, added=0.0).save(folder.truth)
        folder.write_scores(rows)
        return folder

    return make
