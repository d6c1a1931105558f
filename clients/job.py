"""Job: what a client works on in one round; what plugins may change and what they may not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from flwr.app import Context
from torch import Tensor, nn

from fedpriv.clients.protection.secret import secret_of
from fedpriv.data.dataset import Dataset
from fedpriv.eager import skip_compiler
from fedpriv.errors import BadOption
from fedpriv.rng import generator, seed_of
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import (
    dataset_of,
    device_of,
    loaded,
    model_of,
    seed_everything,
    shares_of,
    training_samples,
)
from fedpriv.scenario.sections import Training
from fedpriv.state import State, digest
from fedpriv.wire import Memory

ORIGINAL = "original"  # in `kept`: the samples before a plugin replaced `x` by changed ones
Loss = Callable[[Any, Tensor], Tensor]
Batches = Callable[["Job"], Iterator[Tensor]]


@dataclass
class Job:
    """One round of one client. Only `shared` is ever sent; wrappers are built around it."""

    scenario: Scenario
    shared: nn.Module  # the public model
    start: State  # as it was received
    model: nn.Module  # what is trained: `shared`, or a wrapper with secret parts
    loss: Loss
    optimiser: torch.optim.Optimizer
    x: Tensor  # (N, *shape), normalised: the client's own training samples
    y: Tensor  # (N,)
    indices: Tensor  # (N,): their numbers in the data set
    memory: Memory
    partition: int
    round: int
    secret: int  # the seed of everything the server must not know
    device: torch.device
    batches: Batches
    report: dict[str, float] = field(default_factory=dict)  # public figures beside the update
    kept: dict[str, Any] = field(default_factory=dict)  # between the hooks of one round

    @property
    def training(self) -> Training:
        return self.scenario.training

    @property
    def dataset(self) -> Dataset:
        return dataset_of(self.scenario)

    def generator(self, purpose: str) -> torch.Generator:
        """Secret randomness of this round for one purpose."""
        return generator(self.secret, "round", self.round, purpose)

    def unrepeatable(self, purpose: str) -> torch.Generator:
        """As `generator`, and another for every model received: a server that repeats a round with
        another model must not get the same noise twice, or it would subtract it."""
        return generator(self.secret, "round", self.round, digest(self.start), purpose)


def optimiser_of(
    training: Training, parameters: Any, server_round: int, lr: float | None = None
) -> torch.optim.Optimizer:
    """The scenario's optimiser with the learning rate of this round."""
    skip_compiler()
    rate = training.lr_at(server_round) if lr is None else lr
    if training.optimiser == "adam":
        return torch.optim.Adam(parameters, lr=rate, weight_decay=training.weight_decay)
    return torch.optim.SGD(
        parameters, lr=rate, momentum=training.momentum, weight_decay=training.weight_decay
    )


def share_of(scenario: Scenario, context: Context) -> tuple[int, Tensor]:
    """This client's partition number and the numbers of its samples."""
    number = context.node_config.get("partition-id")
    if number is None:
        raise BadOption(
            "This node has no partition-id; start it with --node-config 'partition-id=0 …'."
        )
    count = int(context.node_config.get("num-partitions", scenario.federation.clients))
    if not 0 <= int(number) < count:
        raise BadOption(
            f"partition-id is {number} but there are {count} partitions, 0 to {count - 1}."
        )
    return int(number), torch.from_numpy(shares_of(scenario, count)[int(number)])


def own_split(scenario: Scenario, indices: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers a client trains on and those it keeps for its own evaluation."""
    held = round(scenario.training.holdout * len(indices))
    if held == 0:
        return indices, indices[:0]
    order = torch.randperm(len(indices), generator=generator(scenario.seed, "holdout"))
    return indices[order[held:].sort().values], indices[order[:held].sort().values]


def make_job(scenario: Scenario, start: State, server_round: int, context: Context) -> Job:
    """The job before any plugin has touched it."""
    partition, share = share_of(scenario, context)
    indices, _ = own_split(scenario, share)
    device = device_of(scenario.federation.device)
    secret = secret_of(context)
    seed_everything(seed_of(secret, "round", server_round, "layers"))
    shared = loaded(model_of(scenario), start).to(device)
    x, y = training_samples(scenario)
    return Job(
        scenario=scenario,
        shared=shared,
        start=start,
        model=shared,
        loss=nn.functional.cross_entropy,
        optimiser=optimiser_of(scenario.training, shared.parameters(), server_round),
        x=x[indices].to(device),
        y=y[indices].to(device),
        indices=indices,
        memory=Memory(context.state),
        partition=partition,
        round=server_round,
        secret=secret,
        device=device,
        batches=shuffled,
    )


def shuffled(job: Job) -> Iterator[Tensor]:
    """Positions in the client's samples, batch by batch: whole epochs, or as many steps as asked."""
    training, count = job.training, len(job.x)
    order = job.generator("batches")
    size = min(training.batch_size, count)
    if training.local_steps is None:
        for _ in range(training.local_epochs):
            yield from torch.randperm(count, generator=order).split(size)
        return
    done = 0
    while done < training.local_steps:
        for batch in torch.randperm(count, generator=order).split(size):
            if done == training.local_steps or len(batch) < size:
                break
            yield batch
            done += 1


def fit(
    job: Job, on_batch: Callable[[Tensor, Tensor, Job], tuple[Tensor, Tensor]]
) -> dict[str, float]:
    """Train in place; the mean loss, and how many samples and steps it took."""
    job.model.train(job.training.mode == "train")
    total, seen, steps = 0.0, 0, 0
    for batch in job.batches(job):
        x, y = on_batch(job.x[batch], job.y[batch], job)
        job.optimiser.zero_grad()
        loss = job.loss(job.model(x), y)
        loss.backward()
        job.optimiser.step()
        steps += 1
        if len(y):  # a Poisson batch may be empty, and the mean over nothing is no number
            total, seen = total + float(loss.detach()) * len(y), seen + len(y)
    return {"loss": total / max(seen, 1), "steps": steps, "num-examples": len(job.x)}
