"""Figures of a state are the same bits in any order of its names."""

import random
import subprocess
import sys

import torch

from fedpriv.runfolder import RunFolder
from fedpriv.state import norm


def test_a_norm_is_the_same_in_any_order_of_the_names():
    draw = torch.Generator().manual_seed(0)
    state = {f"layer{i}": torch.randn(7 + i, 3, generator=draw) * 10**i for i in range(9)}
    names, shuffle = list(state), random.Random(0)
    found = set()
    for _ in range(50):
        shuffle.shuffle(names)
        found.add(norm({name: state[name] for name in names}))
    assert len(found) == 1


def test_a_checkpoint_is_read_in_the_same_order_by_every_process(tmp_path):
    place = RunFolder(tmp_path)
    place.save_model({f"layer{i}": torch.zeros(i + 1) for i in range(12)}, {"round": 1})
    ask = (
        "import sys; from pathlib import Path; from fedpriv.runfolder import RunFolder; "
        "print(*RunFolder(Path(sys.argv[1])).checkpoint_state())"
    )
    here = " ".join(place.checkpoint_state())
    said = subprocess.run(
        [sys.executable, "-c", ask, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert said.stdout.split() == here.split()
