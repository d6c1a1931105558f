"""Candidates of an app: samples its clients trained on, and as many that they did not.

Those were only evaluated. Where clients change samples at random before training, they are of
clients that were never asked to train, changed in the same way.
"""

from collections.abc import Container, Sequence

import torch
from torch import Tensor

from fedpriv.clients.noticing import Eyes
from fedpriv.evidence.candidates import Candidates, Key
from fedpriv.evidence.claims import Public
from fedpriv.evidence.truth import Truth
from fedpriv.rng import generator
from fedpriv.runfolder import RunFolder
from fedpriv.simulations.apps.targets import Target
from fedpriv.simulations.judging.held import NOBODY

MOST = 1000  # members that are asked about
LEAST = 20
KEPT = 200  # held-out samples for blind guesses alone, and at most half of them


def evaluated(
    held: Sequence[tuple[Tensor, Tensor]],
    known: Container[bytes],
    shape: tuple[int, ...],
    target: Target | None = None,
) -> Public | None:
    """Samples of these batches that were never trained on, each once, with their labels.

    Where samples bring a `target` along, they are of one class.
    """
    found: dict[bytes, tuple[Tensor, Tensor]] = {}
    if target is not None:
        held = [
            (target.joined(x, y), torch.zeros(len(x), dtype=torch.long))
            for x, y in held
            if tuple(x.shape[1:]) == target.x and target.y in (None, tuple(y.shape[1:]))
        ]
    for x, y in held:
        if tuple(x.shape[1:]) != shape or y.reshape(len(y), -1).shape[1] != 1:
            continue
        for sample, label in zip(x, y.reshape(len(y)), strict=True):
            key = sample.numpy().tobytes()
            if key not in known:
                found.setdefault(key, (sample, label))
    if not found:
        return None
    xs, ys = zip(*found.values(), strict=True)
    return Public(torch.stack(xs), torch.stack(ys).long())


def why_no_candidates(public: Public | None, eyes: Eyes) -> str:
    """Why membership cannot be asked about; nothing where it can."""
    few = public is None or len(public.y) < 2 * LEAST
    if few and eyes.random:
        return (
            f"clients change samples at random ({', '.join(sorted(eyes.random))}) before they "
            "train on them, so that evaluated ones look different, and no client was never asked "
            "to train"
        )
    if few:
        return "the app's clients evaluate too few samples that nobody trains on"
    return ""


def make_suspects(folder: RunFolder, truths: list[Truth], public: Public, seed: int = 0) -> int:
    """Write candidates and their key; a held-out sample has its member's label and suspect.

    Some held-out samples are not asked about: they are the public ones of blind guesses.
    """
    stream = generator(seed, "suspects")
    kept = min(KEPT, len(public.y) // 2)
    order = torch.randperm(len(public.y), generator=stream)[kept:]
    waiting: dict[int, list[int]] = {}
    for place in order.tolist():
        waiting.setdefault(int(public.y[place]), []).append(place)
    turns = {
        truth.node: (truth, torch.randperm(len(truth.y), generator=stream).tolist())
        for truth in truths
    }
    rows: list[tuple[Tensor, Tensor, int, int, int]] = []
    for turn in range(max((len(own) for _, own in turns.values()), default=0)):
        for node, (truth, own) in turns.items():
            if turn >= len(own) or len(rows) >= 2 * MOST:
                continue
            place = own[turn]
            if free := waiting.get(int(truth.y[place])):
                other = free.pop()
                label = truth.y[place]
                rows.append((truth.x[place], label, node, int(truth.indices[place]), node))
                rows.append((public.x[other], label, node, -1 - other, NOBODY))
    if len(rows) < 2 * LEAST:
        return 0
    mixed = [rows[i] for i in torch.randperm(len(rows), generator=stream).tolist()]
    x, y, suspect, numbers, owner = zip(*mixed, strict=True)
    Key(numbers=torch.tensor(numbers), owner=torch.tensor(owner)).save(folder.key_file)
    Candidates(x=torch.stack(x), y=torch.stack(y).long(), suspect=torch.tensor(suspect)).save(
        folder.candidates_file
    )
    return len(rows)
