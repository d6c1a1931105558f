"""Job: what a client works on in one round, and how it trains."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from flwr.app import Context
from torch import Tensor, nn

from fedpriv.clients.protection.secret import Secrets, secrets_of
from fedpriv.clients.sharing import Sharing, sharing_of
from fedpriv.data.dataset import Dataset
from fedpriv.device import device_of
from fedpriv.eager import skip_compiler
from fedpriv.errors import BadData, BadInput, BadOption
from fedpriv.progress import still_wanted
from fedpriv.rng import Draws, generator, seed_of
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import (
    dataset_of,
    loaded,
    model_of,
    shares_of,
    training_samples,
)
from fedpriv.scenario.sections import Training
from fedpriv.state import State, digest, state_of
from fedpriv.training import batches
from fedpriv.wire import Memory

T = TypeVar("T")
Loss = Callable[[Any, Tensor], Any]  # gives a tensor, or what Opacus puts in its place
Batches = Callable[["Job"], Iterator[Tensor]]
OnBatch = Callable[[Tensor, Tensor, "Job"], tuple[Tensor, Tensor]]


@dataclass
class Job:
    """One round of one client, which its plugins may change before and after training.

    Only the state of `shared`, or codes that it makes, ever leaves the client. A plugin that adds
    secret parts puts them into `model`, around `shared`, and leaves `shared` itself alone.
    """

    scenario: Scenario
    shared: nn.Module  # the public model, or the encoder when codes are shared
    start: State  # its state before training
    model: nn.Module  # what is trained: `shared`, or a wrapper with secret parts
    loss: Loss
    optimiser: torch.optim.Optimizer
    x: Tensor  # (N, *shape), normalised: the samples it trains on, which a plugin may replace
    original: Tensor  # the same samples as the client holds them; no plugin replaces these
    y: Tensor  # (N,)
    indices: Tensor  # (N,): their numbers in the data set
    holds: int  # how many samples the client has in all, those it holds out included
    memory: Memory
    partition: int
    run: int  # Flower's id of the run
    round: int
    secret: Secrets  # the randomness that the server must not know
    device: torch.device
    batches: Batches
    seed_layers: Callable[[], None]  # layers then draw again what they draw in this round
    report: dict[str, float] = field(default_factory=dict)  # public figures beside the update
    secrets: dict[str, Tensor] = field(default_factory=dict)  # for the truth alone, such as a mask
    slots: dict[type, Any] = field(default_factory=dict, repr=False)  # see `keep`
    accounted: bool = False  # an ε counts all that leaves: nothing else may depend on samples

    def keep(self, value: T) -> T:
        """Keep a value for a later hook of this round; one value of each class is kept."""
        self.slots[type(value)] = value
        return value

    def kept(self, kind: type[T]) -> T | None:
        """The value of this class that was kept in this round, if any."""
        found: T | None = self.slots.get(kind)
        return found

    @property
    def sharing(self) -> Sharing:
        """What is needed to share codes; BadInput in a round that shares an update."""
        found = self.kept(Sharing)
        if found is None:
            raise BadInput("This round shares an update, not codes; see [representation].")
        return found

    @property
    def training(self) -> Training:
        return self.scenario.training

    @property
    def dataset(self) -> Dataset:
        return dataset_of(self.scenario)

    def draws(self, purpose: str) -> Draws:
        """Secret randomness for one purpose of this release, fresh whenever it is asked for.

        A simulation gives the same to every model that is sent in a round; see `draws_for_model`.
        """
        return self.secret.fresh("round", self.round, purpose)

    def draws_for_model(self, purpose: str) -> Draws:
        """As `draws`; a simulation gives other randomness to every model received.

        With the same noise in two answers, a server would subtract one answer from the other and
        the noise would be gone.
        """
        return self.secret.fresh("round", self.round, digest(self.start), purpose)

    def recall(self, key: str) -> State | None:
        """The tensors that were kept under `key` in this very run."""
        same = self.memory.facts(f"{key}.run").get("run") == str(self.run)
        return self.memory.recall(key) if same else None

    def remember(self, key: str, state: State) -> None:
        """Keep tensors for later rounds of this run."""
        self.memory.remember(key, state)
        self.memory.note(f"{key}.run", {"run": str(self.run)})


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
    if scenario.training.holdout and accounted(scenario):
        return split_by_number(scenario, indices)
    held = round(scenario.training.holdout * len(indices))
    if held == 0:
        return indices, indices[:0]
    order = torch.randperm(len(indices), generator=generator(scenario.seed, "holdout"))
    return indices[order[held:].sort().values], indices[order[:held].sort().values]


def split_by_number(scenario: Scenario, indices: Tensor) -> tuple[Tensor, Tensor]:
    """As `own_split`, but each sample is held out or not whatever other samples there are.

    An ε is about one sample more or less. If that one moved others from training to evaluation, ε
    would have to count them all.
    """
    chances = [seed_of(scenario.seed, "holdout", number) / 2**63 for number in indices.tolist()]
    held = torch.tensor(chances) < scenario.training.holdout
    return indices[~held], indices[held]


def accounted(scenario: Scenario) -> bool:
    """Whether an ε counts what a client of this scenario sends."""
    from fedpriv.clients.catalogue import plugin_of  # which imports this file

    return plugin_of(scenario.plugins).accounted


def make_job(scenario: Scenario, start: State | None, server_round: int, context: Context) -> Job:
    """The job before any plugin has touched it.

    A job with a `start` trains the scenario's model from there. A job without one is that of a
    party which shares codes: its public model is an untrained encoder.
    """
    partition, share = share_of(scenario, context)
    device, secret = device_of(scenario.federation.device), secrets_of(context)
    sharing = sharing_of(scenario, partition, device) if start is None else None
    seed_layers = secret.layers("round", server_round, "layers")
    seed_layers()
    if sharing is None:
        shared = model = loaded(model_of(scenario), start or {}).to(device)
        holds = len(share)
        indices, _ = own_split(scenario, share)
        x, y = (values[indices] for values in training_samples(scenario))
    else:
        shared = sharing.encoder()
        model = nn.Sequential(shared, sharing.classifier())
        x, indices = sharing.held.x, sharing.held.ids
        holds = len(x)
        y = torch.zeros(0, dtype=torch.long) if sharing.y is None else sharing.y[:, 0]
    if not len(x) and not accounted(scenario):  # under an ε nobody is told: it sends noise
        raise BadData(f"Client {partition} holds no samples, so that it has nothing to train on.")
    x = x.to(device)
    job = Job(
        scenario=scenario,
        shared=shared,
        start=state_of(shared) if start is None else start,
        model=model,
        loss=nn.functional.cross_entropy,
        optimiser=optimiser_of(scenario.training, model.parameters(), server_round),
        x=x,
        original=x,
        y=y.to(device),
        indices=indices,
        holds=holds,
        memory=Memory(context.state),
        partition=partition,
        run=context.run_id,
        round=server_round,
        secret=secret,
        device=device,
        batches=shuffled,
        seed_layers=seed_layers,
    )
    if sharing is not None:
        job.keep(sharing)
    return job


def shuffled(job: Job) -> Iterator[Tensor]:
    """Positions of the samples of each batch: whole epochs, or as many full batches as asked."""
    training, count = job.training, len(job.x)
    order = job.draws("batches")
    size = min(training.batch_size, count)
    if training.local_steps is None:
        for _ in range(training.local_epochs):
            yield from batches(count, size, order)
        return
    done = 0
    while done < training.local_steps:
        for batch in batches(count, size, order):
            if done == training.local_steps or len(batch) < size:
                break
            yield batch
            done += 1


def fit(job: Job, on_batch: OnBatch) -> dict[str, float]:
    """Train in place; the mean loss, and how many samples and steps it took.

    It ends early in a run that was stopped. Whoever asked then throws the answer away.
    """
    job.model.train(job.training.mode == "train")
    total, seen, steps = 0.0, 0, 0
    for batch in job.batches(job):
        x, y = on_batch(job.x[batch], job.y[batch], job)
        job.optimiser.zero_grad()
        loss = job.loss(job.model(x), y)
        loss.backward()
        job.optimiser.step()
        steps += 1
        if len(y):  # the mean over an empty Poisson batch is nan
            total, seen = total + float(loss.detach()) * len(y), seen + len(y)
        if not still_wanted(0.0, math.nan):
            break
    return {"loss": total / max(seen, 1), "steps": steps, "num-examples": len(job.x)}
