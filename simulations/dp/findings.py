"""What an examination found, and the only two answers there are: refuted, or not refuted below."""

import math
from dataclasses import dataclass, field
from typing import Any

from fedpriv.errors import BadOption

FALSE_REFUTATION = 1e-3  # the chance over all tests of a command
REFUTED, NOT_REFUTED, UNDECIDED = "refuted", "not refuted", "undecided"
DRAWN = (
    "every draw has fresh noise of its own",
    "the worlds are neighbours of the claim: clip norm, unit and neighbours are as they were given",
)
NOTHING = "nothing"  # of the noise
GAUSSIAN = "Gaussian noise of one size"  # with and without the canary


@dataclass(frozen=True)
class Claim:
    """What is said to hold: ε and δ, for which unit, between which neighbours."""

    epsilon: float
    delta: float
    unit: str = "client"
    neighbours: str = "add-remove"

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise BadOption(f"epsilon must be a number above 0, got {self.epsilon}.")
        if not 0 < self.delta < 1:
            raise BadOption(f"delta must be above 0 and below 1, got {self.delta}.")
        if self.unit not in ("sample", "client"):
            raise BadOption(f"unit must be 'sample' or 'client', got {self.unit!r}.")
        if self.neighbours not in ("add-remove", "replace"):
            raise BadOption(
                f"neighbours must be 'add-remove' or 'replace', got {self.neighbours!r}."
            )

    def __str__(self) -> str:
        unit = "one sample" if self.unit == "sample" else "one client"
        how = "added or removed" if self.neighbours == "add-remove" else "replaced"
        return f"ε = {self.epsilon:g}, δ = {self.delta:g}, {unit} {how}"


@dataclass(frozen=True)
class Bound:
    """One test: a lower bound of ε, how it was found, and what it assumes of the noise."""

    epsilon: float
    method: str  # counting | GDP | moments | one run | one run f-DP | by step
    game: str
    score: str
    assumes: str  # of the noise; where that is wrong, the chance of error is not known
    draws: int

    def plain(self) -> dict[str, Any]:
        return {
            "epsilon-at-least": self.epsilon,
            "method": self.method,
            "game": self.game,
            "score": self.score,
            "assumes": self.assumes,
            "draws": self.draws,
        }


@dataclass(frozen=True)
class Finding:
    """Something that was seen, in words.

    `refutes`: it has a chance below the command's own if the claim is true. `bare`: it looks as if
    no noise covered it, which only the bounds can prove.
    """

    cause: str
    detail: str
    refutes: bool = False
    bare: bool = False

    def plain(self) -> dict[str, Any]:
        return vars(self).copy()


@dataclass
class Examination:
    """All that was tried against one claim."""

    target: str
    claim: Claim
    bounds: list[Bound] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # what could not be tried, and why
    failed_control: str = ""  # why the attack cannot see what it should see without noise
    always: tuple[str, ...] = DRAWN  # what every bound takes for granted
    public: tuple[str, ...] = ()  # parts that were not looked at: their owner declares them public
    tests: int = 0
    draws: int = 0
    seconds: float = 0.0

    @property
    def best(self) -> Bound | None:
        return max(self.bounds, key=lambda bound: bound.epsilon, default=None)

    @property
    def at_least(self) -> float:
        """The highest lower bound of ε."""
        return self.best.epsilon if self.best else 0.0

    @property
    def without_assumption(self) -> float:
        """The highest bound that assumes nothing of the noise."""
        return max((b.epsilon for b in self.bounds if b.assumes == NOTHING), default=0.0)

    @property
    def answer(self) -> str:
        if self.at_least > self.claim.epsilon or any(one.refutes for one in self.findings):
            return REFUTED
        return UNDECIDED if self.why_undecided else NOT_REFUTED

    @property
    def why_undecided(self) -> str:
        """Why "not refuted" would say too much; empty if it would not."""
        if not self.bounds:
            return "no test could be made; see what was left out"
        if self.failed_control:
            return self.failed_control
        causes = list(dict.fromkeys(f.cause for f in self.findings if f.bare))
        if not causes:
            return ""
        needed = 2 * math.exp(min(self.claim.epsilon, 100)) * math.log(2 / self.level)
        named = any(cause.startswith("'") for cause in causes)  # a part of the release
        return (
            f"{'; '.join(causes)}, as far as the draws go. They prove ε ≥ {self.at_least:.3g} "
            f"only; about --draws {needed:.1g} would decide"
            + (". Is it public? Then say --public" if named else "")
        )

    @property
    def sure(self) -> str:
        """The confidence, with what it rests on."""
        words = f"confidence {1 - FALSE_REFUTATION:.1%} over {self.tests} tests"
        best = self.best
        if best is None or best.assumes == NOTHING:
            return words
        return f"{words}, given {best.assumes}; {self.without_assumption:.3g} without"

    @property
    def level(self) -> float:
        """The chance of a wrong bound that each test may have, so that all have the command's."""
        return FALSE_REFUTATION / max(1, self.tests)

    @property
    def sentence(self) -> str:
        """One of the answers, with the confidence that goes with it, and what was left out."""
        hidden = f" Declared public and not looked at: {', '.join(self.public)}."
        return self._sentence + (hidden if self.public else "")

    @property
    def _sentence(self) -> str:
        if self.answer == UNDECIDED:
            return f"undecided: {self.why_undecided}."
        if self.answer == NOT_REFUTED:
            return f"not refuted below ε = {self.at_least:.3g} ({self.sure})."
        seen = list(dict.fromkeys(f.cause for f in self.findings if f.refutes or f.bare))
        tail = f" Seen: {'; '.join(seen)}." if seen else ""
        if self.at_least > self.claim.epsilon:
            return f"refuted: ε is at least {self.at_least:.3g} ({self.sure}).{tail}"
        return (
            "refuted: the noise is not what the claim rests on "
            f"(confidence {1 - FALSE_REFUTATION:.1%} over {self.tests} tests).{tail}"
        )

    @property
    def exit_code(self) -> int:
        return {REFUTED: 1, NOT_REFUTED: 0, UNDECIDED: 4}[self.answer]

    def plain(self) -> dict[str, Any]:
        """The same for JSON."""
        best = self.best
        return {
            "target": self.target,
            "claimed": vars(self.claim),
            "answer": self.answer,
            "sentence": self.sentence,
            "epsilon-at-least": self.at_least,
            "measured": best.plain() if best else None,
            "without-assumption": self.without_assumption,
            "confidence": 1 - FALSE_REFUTATION,
            "tests": self.tests,
            "chance-of-each": self.level,
            "all-assume": list(self.always),
            "bounds": [bound.plain() for bound in self.bounds],
            "findings": [finding.plain() for finding in self.findings],
            "left-out": self.left_out,
            "declared-public": list(self.public),
            "draws": self.draws,
            "seconds": round(self.seconds, 2),
        }
