"""Recognition: would somebody with public samples recognise what an attack drew?

PSNR says how near pixels are, and not whether anybody learns something from them. Two questions
stand beside it: is the original the nearest to the reconstruction among a hundred samples, and does
a classifier that was trained on public samples name the original's class.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedpriv.models.lenet import lenet
from fedpriv.models.mlp import mlp
from fedpriv.rng import generator, seed_of

AMONG = 100  # samples, one of which is the original
STEPS, BATCH, RATE = 300, 32, 1e-3  # of the classifier's training
LEAST = 12  # pixels a side that the convolutions need


@dataclass(frozen=True, eq=False)
class Recogniser:
    """Public samples to stand beside an original, and a classifier trained on others of them."""

    others: Tensor
    classifier: nn.Module

    def fits(self, guess: Tensor) -> bool:
        return guess.shape[1:] == self.others.shape[1:]

    def nearest(self, guess: Tensor, truth: Tensor) -> Tensor:
        """(N,) 0 where the original is nearer to the guess than any of the others, else 1."""
        own = (guess - truth).flatten(1).norm(dim=1)
        others = torch.cdist(guess.flatten(1), self.others.flatten(1)).amin(dim=1)
        found: Tensor = others <= own
        return found.long()

    @torch.no_grad()
    def named(self, guess: Tensor) -> Tensor:
        """(N,) the classes that the classifier sees in the guesses."""
        found: Tensor = self.classifier(guess.float()).argmax(dim=1)
        return found


def recogniser(x: Tensor, y: Tensor, classes: int, seed: int) -> Recogniser:
    """A recogniser from public samples (M, …) and their labels."""
    order = torch.randperm(len(x), generator=generator(seed, "recogniser"))
    kept, rest = order[: AMONG - 1], order[AMONG - 1 :]
    rest = rest if len(rest) >= BATCH else order  # few samples: the classifier sees all of them
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, "recogniser"))
        return Recogniser(x[kept], trained(x[rest], y[rest], classes))


def trained(x: Tensor, y: Tensor, classes: int) -> nn.Module:
    """A small classifier; of pictures with convolutions, where they are large enough."""
    pictures = x.dim() == 4 and x.shape[2] == x.shape[3] >= LEAST
    model = (
        lenet(channels=x.shape[1], size=x.shape[2], classes=classes)
        if pictures
        else mlp(channels=x[0].numel(), size=1, classes=classes)
    )
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    for _ in range(STEPS):
        batch = torch.randint(len(x), (BATCH,))
        optimiser.zero_grad()
        cross_entropy(model(x[batch].float()), y[batch].long()).backward()
        optimiser.step()
    return model.eval()
