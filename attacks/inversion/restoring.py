"""A learned prior: a small network repairs what a search found, as it did for planted clients.

The attacker has samples of the same kind as the victims'. It plants clients with them, attacks them
in the same way, and so knows pairs of a guess and the original behind it. A network learns from the
pairs what the search gets wrong on such pictures, and then repairs the guesses about the victims.
The network is used only where it pays on planted clients that it was not trained on.
"""

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate, mse_loss

from fedpriv.attacks.inversion.attack import GradientInversion, Seen, victims_of
from fedpriv.attacks.inversion.control import planted
from fedpriv.attacks.inversion.initialisers import normalised
from fedpriv.errors import BadObservation, BadOption
from fedpriv.evidence.claims import Public, Reconstruction
from fedpriv.metrics.images import psnr
from fedpriv.metrics.matching import assignment
from fedpriv.progress import Progress, Told, go_on
from fedpriv.rng import generator, seed_of
from fedpriv.training import fit, outputs

HELD = 5  # one planted picture in so many says whether the repair pays
LEAST = 40  # planted pictures: with fewer the network learns them by heart
SEARCH, PLANTING = 0.15, 0.7  # where the parts of the work end, about


class Repair(nn.Module):
    """Pictures (N, C, H, W) in [0, 1] to pictures; it begins as the identity.

    Three resolutions, so that it can repair a colour that is off in a whole region as well as
    single pixels.
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.fine = layer(channels, width)
        self.middle = layer(width, 2 * width)
        self.coarse = nn.Sequential(layer(2 * width, 2 * width), layer(2 * width, 2 * width))
        self.joined = layer(3 * width, width)
        self.change = nn.Conv2d(width, channels, 3, padding=1)
        for value in self.change.parameters():
            nn.init.zeros_(value)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.fine(x - 0.5)
        middle = self.middle(avg_pool2d(fine, 2))
        middle = middle + interpolate(self.coarse(avg_pool2d(middle, 2)), middle.shape[2:])
        joined = torch.cat([fine, interpolate(middle, fine.shape[2:])], 1)
        found: Tensor = x + self.change(self.joined(joined))
        return found


def layer(inside: int, outside: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.ReLU())


def pairs_of(claim: Reconstruction, truth: Tensor) -> tuple[Tensor, Tensor]:
    """(N, C, H, W) guesses, and the originals that they are nearest to within their batch."""
    guesses, originals = [], []
    for guess, own in zip(claim.pixels, claim.as_pixels(truth[: len(claim.x)]), strict=True):
        of, to = assignment(guess, own)
        guesses.append(guess[of])
        originals.append(own[to])
    return torch.cat(guesses), torch.cat(originals)


@dataclass(frozen=True)
class Restored:
    """`inversion`, and then the repair that a network learned on `planted` pictures.

    `own` are the attacker's samples, as the model takes them. `epochs` and `width` are those of the
    network.
    """

    inversion: GradientInversion
    own: Public
    planted: int = 512
    epochs: int = 30
    width: int = 24
    seed: int = 0

    def __post_init__(self) -> None:
        if self.planted < LEAST:
            raise BadOption(f"planted must be at least {LEAST} pictures, got {self.planted}.")

    def __call__(self, seen: Seen, progress: Progress = go_on) -> Reconstruction:
        started, told = time.perf_counter(), Told(progress)
        victims = victims_of(seen)
        shape = victims.facts.input_shape
        if len(shape) != 3 or min(shape[1:]) < 8:
            raise BadObservation(
                f"Only pictures of 8×8 pixels or more can be repaired, not {shape}."
            )
        found = self.inversion(victims, told.within(0, SEARCH))
        about = {"own-samples": len(self.own.x)}
        if told.stopped:
            return replace(found, extra={**found.extra, **about, "repaired": False})
        count = -(-self.planted // victims.slots)
        control, truth, _ = planted(victims, count, self.seed, self.own.x)
        practice = self.inversion(control, told.within(SEARCH, PLANTING))
        guesses, originals = pairs_of(practice, truth)
        repair, gain, error = self.learned(guesses, originals, told.within(PLANTING, 1))
        pays = not told.stopped and gain > 2 * error
        if pays:
            pixels = outputs(repair, found.pixels.flatten(0, 1)).clamp(0, 1)
            x = normalised(pixels, victims.facts).unflatten(0, found.x.shape[:2])
            found = replace(found, x=x)
        return replace(
            found,
            seconds=time.perf_counter() - started,
            partial=told.stopped,
            extra={
                **found.extra,
                **about,
                "planted": len(guesses),
                "gain": [round(gain, 3), round(error, 3)],
                "repaired": pays,
            },
        )

    def learned(
        self, guesses: Tensor, originals: Tensor, progress: Progress
    ) -> tuple[Repair, float, float]:
        """The network, and its gain in dB with a standard error, on pictures it did not learn from.

        Every picture is also learned in its mirror.
        """
        held = len(guesses) // HELD
        x, y = (torch.cat([part[held:], part[held:].flip(-1)]) for part in (guesses, originals))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of(self.seed, "repair"))
            repair = Repair(x.shape[1], self.width).to(x.device)
        fit(
            repair,
            x,
            y,
            draw=generator(self.seed, "repair"),
            epochs=self.epochs,
            batch=32,
            loss=mse_loss,
            progress=progress,
        )
        after = psnr(outputs(repair, guesses[:held]).clamp(0, 1), originals[:held])
        gains = after - psnr(guesses[:held], originals[:held])
        return repair, float(gains.mean()), float(gains.std() / held**0.5)
