"""A claim on paper: the ε of an account, and which mistake explains a claim that does not fit."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from fedpriv.simulations.dp.accounting import FORMULAS, Account, exact
from fedpriv.simulations.dp.findings import NOT_REFUTED, REFUTED, UNDECIDED, Claim

NEAR = 0.03  # relative distance at which a mistake explains a claim
CODES = {REFUTED: 1, NOT_REFUTED: 0, UNDECIDED: 4}


@dataclass(frozen=True)
class Mistake:
    """A way to get a smaller ε than the account has."""

    words: str
    done: Callable[[Account], Account]


def mistakes(account: Account, sensitivity: float | None, epochs: int | None) -> Iterator[Mistake]:
    """Those that would change this account."""
    if account.rounds > 1:
        yield Mistake(
            f"it is the ε of one round, and there are {account.rounds}",
            lambda a: replace(a, rounds=1),
        )
    if account.steps > 1:
        yield Mistake(
            f"it is the ε of one step, and a round has {account.steps}",
            lambda a: replace(a, steps=1),
        )
    if epochs is not None and epochs != account.steps:
        yield Mistake(
            f"it counts {epochs} epochs as steps, and a round has {account.steps} steps",
            lambda a: replace(a, steps=epochs),
        )
    if sensitivity is not None and sensitivity != account.clip:
        yield Mistake(
            f"its noise is scaled to a sensitivity of {sensitivity:g}, and updates are clipped at "
            f"{account.clip:g}",
            lambda a: replace(a, clip=sensitivity),
        )
    if account.neighbours == "replace":
        yield Mistake(
            "it holds for adding or removing one, not for replacing one",
            lambda a: replace(a, neighbours="add-remove"),
        )
    if account.sampling == "fixed" and account.rate < 1:
        yield Mistake(
            "its batches are fixed and are billed as Poisson samples",
            lambda a: replace(a, sampling="poisson"),
        )
    if account.evaluations:
        yield Mistake(
            f"it leaves out {account.evaluations} evaluations on samples that are held out",
            lambda a: replace(a, evaluations=0),
        )
    if account.runs > 1:
        yield Mistake(
            f"it leaves out that {account.runs} runs were made on the data to choose from",
            lambda a: replace(a, runs=1),
        )


@dataclass(frozen=True)
class Verdict:
    """The answer to a claim on paper."""

    claim: Claim
    account: Account
    low: float  # the account's ε lies between low and high
    high: float
    formulas: dict[str, float]
    explained: tuple[str, ...]
    by: str = ""  # the formula with which the mistakes give the claim

    @property
    def answer(self) -> str:
        if self.claim.epsilon < self.low * (1 - 1e-6):
            # The runs that were not kept are in the account, but choosing may reveal less.
            return REFUTED if self.account.runs == 1 or self._one_run_refutes else UNDECIDED
        return NOT_REFUTED

    @property
    def _one_run_refutes(self) -> bool:
        return self.claim.epsilon < exact(replace(self.account, runs=1))[0] * (1 - 1e-6)

    @property
    def sentence(self) -> str:
        span = f"{self.low:.4g}"
        if self.answer == REFUTED:
            low = self.low if self.account.runs == 1 else exact(replace(self.account, runs=1))[0]
            return f"refuted: ε is at least {low:.4g} (computed, not sampled)."
        if self.answer == UNDECIDED:
            return (
                f"undecided: {self.account.runs} runs on the same data are up to ε = "
                f"{self.high:.4g} together; the claim counts one of them."
            )
        return f"not refuted below ε = {span} (computed, not sampled)."

    @property
    def exit_code(self) -> int:
        return CODES[self.answer]

    def plain(self) -> dict[str, Any]:
        return {
            "claimed": vars(self.claim),
            "account": vars(self.account),
            "answer": self.answer,
            "sentence": self.sentence,
            "epsilon": {"low": self.low, "high": self.high, "by": "PLD"},
            "formulas": self.formulas,
            "explained-by": list(self.explained),
            "explained-with": self.by,
        }


def checked(
    claim: Claim,
    account: Account,
    sensitivity: float | None = None,
    epochs: int | None = None,
    span: tuple[float, float] | None = None,
) -> Verdict:
    """The account's ε beside the formulas people use, and what explains a claim below it.

    `span` is where ε lies if the account is not known exactly.
    """
    low, high = span or exact(account)
    formulas = {name: formula(account) for name, formula in FORMULAS.items()}
    explained: tuple[str, ...] = ()
    by = ""
    if claim.epsilon < low * (1 - 1e-6):
        explained, by = _explained(claim, account, sensitivity, epochs)
    return Verdict(claim, account, low, high, formulas, explained, by)


def _explained(
    claim: Claim, account: Account, sensitivity: float | None, epochs: int | None
) -> tuple[tuple[str, ...], str]:
    """The fewest mistakes that lead to the claim, and the formula which then gives it."""
    found = list(mistakes(account, sensitivity, epochs))
    for count in range(len(found) + 1):
        for chosen in combinations(found, count):
            mistaken = account
            for mistake in chosen:
                mistaken = mistake.done(mistaken)
            by = _formula_of(claim.epsilon, mistaken)
            if by:
                words = tuple(mistake.words for mistake in chosen)
                return words or (f"the formula {by} is not a bound here",), by
    return (), ""


def _formula_of(epsilon: float, account: Account) -> str:
    for name, formula in {"PLD": lambda a: exact(a)[1], **FORMULAS}.items():
        value = formula(account)
        if math.isfinite(value) and math.isclose(value, epsilon, rel_tol=NEAR):
            return name
    return ""
