"""What `verify-dp mechanism` and `verify-dp claim` do, from words that people type."""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedpriv.errors import BadInput, BadOption
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import parsed_setting
from fedpriv.scenario.binding import kebab
from fedpriv.simulations.dp.accounting import Account
from fedpriv.simulations.dp.accounts import account_of, claimed_in, span_of, turns_in
from fedpriv.simulations.dp.examine import Tell, examined
from fedpriv.simulations.dp.findings import Claim, Examination
from fedpriv.simulations.dp.on_paper import Verdict, checked
from fedpriv.simulations.dp.targets import target_of

NORMS = ("clipping-norm", "max-grad-norm", "clip", "initial-clipping-norm")


def mechanism_checked(
    name: str,
    settings: Iterable[str],
    claimed: tuple[float, float, str, str],
    *,
    clip: float | None = None,
    public: Iterable[str] = (),
    seconds: float = 5.0,
    draws: int | None = None,
    seed: int | None = None,
    tell: Tell = lambda line: None,
) -> Examination:
    """Examine the mechanism of a name and its options."""
    claim = Claim(*claimed)
    if not 0 < seconds <= 86_400:
        raise BadOption(f"seconds must be above 0 and at most a day, got {seconds}.")
    if draws is not None and not 100 <= draws <= 10**9:
        raise BadOption(f"draws must be at least 100, got {draws}; fewer bound nothing.")
    options: dict[str, Any] = {}
    for setting in settings:
        options |= parsed_setting(setting)
    if seed is not None:
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
    norm = clip if clip is not None else norm_in(options, tell)
    if not 0 < norm < float("inf"):
        raise BadOption(f"clip must be a number above 0, got {norm}.")
    mechanism = target_of(name, options, claim.unit)
    return examined(
        mechanism, claim, clip=norm, seconds=seconds, draws=draws, public=public, tell=tell
    )


def norm_in(options: Mapping[str, Any], tell: Tell) -> float:
    """The norm that options clip to; 1 when none is named, which is said."""
    for key, value in options.items():
        if kebab(key) in NORMS and isinstance(value, int | float):
            return float(value)
    tell(f"No option is one of {', '.join(NORMS)}; a clip norm of 1 is taken. See --clip.")
    return 1.0


def paper_checked(
    epsilon: float | None,
    noise_multiplier: float | None,
    sensitivity: float | None,
    epochs: int | None,
    unit: str,
    facts: Mapping[str, Any],
) -> Verdict:
    """The verdict on a claim from its own numbers."""
    if epsilon is None or noise_multiplier is None:
        raise BadInput(
            "A claim needs --epsilon and --noise-multiplier (σ: the noise over the sensitivity), "
            "or a run folder."
        )
    scale = sensitivity if sensitivity is not None else facts["clip"]
    account = Account(noise=noise_multiplier * scale, **facts)
    claim = Claim(epsilon, account.delta, unit, account.neighbours)
    return checked(claim, account, sensitivity, epochs)


def folder_checked(folder: Path, epsilon: float | None, unit: str | None = None) -> Verdict:
    """The verdict on the ε that a run reports, or on a given one.

    Without a unit it is about samples, unless only an ε of clients is reported.
    """
    place = RunFolder(folder)
    scenario, rounds = place.scenario(), place.rounds()
    if not rounds:
        raise BadInput(f"'{folder}' has no finished round, so that nothing is claimed yet.")
    last, samples = rounds[-1], claimed_in(rounds)
    if unit == "client" or (unit is None and samples is None and "user-epsilon" in last):
        spent = last.get("user-privacy")
        if spent is None:
            raise BadInput(f"'{folder}' reports no ε of clients; take --unit sample.")
        account = Account(
            noise=float(spent["noise-multiplier"]),
            rounds=int(spent["releases"]),
            delta=float(spent["delta"]),
        )
        told = epsilon if epsilon is not None else float(last["user-epsilon"])
        return checked(Claim(told, account.delta, "client"), account)
    value = epsilon if epsilon is not None else samples
    if value is None:
        raise BadInput(f"'{folder}' reports no ε; give --epsilon.")
    turns = turns_in(scenario, rounds)
    account = account_of(scenario, turns)
    return checked(
        Claim(float(value), account.delta, "sample"),
        account,
        epochs=scenario.training.local_epochs,
        span=span_of(scenario, turns),
    )
