"""User-level differential privacy: the mean of clipped updates plus noise, with an ε.

The guarantee is about a whole client, not one of its samples. It holds against whoever sees the
models that the server publishes. The server itself sees updates as they are (or clipped, when the
clients clip), and so does whoever reads the server's run folder.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid

from fedpriv.errors import BadOption
from fedpriv.state import State, apply, difference, norm
from fedpriv.strategies.fedavg import FedAvg, weighted_mean
from fedpriv.strategies.noise import Noise, seeded_noise, system_noise
from fedpriv.strategies.roster import Roster
from fedpriv.strategies.user_epsilon import ACCOUNTANT, NEIGHBOURS, user_epsilon
from fedpriv.wire import METRICS, record_of, state_in

NORM, WITHIN = "clipping_norm", "norm_bit"  # what Flower's mod on the client reads and reports
TARGET, RATE = 0.5, 0.2  # the quantile that an adaptive norm follows, and how fast


def clipped(update: Mapping[str, torch.Tensor], bound: float) -> State:
    """The update, scaled down to the norm `bound` if it is longer (McMahan et al. 2018)."""
    length = norm(update)
    factor = min(1.0, bound / length) if length > 0 else 1.0
    return {name: value.double() * factor for name, value in update.items()}


def noises(noise_multiplier: float, clients: int, adaptive: bool) -> tuple[float, float]:
    """The noise on the sum of updates, in clipping norms, and on the count of short updates.

    Both together are one Gaussian release with `noise_multiplier`: one client moves the sum by 1
    norm and the count, of ±1/2, by 1/2, so that 1/z² = 1/z_sum² + 1/(2σ)² (Andrew et al. 2021).
    """
    if not adaptive or noise_multiplier == 0:
        return noise_multiplier, 0.0
    count = max(clients / 20, noise_multiplier)
    return (noise_multiplier**-2 - (2 * count) ** -2) ** -0.5, count


class UserLevel(FedAvg):
    """The plain mean of updates that are clipped to a norm, with noise for those that answered.

    Args:
        noise_multiplier: Standard deviation of the noise on the sum, in units of the clipping norm.
            More is more private.
        clipping_norm: Largest norm of one client's update; with an adaptive norm the first one.
        delta: The δ of (ε, δ): the chance that the promise fails.
        by_clients: Clients clip what they send, and the server clips again whatever it can see.
        adaptive: The norm follows the median of the updates' norms (Andrew et al. 2021).
    """

    def __init__(
        self,
        *,
        roster: Roster,
        seed: int,
        fraction: float = 1.0,
        evaluate_clients: bool = False,
        noise_multiplier: float = 1.0,
        clipping_norm: float = 1.0,
        delta: float = 1e-5,
        by_clients: bool,
        adaptive: bool = False,
    ) -> None:
        super().__init__(
            roster=roster,
            seed=seed,
            fraction=fraction,
            evaluate_clients=evaluate_clients,
            weighting="plain",
        )
        if not (
            0 <= noise_multiplier < math.inf and 0 < clipping_norm < math.inf and 0 < delta < 1
        ):
            raise BadOption(
                "User-level DP needs a finite noise-multiplier of at least 0, a finite "
                "clipping-norm above 0 and delta in (0, 1); "
                f"got {noise_multiplier}, {clipping_norm}, {delta}."
            )
        self.noise_multiplier, self.delta = noise_multiplier, delta
        self.bound, self.by_clients, self.adaptive = clipping_norm, by_clients, adaptive
        asked = max(1, round(fraction * roster.clients))
        self.sum_noise, self.count_noise = noises(noise_multiplier, asked, adaptive)
        self.noise: Noise = system_noise
        self.source = "the system's randomness"
        self.releases = self.answered = 0
        self._before: State = {}
        self._grid: Grid | None = None

    def simulated(self) -> None:
        """Draw noise that can be repeated, from the seed of the scenario: for simulations."""
        self.noise = seeded_noise(self.seed)
        self.source = "the public seed: a simulation, its noise protects nobody"

    def resumed(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Go on with the account and the norm of the rounds that were."""
        for record in records:
            account = record.get("user-privacy", {})
            self.releases = account.get("releases", self.releases)
            self.bound = account.get("next-norm", self.bound)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        self._before, self._grid, self.answered = state_in(arrays), grid, 0
        if self.by_clients:
            config[NORM] = self.bound
        return super().configure_train(server_round, arrays, config, grid)

    def why_unfit(self, reply: Message) -> str | None:
        """What is wrong with a reply, in words: an adaptive norm needs to know who clipped."""
        if self.adaptive and reply.content.metric_records[METRICS].get(WITHIN) not in (0, 1):
            return f"it does not say whether its update was within the norm: no '{WITHIN}'"
        return None

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        if not replies:
            return None, None
        self.answered, self.releases = len(replies), self.releases + 1
        mean, moved = self.mean(replies)
        mean = dict(sorted(mean.items()))  # a checkpoint may list them in any order
        sizes = [value.numel() for value in mean.values()]
        drawn = self.noise(server_round, sum(sizes) + 1)
        noise = (drawn[:-1] * (self.sum_noise * moved)).split(sizes)
        update = {
            name: (value + more.view_as(value)).to(self._before[name].dtype)
            for (name, value), more in zip(mean.items(), noise, strict=True)
        }
        if self.adaptive:
            self.adapt(replies, float(drawn[-1]) * self.count_noise)
        contents = [reply.content for reply in replies]
        metrics = self.train_metrics_aggr_fn(contents, self.weighted_by_key)
        return record_of(apply(self._before, update)), metrics

    def mean(self, replies: Sequence[Message]) -> tuple[State, float]:
        """The mean of those that answered, and how far one client can move it.

        Behind secure aggregation there is only the mean, weighted by the clients' samples.
        """
        states = [state_in(next(iter(r.content.array_records.values()))) for r in replies]
        most_moved = getattr(self._grid, "most_moved", None)
        if most_moved is not None:
            mean = {k: v.double() for k, v in difference(states[0], self._before).items()}
            return mean, most_moved(self.bound, sum(value.numel() for value in mean.values()))
        updates = [clipped(difference(state, self._before), self.bound) for state in states]
        return weighted_mean(updates, [1.0] * len(updates)), self.bound / len(updates)

    def adapt(self, replies: Sequence[Message], noise: float) -> None:
        """Move the norm towards the median of the updates' norms (Andrew et al. 2021)."""
        within = [bool(r.content.metric_records[METRICS][WITHIN]) for r in replies]
        short = sum(each - 0.5 for each in within) + noise
        self.bound *= math.exp(-RATE * (short / len(within) + 0.5 - TARGET))

    def account(self) -> dict[str, Any]:
        """What was spent so far, for the line of a round; nothing without noise."""
        if self.noise_multiplier == 0:
            return {}
        spent = user_epsilon(self.noise_multiplier, self.releases, self.delta)
        known = {"user-epsilon": spent} if spent < math.inf else {}
        return {
            **known,
            "user-privacy": {
                "protects": spent < math.inf,
                "delta": self.delta,
                "releases": self.releases,
                "answered": self.answered,
                "noise-multiplier": self.noise_multiplier,
                "next-norm": self.bound,
                "accountant": ACCOUNTANT,
                "unit": "client",
                "neighbours": NEIGHBOURS,
                "noise-from": self.source,
            },
        }
