"""The truth: the samples a client used and what its plugins did to them, on the client's own disk.

The judge compares it with what attacks claim. A client writes it only into a folder that its own
node configuration or environment ($FEDPRIV_TRUTH) names. A simulation or the client's owner names
it there; no message can.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import safetensors.torch
import torch
from flwr.app import Context
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedpriv.clients.job import Job, OnBatch, fit, optimiser_of
from fedpriv.clients.plugins.dnn import Opponent, OwnClassifier
from fedpriv.codes.parties import LABEL, labels_of
from fedpriv.codes.release import under
from fedpriv.evidence.truth import (
    CLASSIFIER,
    DECODER,
    NETWORKS,
    STANDARDISED,
    TRUTH_VARIABLE,
    Truth,
)
from fedpriv.files import write_bytes
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import loaded, model_of
from fedpriv.state import State, difference, norm, state_of

FOLDER = "truth-folder"  # in a node's own configuration


def truth_folder(scenario: Scenario, server_round: int, context: Context) -> Path | None:
    """Where this client writes the truth of this round; None when it keeps none."""
    folder = context.node_config.get(FOLDER) or os.environ.get(TRUTH_VARIABLE)
    if not folder or not scenario.keeps_truth:
        return None
    rounds = scenario.federation.rounds
    wanted = [attack.wants(server_round, rounds) for attack in scenario.attacks]
    return Path(str(folder)) if any(wanted) or not wanted else None


def as_it_is(x: Tensor, y: Tensor, job: Job) -> tuple[Tensor, Tensor]:
    return x, y


@dataclass
class Watch:
    """Notes which samples a job trains on, and what its plugins made of them."""

    positions: list[Tensor] = field(default_factory=list)  # of the samples of each step, in job.x
    trained: dict[int, Tensor] = field(default_factory=dict)  # position -> as first trained on

    def batches(self, job: Job) -> None:
        """Note which samples each step of `job` takes."""
        inner = job.batches

        def noted(job: Job) -> Iterator[Tensor]:
            for batch in inner(job):
                self.positions.append(batch)
                yield batch

        job.batches = noted

    def on_batch(self, inner: OnBatch) -> OnBatch:
        """`inner`, which goes on as before; what it made of each sample is noted."""

        def noted(x: Tensor, y: Tensor, job: Job) -> tuple[Tensor, Tensor]:
            after = inner(x, y, job)
            for position, sample in zip(self.positions[-1].tolist(), after[0], strict=False):
                self.trained.setdefault(position, sample.detach().cpu())
            return after

        return noted

    def truth(self, job: Job, released: State) -> Truth:
        """What the job trained on, and how far its update is from the plain one."""
        used = torch.tensor(list(self.trained), dtype=torch.long)
        x, trained = job.original[used].cpu(), torch.stack(list(self.trained.values()))
        norms = biases = (math.nan, math.nan)
        if job.scenario.keep_truth == "numbers":
            x = trained = torch.zeros(len(used), 0)
        else:
            clean = released if not job.scenario.plugins else clean_update(job, self.positions)
            added = {key: released[key] - value for key, value in clean.items()}
            norms, biases = (norm(clean), norm(added)), (bias_norm(clean), bias_norm(added))
        return Truth(
            x=x,
            trained=x if x.shape == trained.shape and torch.equal(x, trained) else trained,
            y=job.y[used].cpu(),
            indices=job.indices[used],
            round=job.round,
            node=job.partition,
            clean=norms[0],
            added=norms[1],
            clean_biases=biases[0],
            added_biases=biases[1],
            secrets=job.secrets,
        )


def bias_norm(update: State) -> float:
    """The norm over biases alone, as SPN fig. 5 has it; nan where there are none."""
    biases = {key: value for key, value in update.items() if key.rpartition(".")[2] == "bias"}
    return norm(biases) if biases else math.nan


def truth_of_codes(job: Job) -> Truth:
    """All samples of a party in the order of its codes, with all their attributes."""
    names = (LABEL, *job.dataset.attributes)
    attributes = {name: labels_of(job.scenario, name)[0][job.indices] for name in names}
    x = job.original.cpu()
    return Truth(
        x=x,
        trained=x,
        y=attributes[job.sharing.chosen.tasks[0]],
        indices=job.indices,
        clean=math.nan,
        added=math.nan,
        round=job.round,
        node=job.partition,
        attributes=attributes,
        secrets=job.secrets,
    )


def keep_networks(job: Job, folder: Path) -> None:
    """Write the networks that the job's encoder was trained with, for the owner's eyes only."""
    own, opponent = job.kept(OwnClassifier), job.kept(Opponent)
    state: State = {} if own is None else under(CLASSIFIER, state_of(own.network))
    if opponent is not None:
        state |= under(DECODER, state_of(opponent.decoder))
        state[STANDARDISED] = torch.tensor(opponent.standardised)
    if state:
        state = {name: value.detach().cpu().contiguous() for name, value in state.items()}
        write_bytes(folder / NETWORKS, safetensors.torch.save(state), mode=0o600)


def clean_update(job: Job, positions: list[Tensor]) -> State:
    """The update of plain training from the same start on the same batches."""
    job.seed_layers()
    model = loaded(model_of(job.scenario), job.start).to(job.device)
    plain = replace(
        job,
        shared=model,
        model=model,
        x=job.original,
        loss=cross_entropy,
        optimiser=optimiser_of(job.training, model.parameters(), job.round),
        batches=lambda _: (batch for batch in positions if len(batch)),
        report={},
        slots={},
    )
    fit(plain, as_it_is)
    return difference(state_of(model), job.start)
