"""Searched augmentation: clients train on transformed images only (ATS sect. 4.4)."""

import logging
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.data.dataset import Dataset
from fedpriv.errors import BadData, BadOption
from fedpriv.policies.policy import Policy
from fedpriv.policies.policy_set import named
from fedpriv.policies.transforms import ENHANCEMENT, check_images
from fedpriv.rng import Draws, Source

log = logging.getLogger(__name__)


def augmented(x: Tensor, policy: Policy, dataset: Dataset, draw: Source) -> Tensor:
    """Normalised images (B, C, H, W), transformed as the bytes they were and normalised again."""
    pixels = (dataset.denormalised(x) * 255).round().to(torch.uint8)
    return dataset.normalised(policy(pixels, draw))


@dataclass(frozen=True)
class Online:
    """What this round's batches are transformed with."""

    draw: Draws


@dataclass(frozen=True)
class Augmentation(PrivacyPlugin):
    """Train on transformed images; `policy` is `3-1-7+43-18-18`, a file, `random` or `none`.

    A file comes from `fedpriv search`: the best `members` of its policies that have no
    transformation in common are used. A random policy is the same for all clients with the same
    `seed`. With `none` there is no defence. "online" transforms every batch anew, "offline" all
    samples once for good.

    Args:
        policy: Transformations by number, such as "3-1-7+43-18-18"; a file of `fedpriv search`;
            "random"; or "none".
        when: "online" transforms every batch anew, "offline" all samples once for good.
        members: How many policies are taken from a file of `fedpriv search`.
        probability: The chance that a transformation is applied at all.
        enhancement: How much colour, contrast, brightness and sharpness change at most, from
            0 (unchanged) to 1.
        seed: Seed of a random policy. Clients with the same seed use the same policy.
    """

    policy: str = "3-1-7+43-18-18"
    when: Literal["online", "offline"] = "online"
    members: int = 2
    probability: float = 1.0
    enhancement: float = ENHANCEMENT
    seed: int = 0

    def __post_init__(self) -> None:
        if self.when not in ("online", "offline"):
            raise BadOption(f"augment: when must be 'online' or 'offline', got {self.when!r}.")
        if self.members < 1:
            raise BadOption(f"augment: members must be at least 1, got {self.members}.")
        self.chosen()

    def chosen(self) -> Policy:
        """The policy with this plugin's probability and enhancement."""
        policy, _ = named(self.policy, self.members, self.seed)
        return replace(policy, probability=self.probability, enhancement=self.enhancement)

    def on_setup(self, job: Job) -> Job:
        policy, searched_on = named(self.policy, self.members, self.seed)
        if policy == Policy():
            return job
        if not job.dataset.is_image:
            raise BadData(
                f"augment transforms images; '{job.dataset.name}' has samples of "
                f"{job.dataset.shape}. Leave it out."
            )
        check_images(job.x)
        if searched_on and searched_on != job.dataset.name:
            log.warning(
                "augment: the policies of %s were searched on %s and are used on %s.",
                self.policy,
                searched_on,
                job.dataset.name,
            )
        if self.when == "offline":
            draw = job.secret.of_run("augment")
            job.x = augmented(job.x, self.chosen(), job.dataset, draw)
        else:
            job.keep(Online(job.draws_for_model("augment")))
        return job

    def on_batch(self, x: Tensor, y: Tensor, job: Job) -> tuple[Tensor, Tensor]:
        online = job.kept(Online)
        if online is None:
            return x, y
        return augmented(x, self.chosen(), job.dataset, online.draw), y
