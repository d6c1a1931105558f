"""User-level differential privacy: Flower's own central DP strategies around FedAvg, with an ε.

The guarantee is about a whole client, not one of its samples, and holds against whoever sees the
models the server publishes; the server itself sees updates as they are (or clipped, on the client
side).
"""

import math
from collections.abc import Callable, Iterable

from flwr.app import ArrayRecord, Message, MetricRecord
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import Strategy

from fedpriv.errors import BadOption
from fedpriv.strategies.fedavg import FedAvg
from fedpriv.strategies.roster import Roster
from fedpriv.strategies.wrapper import Wrapper


def user_epsilon(noise_multiplier: float, releases: int, delta: float) -> float:
    """ε of Gaussian releases by zero-concentrated DP, ρ + 2√(ρ·ln 1/δ) with ρ = k/2z².

    No amplification by sampling is claimed: clients know whether they take part (Bun & Steinke
    2016).
    """
    rho = releases / (2 * noise_multiplier**2)
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


class Accounted(Wrapper):
    """A DP strategy whose metrics say the user-level ε spent so far."""

    def __init__(self, inner: Strategy, noise_multiplier: float, delta: float) -> None:
        super().__init__(inner)
        self.noise_multiplier, self.delta = noise_multiplier, delta

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrays, metrics = self.inner.aggregate_train(server_round, replies)
        if arrays is not None and metrics is not None and self.noise_multiplier > 0:
            spent = user_epsilon(self.noise_multiplier, server_round, self.delta)
            metrics["user-epsilon"] = spent
        return arrays, metrics


def fixed_on_server(inner: FedAvg, noise: float, norm: float, clients: int) -> Strategy:
    """The server clips updates to a norm and adds noise to their mean."""
    return flower.DifferentialPrivacyServerSideFixedClipping(inner, noise, norm, clients)


def fixed_on_client(inner: FedAvg, noise: float, norm: float, clients: int) -> Strategy:
    """Clients clip what they send, the server adds noise to the mean."""
    return flower.DifferentialPrivacyClientSideFixedClipping(inner, noise, norm, clients)


def adaptive_on_client(inner: FedAvg, noise: float, norm: float, clients: int) -> Strategy:
    """As above with a norm that follows the median of the updates' norms (Andrew et al. 2021).

    The count of clipped updates gets noise too, which Flower takes out of the same multiplier.
    """
    return flower.DifferentialPrivacyClientSideAdaptiveClipping(
        inner,
        noise,
        clients,
        initial_clipping_norm=norm,
        clipped_count_stddev=max(clients / 20, noise),
    )


def user_level(
    wrap: Callable[[FedAvg, float, float, int], Strategy],
    *,
    roster: Roster,
    seed: int,
    fraction: float = 1.0,
    evaluate_clients: bool = False,
    noise_multiplier: float = 1.0,
    clipping_norm: float = 1.0,
    delta: float = 1e-5,
) -> Strategy:
    """One of Flower's strategies around the plain mean, which its noise is calibrated to."""
    if noise_multiplier < 0 or not clipping_norm > 0 or not 0 < delta < 1:
        raise BadOption(
            "User-level DP needs noise-multiplier at least 0, clipping-norm above 0 and delta in "
            f"(0, 1); got {noise_multiplier}, {clipping_norm}, {delta}."
        )
    mean = FedAvg(
        roster=roster,
        seed=seed,
        fraction=fraction,
        evaluate_clients=evaluate_clients,
        weighting="plain",
    )
    count = max(1, round(fraction * roster.clients))
    return Accounted(wrap(mean, noise_multiplier, clipping_norm, count), noise_multiplier, delta)
