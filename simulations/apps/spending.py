"""The ε that an app's clients report, beside the ε of the whole run."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fedpriv.simulations.apps.watching import Watched
from fedpriv.simulations.dp.accounting import Account
from fedpriv.simulations.dp.findings import REFUTED, Claim
from fedpriv.simulations.dp.on_paper import Verdict, checked

WORDS = ("epsilon", "eps")


@dataclass(frozen=True)
class Mechanism:
    """What an app gave to Opacus."""

    noise: float
    clip: float
    rate: float
    poisson: bool


@contextmanager
def mechanisms() -> Iterator[list[Mechanism]]:
    """Every call of Opacus' make_private within the block."""
    import opacus

    found: list[Mechanism] = []
    real = opacus.PrivacyEngine.make_private

    def noted(engine: Any, *arguments: Any, **named: Any) -> Any:
        loader = named.get("data_loader")
        result = real(engine, *arguments, **named)
        if loader is not None and "noise_multiplier" in named:
            found.append(
                Mechanism(
                    noise=float(named["noise_multiplier"]),
                    clip=float(named.get("max_grad_norm", 1.0)),
                    rate=1 / max(1, len(loader)),
                    poisson=bool(named.get("poisson_sampling", True)),
                )
            )
        return result

    opacus.PrivacyEngine.make_private = noted
    try:
        yield found
    finally:
        opacus.PrivacyEngine.make_private = real


def claimed_epsilons(watched: Watched) -> list[tuple[int, int, float]]:
    """Round, client and the ε that it reported."""
    return [
        (number, node, float(value))
        for number, node, metrics in watched.metrics
        for key, value in metrics.items()
        if any(word in key.lower().replace("-", "_").split("_") for word in WORDS)
        and isinstance(value, int | float)
        and 0 < value < math.inf
    ]


def verified(
    watched: Watched, found: list[Mechanism], rounds: int, delta: float
) -> tuple[Verdict, float] | None:
    """The largest ε that the app reports in its last round, checked on paper for the whole run.

    Clients may add different noise: the one that adds least has the largest ε.
    """
    claims = claimed_epsilons(watched)
    if not claims or not found or not watched.notes:
        return None
    last = max(number for number, _, _ in claims)
    most = max(value for number, _, value in claims if number == last)
    least = min(found, key=lambda one: one.noise)
    steps = max(notes.steps for notes in watched.notes)
    account = Account(
        noise=least.noise * least.clip,
        clip=least.clip,
        rate=least.rate,
        steps=steps,
        rounds=rounds,
        delta=delta,
        sampling="poisson" if least.poisson else "fixed",
    )
    return checked(Claim(most, delta, unit="sample"), account), most


def sentence(verdict: Verdict, rounds: int) -> str:
    """What the claim is worth, in words."""
    claim, account = verdict.claim, replace(verdict.account)
    if verdict.answer != REFUTED:
        return (
            f"The app reports ε = {claim.epsilon:.3g} (δ = {claim.delta:g}) for a sample; on paper "
            f"{rounds} rounds are ε = {verdict.high:.3g}, so that the claim is not refuted."
        )
    why = f": {'; '.join(verdict.explained)}" if verdict.explained else ""
    return (
        f"The app reports ε = {claim.epsilon:.3g} (δ = {claim.delta:g}) for a sample{why}. The ε "
        f"of its {account.rounds} rounds together is {verdict.low:.3g}."
    )
