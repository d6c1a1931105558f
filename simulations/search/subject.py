"""What policies are searched for: the data, and the two models of ATS alg. 1 that judge them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import nn

from fedpriv.catalogue import MODELS
from fedpriv.data.dataset import Dataset
from fedpriv.errors import BadData, BadFolder, BadOption
from fedpriv.files import whole
from fedpriv.policies.privacy_score import Reduction, Rule
from fedpriv.policies.scorer import Scorer
from fedpriv.policies.search import Search
from fedpriv.policies.transforms import check_images
from fedpriv.progress import Progress
from fedpriv.rng import generator, seed_of
from fedpriv.state import state_of
from fedpriv.training import fit

ATTACKED = 100  # ATS attacks the first test images, so that no policy is scored on them


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What the policies are searched for, and how the models that judge them are made."""

    data: str = "cifar100"
    model: str = "resnet20"
    root: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # of the model
    share: float = 0.1  # the part of the training samples that M^s is trained on
    epochs: int = 50  # how often M^s sees them
    batch: int = 128  # images in a round of S_acc
    points: int = 10  # K, interpolation points of S_pri
    reduction: Reduction = "global"
    rule: Rule = "left"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise BadOption(f"share must be in (0, 1], got {self.share}.")
        if self.epochs < 0 or self.points < 2 or self.batch < 2:
            raise BadOption(
                "epochs must be at least 0, points at least 2 and batch at least 2, got "
                f"{self.epochs}, {self.points} and {self.batch}."
            )


def untrained(subject: Subject, data: Dataset, seed: int) -> nn.Module:
    """M^r: random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, "untrained"))
        return MODELS.build(subject.model, subject.options, **data.dimensions).eval()


def semi_trained(subject: Subject, data: Dataset, seed: int, progress: Progress) -> nn.Module:
    """M^s: the same after a few epochs on a share of the training samples (ATS sect. 4.4)."""
    model = untrained(subject, data, seed)
    count = max(1, round(subject.share * len(data.x_train)))
    chosen = torch.randperm(len(data.x_train), generator=generator(seed, "share"))[:count]
    fit(
        model,
        data.x_train[chosen],
        data.y_train[chosen],
        draw=generator(seed, "semi-trained"),
        normalise=data.normalised,
        epochs=subject.epochs,
        lr=0.1,
        optimizer=partial(torch.optim.SGD, momentum=0.9, weight_decay=5e-4),
        progress=progress,
    )
    return model.eval()


def kept_model(path: Path, model: nn.Module, make: Callable[[], nn.Module]) -> nn.Module:
    """The weights at `path` in `model`, or those of `make()`, which are then left there."""
    if path.exists():
        try:
            model.load_state_dict(safetensors.torch.load_file(path))
        except (SafetensorError, RuntimeError, OSError) as error:
            raise BadFolder(
                f"{path} does not hold this search's semi-trained model ({error}); delete it to "
                "train it again."
            ) from error
        return model.eval()
    model = make()
    with whole(path) as beside:
        safetensors.torch.save_file(state_of(model), beside)
    return model


def scorer_of(
    subject: Subject, settings: Search, data: Dataset, make: Callable[[], nn.Module]
) -> Scorer:
    """The judge of all candidates, by validation images other than those attacked (ATS app. A).

    `make` gives M^s, which takes minutes: only when everything else is right.
    """
    if not data.is_image:
        raise BadData(f"Policies transform images; '{data.name}' has samples of {data.shape}.")
    check_images(data.x_test)
    spare = max(0, min(ATTACKED, len(data.x_test) - max(settings.images, subject.batch)))
    x, y = data.x_test[spare:], data.y_test[spare:]
    if settings.images > len(x):
        raise BadOption(
            f"images is {settings.images} but '{data.name}' has {len(x)} test images; lower it."
        )
    batch, seed = min(subject.batch, len(x)), settings.seed
    rows = torch.randperm(len(x), generator=generator(seed, "images"))[: settings.images]
    rounds = [
        torch.randperm(len(x), generator=generator(seed, "round", turn))[:batch]
        for turn in range(settings.rounds)
    ]
    return Scorer(
        semi_trained=make(),
        untrained=untrained(subject, data, seed),
        x=x[rows],
        y=y[rows],
        batches=torch.stack([x[turn] for turn in rounds]),
        mean=data.mean,
        std=data.std,
        points=subject.points,
        reduction=subject.reduction,
        rule=subject.rule,
        seed=seed,
    )
