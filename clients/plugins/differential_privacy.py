"""DP-SGD through Opacus; ε counts all rounds, because job.memory keeps the accountant's history.

The guarantee is about one sample: ε bounds how well anybody can tell whether it was among a
client's data, from all replies of this client in all rounds it took part in (Abadi et al. 2016).
Two data sets are neighbours if one of them has one sample more. Whatever else a reply says is the
same for both: see `on_figures`.
"""

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from fedpriv.clients.job import Batches, Job
from fedpriv.clients.plugin import Evaluation, PrivacyPlugin
from fedpriv.clients.protection.account import (
    COUNT_EPSILON,
    LEAST,
    MOST,
    History,
    PublicCount,
    Steps,
    charge,
    composed,
    drawn_before,
    noise_for,
    noised_count,
    recalled,
    spent,
)
from fedpriv.clients.protection.figures import bounded_sums, private_figures
from fedpriv.clients.protection.secret import SeededForSimulation
from fedpriv.errors import BadOption, Refused
from fedpriv.scenario import Scenario
from fedpriv.scenario.binding import kebab
from fedpriv.scenario.built import shares_of
from fedpriv.scenario.sharing import sharing_of
from fedpriv.scenario.types import OrInfinite
from fedpriv.state import State
from fedpriv.wire import ADMITTED, EXAMPLES, PARTITION

# Figures that follow from public numbers alone: settings, models received, the account itself.
PUBLIC = (PARTITION, "steps", "epsilon", "delta", "guard-alarms", ADMITTED)


def turns_of(scenario: Scenario) -> int:
    """How many rounds a client can expect to take part in."""
    federation = scenario.federation
    if sharing_of(scenario).one_at_a_time:
        return math.ceil(federation.rounds / federation.clients)
    return math.ceil(federation.rounds * federation.fraction)


def poisson(rate: float, steps: int) -> Batches:
    """Batches that take each sample with probability `rate`, independently; some are empty."""

    def batches(job: Job) -> Iterator[Tensor]:
        draw = job.draws_for_model("poisson")
        for _ in range(steps):
            yield torch.nonzero(draw.coins(rate, (len(job.x),))).flatten()

    return batches


@dataclass(frozen=True)
class Plan:
    """A round of DP-SGD. All of it follows from public numbers."""

    noise: float  # multiplier
    rate: float  # with which a batch takes a sample
    steps: int
    batch: int  # its expected size
    samples: int  # that the client admits to train on


@dataclass(frozen=True)
class Charged:
    """All the client's steps, those of this round included."""

    history: History


@dataclass(frozen=True)
class DifferentialPrivacy(PrivacyPlugin):
    """Poisson sampling, per-sample clipping, Gaussian noise.

    Give either `epsilon` or `noise_multiplier`. With `epsilon` every round has the same noise, so
    strong that the whole run spends no more than it: the first round spends most of it, and each
    later one adds less. A client refuses the round that would spend more than `budget` (default:
    `epsilon`). Without noise and with an infinite norm there is no defence.

    `samples` is how many samples a client is publicly known to have, about. Sampling rate and steps
    follow from it. Without it each client draws a noised number once, which spends an ε of 0.1 or
    less.

    Args:
        epsilon: The ε that the whole run has spent after its last round. Smaller is more private.
            Give this or `noise-multiplier`.
        noise_multiplier: Standard deviation of the noise, in units of `max-grad-norm`.
        max_grad_norm: Largest norm of one sample's gradient; longer ones are scaled down to it.
        delta: The δ of (ε, δ): the chance that the promise fails. Choose it well below one over the
            number of samples.
        budget: Largest ε that a client ever spends. It refuses the round that would exceed it.
            Default: `epsilon`.
        accountant: How the ε of many steps is added up: Rényi (rdp) or privacy random variables
            (prv), which is tighter and slower.
        grad_sample: How the gradient of every sample is found: by our own engine (explicit) or by
            one of Opacus' ways. All give the same result up to rounding. With "auto" a real client
            measures which is the fastest for its model. A simulation takes the engine if it knows
            the model's layers and hooks otherwise, so that it can be repeated.
        samples: How many samples a client is publicly known to have. Default: each client draws a
            noised number once, which costs an ε of at most 0.1.
        evaluation_noise: Noise multiplier of one `evaluate`, which then spends ε too. Default: the
            client refuses `evaluate`.
    """

    epsilon: float | None = None
    noise_multiplier: float | None = None
    max_grad_norm: OrInfinite = 1.0
    delta: float = 1e-5
    budget: float | None = None
    accountant: Literal["rdp", "prv"] = "rdp"
    grad_sample: Literal["auto", "explicit", "hooks", "functorch", "ew", "ghost"] = "auto"
    samples: int | None = None
    evaluation_noise: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise BadOption("dp needs either epsilon or noise-multiplier, and not both.")
        for name in ("epsilon", "noise_multiplier", "delta", "budget", "evaluation_noise"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise BadOption(f"dp: {kebab(name)} must be a finite number, got {value}.")
        if self.epsilon is not None and not self.epsilon > 0:
            raise BadOption(f"dp: epsilon must be above 0, got {self.epsilon}.")
        if self.noise_multiplier and not LEAST <= self.noise_multiplier <= MOST:
            raise BadOption(
                f"dp: noise-multiplier must be 0 or between {LEAST:g} and {MOST:g}, "
                f"got {self.noise_multiplier}; outside, no accountant gives an epsilon."
            )
        if self.evaluation_noise is not None and not LEAST <= self.evaluation_noise <= MOST:
            raise BadOption(
                f"dp: evaluation-noise must be between {LEAST:g} and {MOST:g}, got "
                f"{self.evaluation_noise}; leave it out and `evaluate` is refused."
            )
        if not self.max_grad_norm > 0:
            raise BadOption(f"dp: max-grad-norm must be above 0, got {self.max_grad_norm}.")
        if self.noise_multiplier != 0 and math.isinf(self.max_grad_norm):
            raise BadOption("dp: noise needs a finite max-grad-norm, which it is scaled by.")
        if not 0 < self.delta < 1:
            raise BadOption(f"dp: delta must be between 0 and 1, got {self.delta}.")
        if self.budget is not None and not self.budget > 0:
            raise BadOption(f"dp: budget must be above 0, got {self.budget}.")
        if self.samples is not None and self.samples < 1:
            raise BadOption(f"dp: samples must be at least 1, got {self.samples}.")

    @property
    def does_nothing(self) -> bool:
        return self.noise_multiplier == 0 and math.isinf(self.max_grad_norm)

    @property
    def accounted(self) -> bool:
        return self.noise_multiplier != 0  # clipping alone has no ε

    def check(self, model: nn.Module) -> None:
        if not self.does_nothing:
            check_supported(model)

    def on_setup(self, job: Job) -> Job:
        if self.does_nothing:
            return job
        check_supported(job.shared)
        count = self.count(job)
        plan = self.plan(job.scenario, count)
        mode = self.mode(job, plan)
        history = composed(recalled(job.memory), plan.noise, plan.rate, plan.steps)
        if self.accounted:
            job.report |= self.within_budget(history, count.epsilon, f"Round {job.round}")
            job.report[ADMITTED] = plan.samples  # its ε is spent, and steps say as much
        charge(job.memory, history)
        job.keep(Charged(history))
        job.batches = poisson(plan.rate, plan.steps)
        from fedpriv.clients.protection.private_steps import make_private  # it loads Opacus

        # torch warns because the samples themselves need no gradient.
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        draws = job.draws_for_model("dp-noise")
        make_private(job, draws, mode, plan.noise, self.max_grad_norm, plan.batch)
        return job

    def count(self, job: Job) -> PublicCount:
        """How many samples this client admits to have, in all; exact when nothing is promised."""
        if not self.accounted:
            return PublicCount(job.holds)
        if self.samples is not None:
            # A number that was drawn for an earlier run is spent all the same.
            return PublicCount(self.samples, drawn_before(job.memory))
        draw = job.secret.fresh("dp", "count")
        return noised_count(job.holds, self.count_epsilon, job.memory, draw)

    @property
    def count_epsilon(self) -> float:
        """What a noised number of samples may spend: a tenth of the whole, and at most 0.1."""
        limits = [limit for limit in (self.epsilon, self.budget) if limit is not None]
        return min([COUNT_EPSILON, *(limit / 10 for limit in limits)])

    def plan(self, scenario: Scenario, count: PublicCount) -> Plan:
        """What a client with so many samples does in a round."""
        training = scenario.training
        samples = max(1, round(count.samples * (1 - training.holdout)))
        rate = min(1.0, training.batch_size / samples)
        steps, noise = training.steps_for(samples), self.noise_multiplier
        if noise is None:
            left = (self.epsilon or 0.0) - count.epsilon
            if left <= 0:
                raise Refused(
                    f"dp: epsilon is {self.epsilon:g}, and {count.epsilon:g} of it was spent on "
                    "the number of samples; nothing is left to train with. Raise epsilon."
                )
            steps_in_all, others = steps * turns_of(scenario), self.evaluations(scenario)
            noise = noise_for(left, self.delta, rate, steps_in_all, self.accountant, others)
        return Plan(noise, rate, steps, min(training.batch_size, samples), samples)

    def evaluations(self, scenario: Scenario) -> tuple[Steps, ...]:
        """What the evaluations of a run spend: all clients are asked once a round."""
        if self.evaluation_noise is None or not scenario.training.holdout:
            return ()
        return ((self.evaluation_noise, 1.0, scenario.federation.rounds),)

    def as_in_training(self, options: Mapping[str, Any], scenario: Scenario) -> Mapping[str, Any]:
        """The noise of the run's own rate and steps, of its smallest client; no ε and no budget."""
        smallest = min(len(share) for share in shares_of(scenario))
        drawn = PublicCount(smallest, self.count_epsilon if self.accounted else 0.0)
        count = drawn if self.samples is None else PublicCount(self.samples)
        noise = self.plan(scenario, count).noise
        own = ("epsilon", "budget", "noise-multiplier")
        return {k: v for k, v in options.items() if kebab(k) not in own} | {own[-1]: noise}

    def within_budget(self, history: History, more: float, what: str) -> dict[str, float]:
        """The ε of a history, and `more`, to report; Refused if that is more than the budget."""
        epsilon = spent(history, self.delta, self.accountant) + more
        budget = self.epsilon if self.budget is None else self.budget
        if budget is not None and epsilon > budget * (1 + 1e-6):
            raise Refused(
                f"{what} would bring the sample-level epsilon of this client to "
                f"{epsilon:.3f}, above its budget of {budget:g} (delta {self.delta:g}); it will "
                "not answer. Raise dp's budget or its noise, or run fewer rounds."
            )
        return {"epsilon": epsilon, "delta": self.delta}

    @property
    def evaluates(self) -> bool:
        return self.accounted and self.evaluation_noise is not None

    def on_evaluation(self, asked: Evaluation) -> dict[str, float]:
        """Noised figures. In the account they are one step that takes all samples."""
        if self.evaluation_noise is None or not self.accounted:
            return {}
        history = composed(recalled(asked.memory), self.evaluation_noise, 1.0, 1)
        what = f"The evaluation of round {asked.round}"
        account = self.within_budget(history, drawn_before(asked.memory), what)
        charge(asked.memory, history)
        sums = bounded_sums(asked.model, asked.x, asked.y)
        loss, accuracy = private_figures(sums, self.evaluation_noise, asked.draw)
        return {"loss": loss, "accuracy": accuracy, EXAMPLES: 1, **account}

    def mode(self, job: Job, plan: Plan) -> str:
        """How the gradients of samples are found. No sample has a say in it."""
        plain = job.model is job.shared and job.loss is nn.functional.cross_entropy
        if self.grad_sample in ("explicit", "ghost") and not plain:
            raise BadOption(
                f"dp: grad-sample = '{self.grad_sample}' needs the plain loss; leave it at 'auto'."
            )
        if self.grad_sample != "auto":
            return self.grad_sample
        from fedpriv.clients.protection.fastest import WORTH, fastest  # which load Opacus
        from fedpriv.clients.protection.per_sample import knows

        shape = tuple(job.x.shape[1:])
        if not plain:
            return "hooks"
        if plan.steps >= WORTH and not isinstance(job.secret, SeededForSimulation):
            return fastest(job.shared, shape, plan.batch)
        return "explicit" if knows(job.shared, shape) else "hooks"  # the same in every repetition

    def on_update(self, update: State, job: Job) -> State:
        if job.kept(Charged) is None:
            return update
        job.report.pop("loss", None)  # ε does not cover an exact mean over the samples
        noised = {name for name, p in job.shared.named_parameters() if p.requires_grad}
        # Nothing hides what samples did to a buffer, so that buffers leave as they came.
        return {k: v if k in noised else torch.zeros_like(v) for k, v in update.items()}

    def on_figures(self, figures: Mapping[str, float]) -> dict[str, float]:
        """Only figures that are the same for neighbours; every client then has the weight 1."""
        if not self.accounted:
            return dict(figures)
        public = {key: value for key, value in figures.items() if key in PUBLIC}
        return public | ({EXAMPLES: 1} if EXAMPLES in figures else {})


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
