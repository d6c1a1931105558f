"""An attack that finds nothing: it writes down when it ran, and on which GPU of Ray."""

import json
import time
import uuid
from pathlib import Path

import ray
import torch

from fedpriv.evidence.claims import Reconstruction
from fedpriv.simulations.federation.gpus import given

PATIENCE = 240.0  # seconds in which a busy machine starts the others
AFTER = 0.5  # seconds that all stay together, in which one too many would be seen


class Witness:
    """waits until so many calls have begun, or until it is told to stop"""

    def __init__(self, place: str, number: int = 0, together: int = 1) -> None:
        self.place, self.together = Path(place), together

    def __call__(self, seen, progress):
        started = time.time()
        name = uuid.uuid4().hex
        (self.place / f"{name}.begun").touch()
        going_on = True
        while going_on and begun(self.place) < self.together and time.time() < started + PATIENCE:
            time.sleep(0.05)
            going_on = progress(0.0, 0.0)
        if going_on:
            time.sleep(AFTER)
        said = {"ids": ray.get_gpu_ids(), "device": given(), "time": [started, time.time()]}
        (self.place / f"{name}.json").write_text(json.dumps(said))
        x = torch.zeros(len(seen), 1, *seen[0].input_shape)
        labels = torch.zeros(len(seen), 1, dtype=torch.long)
        return Reconstruction(x=x, labels=labels, loss=torch.zeros(len(seen)), partial=not going_on)


def begun(place: Path) -> int:
    """How many calls have begun so far."""
    return len(list(place.glob("*.begun")))


def most_at_once(place: Path) -> tuple[int, dict[int, int]]:
    """How many calls ran at the same time at the most, in all and on each GPU."""
    said = [json.loads(path.read_text()) for path in place.glob("*.json")]

    def most(some):
        return max(
            sum(a <= one["time"][0] < b for a, b in (o["time"] for o in some)) for one in some
        )

    cards = {int(number) for one in said for number in one["ids"]}
    return most(said), {n: most([o for o in said if int(o["ids"][0]) == n]) for n in sorted(cards)}
