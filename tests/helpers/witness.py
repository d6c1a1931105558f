"""An attack that finds nothing: it writes down when it ran, and on which GPU of Ray."""

import json
import time
import uuid
from pathlib import Path

import ray
import torch

from fedpriv.evidence.claims import Reconstruction
from fedpriv.simulations.federation.gpus import given


class Witness:
    """writes down where it ran"""

    def __init__(self, place: str, number: int = 0, seconds: float = 1.0) -> None:
        self.place, self.seconds = Path(place), seconds

    def __call__(self, seen, progress):
        started = time.time()
        while time.time() < started + self.seconds and progress(0.0, 0.0):
            time.sleep(0.05)
        said = {"ids": ray.get_gpu_ids(), "device": given(), "time": [started, time.time()]}
        (self.place / f"{uuid.uuid4().hex}.json").write_text(json.dumps(said))
        x = torch.zeros(len(seen), 1, *seen[0].input_shape)
        labels = torch.zeros(len(seen), 1, dtype=torch.long)
        partial = not progress(1.0, 0.0)
        return Reconstruction(x=x, labels=labels, loss=torch.zeros(len(seen)), partial=partial)


def most_at_once(place: Path) -> tuple[int, dict[int, int]]:
    """How many calls ran at the same time at the most, in all and on each GPU."""
    said = [json.loads(path.read_text()) for path in place.glob("*.json")]

    def most(some):
        return max(
            sum(a <= one["time"][0] < b for a, b in (o["time"] for o in some)) for one in some
        )

    cards = {int(number) for one in said for number in one["ids"]}
    return most(said), {n: most([o for o in said if int(o["ids"][0]) == n]) for n in sorted(cards)}
