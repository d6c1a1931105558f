"""DP-SGD through Opacus; ε counts all rounds, because job.memory keeps the accountant's history.

The guarantee is about one sample: ε bounds how well anybody can tell whether it was among a
client's data, from all updates of this client in all rounds it took part in (Abadi et al. 2016).
"""

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from fedpriv.clients.job import Batches, Job, own_split
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.errors import BadOption, Refused
from fedpriv.scenario import Scenario
from fedpriv.scenario.binding import kebab
from fedpriv.scenario.built import shares_of
from fedpriv.scenario.sharing import sharing_of
from fedpriv.state import State

History = list[tuple[float, float, int]]  # noise multiplier, sample rate, steps

MEMORY = "dp"
GHOST_FROM = 128  # batch size from which ghost clipping measured faster than hooks


def turns_of(scenario: Scenario) -> int:
    """How many rounds a client can expect to take part in."""
    federation = scenario.federation
    if sharing_of(scenario).one_at_a_time:
        return math.ceil(federation.rounds / federation.clients)
    return math.ceil(federation.rounds * federation.fraction)


def spent(history: History, delta: float, accountant: str) -> float:
    """ε of all steps in the history together, as Opacus' accountant has it."""
    from opacus.accountants import create_accountant

    account = create_accountant(mechanism=accountant)
    account.history = list(history)
    return float(account.get_epsilon(delta=delta)) if history else 0.0


def composed(history: History, noise: float, rate: float, steps: int) -> History:
    """The history with some steps more; equal steps in a row are one entry, as in Opacus."""
    if history and history[-1][:2] == (noise, rate):
        return [*history[:-1], (noise, rate, history[-1][2] + steps)]
    return [*history, (noise, rate, steps)]


@lru_cache(maxsize=256)
def noise_for(epsilon: float, delta: float, rate: float, steps: int, accountant: str) -> float:
    """The noise multiplier with which so many steps spend at most ε."""
    from opacus.accountants.utils import get_noise_multiplier

    try:
        found = get_noise_multiplier(
            target_epsilon=epsilon,
            target_delta=delta,
            sample_rate=rate,
            steps=steps,
            accountant=accountant,
        )
    except ValueError as error:
        raise BadOption(f"dp: no noise reaches epsilon = {epsilon}: {error}.") from error
    return float(found)


def poisson(rate: float, steps: int) -> Batches:
    """Batches that take each sample with probability `rate`, independently; some are empty."""

    def batches(job: Job) -> Iterator[Tensor]:
        draw = job.unrepeatable("poisson")
        for _ in range(steps):
            yield torch.nonzero(torch.rand(len(job.x), generator=draw) < rate).flatten()

    return batches


@dataclass(frozen=True)
class Charged:
    """All the client's steps, those of this round included."""

    history: History


@dataclass(frozen=True)
class DifferentialPrivacy(PrivacyPlugin):
    """Poisson sampling, per-sample clipping, Gaussian noise.

    Give either `epsilon`, which is spent evenly over the rounds of the run, or `noise_multiplier`.
    A client refuses the round that would spend more than `budget` (default: `epsilon`). Without
    noise and with an infinite norm there is no defence.
    """

    epsilon: float | None = None
    noise_multiplier: float | None = None
    max_grad_norm: float = 1.0
    delta: float = 1e-5
    budget: float | None = None
    accountant: Literal["rdp", "prv"] = "rdp"
    grad_sample: Literal["auto", "hooks", "functorch", "ew", "ghost"] = "auto"

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise BadOption("dp needs either epsilon or noise-multiplier, and not both.")
        if self.epsilon is not None and not self.epsilon > 0:
            raise BadOption(f"dp: epsilon must be above 0, got {self.epsilon}.")
        if self.noise_multiplier is not None and self.noise_multiplier < 0:
            raise BadOption(
                f"dp: noise-multiplier must be at least 0, got {self.noise_multiplier}."
            )
        if not self.max_grad_norm > 0:
            raise BadOption(f"dp: max-grad-norm must be above 0, got {self.max_grad_norm}.")
        if self.noise_multiplier != 0 and math.isinf(self.max_grad_norm):
            raise BadOption("dp: noise needs a finite max-grad-norm, which it is scaled by.")
        if not 0 < self.delta < 1:
            raise BadOption(f"dp: delta must be between 0 and 1, got {self.delta}.")
        if self.budget is not None and not self.budget > 0:
            raise BadOption(f"dp: budget must be above 0, got {self.budget}.")

    @property
    def does_nothing(self) -> bool:
        return self.noise_multiplier == 0 and math.isinf(self.max_grad_norm)

    def on_setup(self, job: Job) -> Job:
        if self.does_nothing:
            return job
        samples = len(job.x)
        noise, rate, steps = self.plan(job.scenario, samples)
        history = composed(recalled(job), noise, rate, steps)
        self.charge(history, job)
        job.keep(Charged(history))
        job.batches = poisson(rate, steps)
        self.make_private(job, noise, rate * samples)
        return job

    def plan(self, scenario: Scenario, samples: int) -> tuple[float, float, int]:
        """Noise multiplier, sampling rate and steps of a round of a client with so many samples."""
        rate = min(1.0, scenario.training.batch_size / samples)
        steps, noise = scenario.training.steps_for(samples), self.noise_multiplier
        if noise is None:
            total = steps * turns_of(scenario)
            noise = noise_for(self.epsilon or 0.0, self.delta, rate, total, self.accountant)
        return noise, rate, steps

    def as_in_training(self, options: Mapping[str, Any], scenario: Scenario) -> Mapping[str, Any]:
        """The noise of the run's own rate and steps, of its smallest client; no ε and no budget."""
        shares = map(torch.from_numpy, shares_of(scenario))
        noise, _, _ = self.plan(scenario, min(len(own_split(scenario, s)[0]) for s in shares))
        own = ("epsilon", "budget", "noise-multiplier")
        return {k: v for k, v in options.items() if kebab(k) not in own} | {own[-1]: noise}

    def charge(self, history: History, job: Job) -> None:
        """Report the ε of the run after this round; Refused if that is more than the budget."""
        if history[-1][0] == 0:
            return  # clipping alone has no ε
        epsilon = spent(history, self.delta, self.accountant)
        budget = self.epsilon if self.budget is None else self.budget
        if budget is not None and epsilon > budget * (1 + 1e-6):
            raise Refused(
                f"Round {job.round} would bring the sample-level epsilon of this client to "
                f"{epsilon:.3f}, above its budget of {budget:g} (delta {self.delta:g}); it will "
                "not train. Raise dp's budget or its noise, or run fewer rounds."
            )
        job.report |= {"epsilon": epsilon, "delta": self.delta}

    def mode(self, job: Job) -> str:
        """How per-sample gradients are found: what measured fastest for the batch size."""
        plain = job.model is job.shared and job.loss is nn.functional.cross_entropy
        if self.grad_sample == "ghost" and not plain:
            raise BadOption("dp: grad-sample = 'ghost' needs the plain loss; leave it at 'auto'.")
        if self.grad_sample != "auto":
            return self.grad_sample
        return "ghost" if plain and job.training.batch_size >= GHOST_FROM else "hooks"

    def make_private(self, job: Job, noise: float, batch: float) -> None:
        """Wrap model, optimiser and loss; `batch` is the expected size of one."""
        from opacus.grad_sample.utils import wrap_model
        from opacus.optimizers import get_optimizer_class
        from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

        # torch warns because the samples themselves need no gradient.
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        check_supported(job.shared)
        mode = self.mode(job)
        extra = (
            {"max_grad_norm": self.max_grad_norm, "use_ghost_clipping": True}
            if mode == "ghost"
            else {}
        )
        job.model = wrap_model(job.model, grad_sample_mode=mode, loss_reduction="mean", **extra)
        optimiser_class = get_optimizer_class("flat", distributed=False, grad_sample_mode=mode)
        job.optimiser = optimiser_class(
            job.optimiser,
            noise_multiplier=noise,
            max_grad_norm=self.max_grad_norm,
            expected_batch_size=batch,
            generator=job.unrepeatable("dp-noise"),
        )
        if mode == "ghost":
            job.loss = DPLossFastGradientClipping(
                job.model, job.optimiser, nn.CrossEntropyLoss(), "mean"
            )

    def on_update(self, update: State, job: Job) -> State:
        charged = job.kept(Charged)
        if charged is not None:
            job.report.pop("loss", None)  # ε does not cover an exact mean over the samples
            columns = [list(column) for column in zip(*charged.history, strict=True)]
            job.memory.note(MEMORY, dict(zip(("noise", "rate", "steps"), columns, strict=True)))
        return update


def recalled(job: Job) -> History:
    """What this client's earlier rounds spent."""
    facts = job.memory.facts(MEMORY)
    if not facts:
        return []
    return list(zip(facts["noise"], facts["rate"], facts["steps"], strict=True))


def check_supported(model: nn.Module) -> None:
    """BadOption with Opacus' reason for a model whose per-sample gradients do not exist."""
    from opacus.validators import ModuleValidator

    faults = ModuleValidator.validate(model, strict=False)
    if not faults:
        return
    batchnorm = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())
    way_out = (
        'Set model.batchnorm = "group" to put GroupNorm in their place for everybody.'
        if batchnorm
        else "Choose a model without such layers."
    )
    raise BadOption(f"dp cannot train this model: {faults[0]} {way_out}")
