"""The DP card of a scenario or a run: what an ε is about, beside what was computed and measured.

The rows are those that NIST SP 800-226 asks of a claim: unit, neighbours, ε and δ, mechanism,
accounting, whom one has to trust, and what no ε covers.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedpriv.clients.catalogue import PLUGINS
from fedpriv.clients.plugins.differential_privacy import DifferentialPrivacy
from fedpriv.errors import BadInput
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.sharing import sharing_of
from fedpriv.simulations.dp.accounting import Account, exact
from fedpriv.simulations.dp.accounts import (
    account_of,
    claimed_in,
    counted_apart,
    noisy_plugin,
    planned,
    span_of,
    turns_in,
)
from fedpriv.strategies.app import RANDOMNESS
from fedpriv.strategies.catalogue import strategy_of
from fedpriv.strategies.roster import Roster
from fedpriv.strategies.user_epsilon import ACCOUNTANT, NEIGHBOURS
from fedpriv.strategies.user_privacy import UserLevel

EVERYWHERE = (
    "which clients take part, when their messages come, and how long they are",
    "whatever was learned from the same data before: other runs, tuning, the choice of settings",
    "rounding: noise is added in floating point numbers, which do not have all values",
)


@dataclass(frozen=True)
class Card:
    """One claim. `epsilon` is what is claimed, `computed` what the settings add up to (PLD)."""

    unit: str
    neighbours: str
    epsilon: float | None
    delta: float
    mechanism: str
    accountant: str
    trust: str
    outside: list[str]
    computed: dict[str, Any]  # low, high, by
    empirical: dict[str, Any] | None  # None when `verify-dp run` was not tried


def card_of(scenario: Scenario, folder: RunFolder | Path | None = None) -> dict[str, Any] | None:
    """The card of a scenario as a dict for JSON; None when no ε is claimed.

    With the folder of a run, ε is what its rounds report, and `empirical` what `verify-dp` found
    there. Without, ε is what the settings ask for. A scenario with an ε for samples and one for
    clients has the second card under `beside`.
    """
    place = RunFolder(folder) if isinstance(folder, Path) else folder
    cards = [card for card in (_of_samples(scenario, place), _of_clients(scenario, place)) if card]
    if not cards:
        return None
    first, *others = map(asdict, cards)
    return first | {"beside": others}


def written_card(place: RunFolder) -> dict[str, Any] | None:
    """The card of a run folder, written into it for its page."""
    card = card_of(place.scenario(), place)
    if card is not None:
        place.write_card(card)
    return card


def _of_samples(scenario: Scenario, place: RunFolder | None) -> Card | None:
    """The ε of `dp`, or of a plugin with its options: about one sample."""
    try:
        spec = noisy_plugin(scenario)
    except BadInput:
        return None
    plugin = PLUGINS.build(spec.name, spec.options)
    own = isinstance(plugin, DifferentialPrivacy)
    if getattr(plugin, "noise_multiplier", None) == 0:
        return None  # clipping alone has no ε
    rounds = place.rounds() if place else []
    turns = turns_in(scenario, rounds) if rounds else planned(scenario, scenario.federation.rounds)
    account = account_of(scenario, turns)
    claimed = claimed_in(rounds)
    if claimed is None and not rounds and isinstance(plugin, DifferentialPrivacy):
        claimed = plugin.epsilon
    apart = counted_apart(scenario)
    if apart:
        samples = f"a noised number of samples, drawn once, spends ε = {apart:g} of it"
        outside = []
    else:
        samples = "the number of samples is declared public by its owner"
        outside = ["the number of samples, which its owner declares public"]
    return Card(
        unit="one sample of one client",
        neighbours="one sample is added or removed",
        epsilon=claimed,
        delta=account.delta,
        mechanism=(
            f"{'DP-SGD' if own else spec.name}: batches take a sample with a chance of "
            f"{account.rate:.3g} (Poisson), gradients are clipped to a norm of {account.clip:g}, "
            f"Gaussian noise has {account.multiplier:.4g} times that norm; steps in a round: "
            f"{account.steps}, rounds of a client: {account.rounds}"
        ),
        accountant=f"{_accountant(plugin)}; {samples}",
        trust=(
            "Each client has to draw its own noise; ε is on its word. Nobody else has to be "
            "trusted: not the server, not other clients, not who reads messages."
            + _seeded(place.environment().get(RANDOMNESS, "") if place else "")
        ),
        outside=[
            *outside,
            "a person with several samples, or with samples at several clients: each adds its ε",
            *EVERYWHERE,
        ],
        computed=_computed(span_of(scenario, turns)),
        empirical=_measured(place, "sample"),
    )


def _accountant(plugin: Any) -> str:
    kind = getattr(plugin, "accountant", None)
    return f"{kind.upper()} (Opacus)" if isinstance(kind, str) else "none of its own"


def _of_clients(scenario: Scenario, place: RunFolder | None) -> Card | None:
    """The ε of a user-level strategy: about one client."""
    if sharing_of(scenario).reply != "update":
        return None
    rounds = place.rounds() if place else []
    spent: Mapping[str, Any] = rounds[-1].get("user-privacy", {}) if rounds else {}
    strategy = _user_level(scenario)
    if spent:
        noise, delta = float(spent["noise-multiplier"]), float(spent["delta"])
        releases = int(spent["releases"])
    elif strategy is not None and strategy.noise_multiplier > 0:
        noise, delta = strategy.noise_multiplier, strategy.delta
        releases = scenario.federation.rounds
    else:
        return None
    by_clients = strategy is not None and strategy.by_clients
    hidden = scenario.federation.secagg
    sees = "only the sum of clipped updates (secure aggregation)" if hidden else "every update"
    return Card(
        unit="one client with all its samples",
        neighbours=str(spent.get("neighbours", NEIGHBOURS)),
        epsilon=rounds[-1].get("user-epsilon") if rounds else None,
        delta=delta,
        mechanism=(
            f"the mean of updates that {'clients clip' if by_clients else 'the server clips'}, "
            f"with Gaussian noise of {noise:g} times what one client can move; published models: "
            f"{releases}"
        ),
        accountant=str(spent.get("accountant", ACCOUNTANT)),
        trust=(
            f"The server has to add the noise and to keep to itself what it sees: {sees}. "
            "ε holds against those who see the published models only."
            + (" Clients have to clip." if by_clients and hidden else "")
            + _seeded(spent.get("noise-from", ""))
        ),
        outside=[
            "who is asked and who answers: no sampling of clients is counted on",
            *EVERYWHERE,
        ],
        computed=_computed(exact(Account(noise=noise, rounds=releases, delta=delta))),
        empirical=_measured(place, "client"),
    )


def _user_level(scenario: Scenario) -> UserLevel | None:
    """The scenario's strategy, if it is one of user-level DP."""
    strategy = strategy_of(scenario, Roster(scenario.federation.clients))
    return strategy if isinstance(strategy, UserLevel) else None


def _seeded(source: str) -> str:
    """A warning where the noise of a simulation came from a public seed."""
    public = "seed" in source.lower()
    return " In this run the noise came from a public seed: a simulation." if public else ""


def _computed(span: tuple[float, float]) -> dict[str, Any]:
    return {"low": span[0], "high": span[1], "by": ACCOUNTANT}


def _measured(place: RunFolder | None, unit: str) -> dict[str, Any] | None:
    """What canaries found in this folder about claims of this unit."""
    found = place.verified().get("run") if place else None
    if not found or found["claimed"]["unit"] != unit:
        return None
    best = found["measured"] or {}
    return {
        "epsilon-at-least": found["epsilon-at-least"],
        "answer": found["answer"],
        "sentence": found["sentence"],
        "confidence": found["confidence"],
        "assumes": best.get("assumes", ""),
        "without-assumption": found["without-assumption"],
        "places": found.get("places", {}),
        "canaries": found.get("canaries"),
    }
