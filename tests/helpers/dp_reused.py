"""A plugin with a seeded fault: DP-SGD whose noise begins anew with one seed in every round."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fedpriv.clients.job import Batches, Job
from fedpriv.clients.plugin import PrivacyPlugin


def sampled(rate: float, steps: int) -> Batches:
    def batches(job: Job) -> Iterator[Tensor]:
        for _ in range(steps):
            yield torch.nonzero(torch.rand(len(job.x)) < rate).flatten()

    return batches


@dataclass(frozen=True)
class NoiseReused(PrivacyPlugin):
    """Poisson sampling, clipping and noise as in `dp`, from one seed for all rounds."""

    noise_multiplier: float = 1.0
    max_grad_norm: float = 1.0
    delta: float = 1e-5

    def on_setup(self, job: Job) -> Job:
        from opacus.grad_sample import GradSampleModule
        from opacus.optimizers import DPOptimizer

        rate = min(1.0, job.training.batch_size / len(job.x))
        job.batches = sampled(rate, job.training.steps_for(len(job.x)))
        job.model = GradSampleModule(job.model)
        job.optimiser = DPOptimizer(
            job.optimiser,
            noise_multiplier=self.noise_multiplier,
            max_grad_norm=self.max_grad_norm,
            expected_batch_size=round(rate * len(job.x)),
            generator=torch.Generator().manual_seed(42),
        )
        return job
