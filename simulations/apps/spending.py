"""The ε that an app's clients report, beside the ε of the whole run."""

import math
from collections import Counter
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
    """What an app gave to Opacus, or to Flower's LocalDpMod, which names the ε of one update."""

    noise: float  # over the clip norm
    clip: float
    rate: float
    poisson: bool
    epsilon: float | None = None
    delta: float = 0.0
    sensitivity: float | None = None


@contextmanager
def mechanisms() -> Iterator[list[Mechanism]]:
    """Every call of Opacus' make_private within the block, and every LocalDpMod that is made."""
    import opacus
    from flwr.clientapp.mod import LocalDpMod

    found: list[Mechanism] = []
    made = LocalDpMod.__init__

    def init(mod: Any, *arguments: Any, **named: Any) -> None:
        made(mod, *arguments, **named)
        if mod.epsilon > 0 and 0 < mod.delta < 1 and mod.sensitivity > 0:
            deviation = mod.sensitivity * math.sqrt(2 * math.log(1.25 / mod.delta)) / mod.epsilon
            found.append(
                Mechanism(
                    noise=deviation / mod.clipping_norm,
                    clip=float(mod.clipping_norm),
                    rate=1.0,
                    poisson=False,
                    epsilon=float(mod.epsilon),
                    delta=float(mod.delta),
                    sensitivity=float(mod.sensitivity),
                )
            )

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
    LocalDpMod.__init__ = init  # type: ignore[method-assign,assignment]
    try:
        yield found
    finally:
        opacus.PrivacyEngine.make_private = real
        LocalDpMod.__init__ = made  # type: ignore[method-assign]


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
    local = [one for one in found if one.epsilon is not None]
    if local and watched.metrics:
        return of_clients(max(local, key=lambda one: one.epsilon or 0.0), watched)
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


def of_clients(mechanism: Mechanism, watched: Watched) -> tuple[Verdict, float]:
    """The ε of LocalDpMod, for a client, in all rounds that one client took part in."""
    rounds = Counter(node for _, node, _ in watched.metrics).most_common(1)[0][1]
    account = Account(
        noise=mechanism.noise * mechanism.clip,
        clip=mechanism.clip,
        rounds=rounds,
        delta=mechanism.delta,
    )
    claim = Claim(mechanism.epsilon or 0.0, mechanism.delta, unit="client")
    return checked(claim, account, sensitivity=mechanism.sensitivity), claim.epsilon


def sentence(verdict: Verdict, rounds: int) -> str:
    """What the claim is worth, in words."""
    claim, account = verdict.claim, replace(verdict.account)
    said = f"The app reports ε = {claim.epsilon:.3g} (δ = {claim.delta:g}) for a {claim.unit}"
    if verdict.answer != REFUTED:
        paper = f"on paper {rounds} rounds are ε = {verdict.high:.3g}"
        return f"{said}; {paper}, so that the claim is not refuted."
    why = f": {'; '.join(verdict.explained)}" if verdict.explained else ""
    return f"{said}{why}. The ε of its {account.rounds} rounds together is {verdict.low:.3g}."
