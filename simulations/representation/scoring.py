"""Where guesses from codes meet the samples: MSE, PSNR, SSIM, categories, attributes, faces."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedpriv.codes.parties import columns_of, holding_of, is_vertical, settings
from fedpriv.data.dataset import Dataset
from fedpriv.metrics.faces import Verifier
from fedpriv.metrics.features import cosine_similarity
from fedpriv.metrics.images import mse, psnr, rmse, ssim
from fedpriv.metrics.labels import f1, hit, mcc, rate_equal
from fedpriv.rng import generator
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of

Row = dict[str, Any]


@dataclass(frozen=True)
class Victims:
    """The samples of one party that attacks are scored on: their places in what it shared."""

    party: int
    places: Tensor
    x: Tensor
    ids: Tensor


def victims_of(scenario: Scenario, party: int) -> Victims:
    held = holding_of(scenario, party)
    count = min(settings(scenario).victims, len(held.x))
    places = torch.randperm(len(held.x), generator=generator(scenario.seed, "victims", party))
    places = places[:count]
    return Victims(party, places, held.x[places], held.ids[places])


def categories(scenario: Scenario, party: int) -> dict[str, Tensor]:
    """The one-hot columns of each attribute that a party holds, by their places in its samples."""
    dataset = dataset_of(scenario)
    if len(dataset.shape) != 1:
        return {}
    own = columns_of(scenario, party) if is_vertical(scenario) else torch.arange(dataset.shape[0])
    place = {int(column): i for i, column in enumerate(own)}
    return {
        name: torch.tensor([place[column] for column in range(part.start, part.stop)])
        for name, part in dataset.groups.items()
        if part.stop - part.start > 1 and part.start in place
    }


def category_hits(guess: Tensor, truth: Tensor, groups: Mapping[str, Tensor]) -> Tensor:
    """The share of attributes whose category is guessed right, (N,) (ARS table 3's Rec. Acc)."""
    hits = [
        (guess[:, columns].argmax(dim=1) == truth[:, columns].argmax(dim=1)).double()
        for columns in groups.values()
    ]
    return torch.stack(hits).mean(dim=0)


def sample_scores(
    scenario: Scenario, victims: Victims, guess: Tensor, faces: Verifier | None = None
) -> dict[str, Tensor]:
    """Every metric that fits the data, one value a sample."""
    dataset: Dataset = dataset_of(scenario)
    if len(dataset.shape) == 1:
        groups = categories(scenario, victims.party)
        found = {"mse": mse(guess, victims.x), "rmse": rmse(guess, victims.x)}
        return found | ({"categories": category_hits(guess, victims.x, groups)} if groups else {})
    if not dataset.is_image:
        return {"mse": mse(guess, victims.x), "rmse": rmse(guess, victims.x)}
    a, b = dataset.denormalised(guess), dataset.denormalised(victims.x)
    found = {"mse": mse(a, b), "psnr": psnr(a, b), "ssim": ssim(a, b), "rmse": rmse(a, b)}
    if faces is not None:
        found["face"] = cosine_similarity(faces(a), faces(b))
    return found


def attribute_scores(
    guess: Tensor, truth: Tensor, classes: int, fixed: int = 0
) -> dict[str, float]:
    """How well a private attribute was read, and how often the guess is the fixed class r."""
    return {
        "attribute-accuracy": float(hit(guess, truth).mean()),
        "attribute-f1": f1(guess, truth, classes),
        "attribute-mcc": mcc(guess, truth, classes),
        "rate-r": rate_equal(guess, fixed),
    }
