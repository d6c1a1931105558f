"""Scores that tell two worlds apart: made from some releases, counted on others.

Every score is fixed on pilot draws, so that the draws which are counted know nothing of the choice.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fedpriv.simulations.dp.bounds import Errors, Scores, counted, gdp_shift
from fedpriv.simulations.dp.releases import Rows
from fedpriv.simulations.dp.worlds import Update

THRESHOLDS = 200
SEEN = 4.0  # standard errors from which a column's difference is believed


@dataclass(frozen=True)
class Score:
    """A figure that is higher in the loud world, and the words for it."""

    name: str
    of: Callable[[np.ndarray], Scores]  # (n, D) -> (n,)


def candidates(quiet: Rows, loud: Rows, canary: Update) -> Iterator[Score]:
    """Ways to look at a release: along the canary, along what differed, by its size."""
    a, b = quiet.values, loud.values
    known = _known(quiet, loud, canary)
    if known.any():
        yield _along("along the canary", known, a, b)
    spread = np.sqrt((a.var(0) + b.var(0)) / 2)
    shift = b.mean(0) - a.mean(0)
    noisy = spread > 1e-9 * (np.abs(a).max(0) + 1e-30)
    error = np.where(noisy, spread, 1) * np.sqrt(1 / len(a) + 1 / len(b))
    strong = noisy & (np.abs(shift) > SEEN * error)
    if strong.any():
        weights = np.where(strong, shift / np.where(noisy, spread, 1) ** 2, 0)
        yield _along("along what differs", weights, a, b)
    if noisy.any():
        centre, scale = a.mean(0)[noisy], a.std(0)[noisy] + 1e-300

        def size(values: np.ndarray) -> Scores:
            away = np.clip((values[:, noisy] - centre) / scale, -1e6, 1e6)
            found: Scores = (away**2).sum(1)
            return found

        sign = 1.0 if size(b).mean() >= size(a).mean() else -1.0
        yield Score("by the size of the noise", lambda values: sign * size(values))


def _known(quiet: Rows, loud: Rows, canary: Update) -> np.ndarray:
    """(D,): the canary's direction where a release has parts of its names.

    A release of several steps has it once for each step; steps are weighted by what they show.
    """
    groups: dict[str, np.ndarray] = {}
    for name, part in quiet.fields.items():
        base = re.split(r"[:,/] ?", name)[-1]
        second = name.startswith("round 2")
        if base in canary and part.stop - part.start == canary[base].size and not second:
            group = groups.setdefault(name.removesuffix(base), np.zeros(quiet.values.shape[1]))
            group[part] = canary[base].ravel()
    if len(groups) < 2:
        return sum(groups.values(), np.zeros(quiet.values.shape[1]))
    total = np.zeros(quiet.values.shape[1])
    for group in groups.values():
        a, b = quiet.values @ group, loud.values @ group
        spread = np.sqrt((a.var() + b.var()) / 2)
        shift = b.mean() - a.mean()
        if spread > 0 and abs(shift) > SEEN * spread * np.sqrt(2 / len(a)):
            total += group * shift / spread**2
    return total


def _along(name: str, weights: np.ndarray, quiet: np.ndarray, loud: np.ndarray) -> Score:
    sign = 1.0 if (loud @ weights).mean() >= (quiet @ weights).mean() else -1.0
    return Score(name, lambda values: sign * (values @ weights))


@dataclass(frozen=True)
class Rule:
    """A score with its threshold; reversed, a low score is a guess that the canary is absent."""

    score: Score
    threshold: float
    reverse: bool = False

    def errors(self, quiet: Scores, loud: Scores) -> Errors:
        if self.reverse:
            return Errors.at(-self.threshold, -quiet, -loud)
        return Errors.at(self.threshold, loud, quiet)


def grid(quiet: Scores, loud: Scores) -> np.ndarray:
    """Thresholds between the scores of both worlds."""
    share = np.linspace(0, 1, THRESHOLDS)
    ends = np.concatenate([np.quantile(quiet, share), np.quantile(loud, share)])
    middle = (quiet.max() + loud.min()) / 2  # between two worlds that do not overlap
    return np.unique(np.append(ends, middle))


def best_counted(
    score: Score, quiet: Scores, loud: Scores, significance: float, delta: float
) -> tuple[float, Rule]:
    """The rule with the highest bound by counting on these draws."""
    rules = [Rule(score, t, reverse) for t in grid(quiet, loud) for reverse in (False, True)]
    bounds = [counted(rule.errors(quiet, loud), significance, delta) for rule in rules]
    best = int(np.argmax(bounds))
    return bounds[best], rules[best]


def best_gaussian(
    score: Score, quiet: Scores, loud: Scores, significance: float
) -> tuple[float, Rule]:
    """The rule with the highest Gaussian shift on these draws."""
    rules = [Rule(score, t) for t in grid(quiet, loud)]
    shifts = [gdp_shift(rule.errors(quiet, loud), significance) for rule in rules]
    best = int(np.argmax(shifts))
    return shifts[best], rules[best]
