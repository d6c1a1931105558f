"""Scores that tell two worlds apart: made from some releases, counted on others.

Every score is fixed on pilot draws, so that the draws which are counted know nothing of the choice.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import betainccinv, ndtri

from fedpriv.simulations.dp.bounds import Errors, Scores
from fedpriv.simulations.dp.releases import Rows, is_number
from fedpriv.simulations.dp.worlds import Update

THRESHOLDS = 200
SEEN = 4.0  # standard errors from which a column's difference is believed
ROUNDING = 1e-7  # of a column's largest value: what varies less is taken for rounding
FARTHEST = 1e6  # standard deviations: a column may have none in one of the worlds
RIDGE = 1e-9  # of the variance of a column, where columns vary together
HIDDEN_BIT = 0.4  # difference of how often a last bit is set from which somebody set it
PER_COLUMN = 5  # draws for each column from which it is learned how columns vary together


@dataclass(frozen=True)
class Score:
    """A figure that is higher in the loud world, and the words for it."""

    name: str
    of: Callable[[np.ndarray], Scores]  # (n, D) -> (n,)
    smooth: bool = True  # of sums of entries, so that Gaussian noise leaves it Gaussian


def candidates(quiet: Rows, loud: Rows, canary: Update) -> Iterator[Score]:
    """Ways to look at a release: along the canary, along what differed, by its size, by how entries
    vary together, by values that come again and by the last bits of numbers.
    """
    a, b = quiet.values, loud.values
    known = _known(quiet, loud, canary)
    if known.any():
        yield _along("along the canary", known, a, b)
        yield _nearest(known, a, b)
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
            away = np.clip((values[:, noisy] - centre) / scale, -FARTHEST, FARTHEST)
            found: Scores = (away**2).sum(1)
            return found

        sign = 1.0 if size(b).mean() >= size(a).mean() else -1.0
        yield Score("by the size of the noise", lambda values: sign * size(values))
        towards = np.where(shift[noisy] < 0, -1.0, 1.0) / scale

        def largest(values: np.ndarray) -> Scores:
            away = np.clip((values[:, noisy] - centre) * towards, -FARTHEST, FARTHEST)
            found: Scores = away.max(1)
            return found

        yield Score("by its largest entry", largest)
    yield _along("along what differs, noise taken together", _fisher(a, b), a, b)
    own = np.zeros(a.shape[1], bool)
    for name, part in quiet.fields.items():
        own[part] = is_number(name)
    for found in (_together(a, b, noisy & own), _values_again(a, b), _last_bits(a, b, own)):
        if found is not None:
            yield found


def _fisher(quiet: np.ndarray, loud: np.ndarray) -> np.ndarray:
    """(D,): Fisher's discriminant. It finds differences of entries that share their noise."""
    pooled = np.concatenate([quiet - quiet.mean(0), loud - loud.mean(0)])
    top = np.maximum(np.abs(quiet).max(0), np.abs(loud).max(0))
    scale = pooled.std(0) + ROUNDING * top
    scale[scale == 0] = 1.0
    pooled /= scale
    together = pooled.T @ pooled / len(pooled) + RIDGE * np.eye(pooled.shape[1])
    weights: np.ndarray = np.linalg.solve(together, (loud.mean(0) - quiet.mean(0)) / scale) / scale
    return weights


def _together(quiet: np.ndarray, loud: np.ndarray, columns: np.ndarray) -> Score | None:
    """The logarithm of how much likelier a release is with the canary, if both are Gaussian.

    It finds noise that is shared between entries in one world only, where no mean differs.
    """
    if not columns.any() or len(quiet) < PER_COLUMN * columns.sum():
        return None
    sides = [side[:, columns] for side in (quiet, loud)]
    centre, scale = sides[0].mean(0), np.sqrt((sides[0].var(0) + sides[1].var(0)) / 2)
    means, inverses = [], []
    for side in sides:
        away = (side - centre) / scale
        means.append(away.mean(0))
        spread = np.cov(away, rowvar=False).reshape(len(scale), -1) + RIDGE * np.eye(len(scale))
        inverses.append(np.linalg.inv(spread))

    def likelier(values: np.ndarray) -> Scores:
        away = np.clip((values[:, columns] - centre) / scale, -FARTHEST, FARTHEST)
        without, with_it = (
            (((away - mean) @ inverse) * (away - mean)).sum(1)
            for mean, inverse in zip(means, inverses, strict=True)
        )
        found: Scores = without - with_it
        return found

    return Score("by how entries vary together", likelier)


def _last_bits(quiet: np.ndarray, loud: np.ndarray, columns: np.ndarray) -> Score | None:
    """The logarithm of how much likelier the last bits are with the canary, where they were set.

    Sums of floating-point numbers have last bits that follow the values a little (Mironov 2012).
    That is not looked for: a claim is about real numbers, and no noise of a plain generator would
    hold it.
    """
    single = np.all([(side == side.astype(np.float32)).all(0) for side in (quiet, loud)], axis=0)

    def bits(values: np.ndarray) -> np.ndarray:
        whole = values.astype(np.float32).view(np.uint32) & 1
        return np.where(single, whole, np.ascontiguousarray(values).view(np.uint64) & 1)

    without, with_it = ((bits(side).sum(0) + 0.5) / (len(side) + 1) for side in (quiet, loud))
    telling = columns & (np.abs(with_it - without) > HIDDEN_BIT)
    if not telling.any():
        return None
    one, zero = np.log(with_it / without), np.log((1 - with_it) / (1 - without))

    def likelier(values: np.ndarray) -> Scores:
        found: Scores = np.where(bits(values), one, zero)[:, telling].sum(1)
        return found

    return Score("by the last bits of numbers", likelier, smooth=False)


def _values_again(quiet: np.ndarray, loud: np.ndarray) -> Score | None:
    """The logarithm of how much more often the very values of a release came with the canary.

    Noise that has a density never comes again. Noise that is left out, cut, rounded or drawn from
    a short seed does, and so does a part without noise.
    """
    tables: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for column in range(quiet.shape[1]):
        both = np.concatenate([quiet[:, column], loud[:, column]])
        seen, place = np.unique(both, return_inverse=True)
        without = np.bincount(place[: len(quiet)], minlength=len(seen))
        with_it = np.bincount(place[len(quiet) :], minlength=len(seen))
        again = without + with_it > 1
        worth = np.log((with_it + 0.5) / (without + 0.5))
        if (worth[again] != 0).any():
            tables[column] = seen[again], worth[again]
    if not tables:
        return None

    def again_in(values: np.ndarray) -> Scores:
        total = np.zeros(len(values))
        for column, (seen, worth) in tables.items():
            at = np.searchsorted(seen, values[:, column]).clip(max=len(seen) - 1)
            total += np.where(seen[at] == values[:, column], worth[at], 0.0)
        return total

    return Score("by values that come again", again_in, smooth=False)


def _known(quiet: Rows, loud: Rows, canary: Update) -> np.ndarray:
    """(D,): the canary's direction where a release has parts of its names.

    A release of several steps has it once for each step; steps are weighted by what they show.
    """
    groups: dict[str, np.ndarray] = {}
    for name, part in quiet.fields.items():
        base = re.split(r"[:,/] ?", name)[-1]
        if base in canary and part.stop - part.start == canary[base].size:
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


def _nearest(weights: np.ndarray, quiet: np.ndarray, loud: np.ndarray) -> Score:
    """The logarithm of how much nearer a release is to the usual one with the canary.

    Noise that is mostly little and seldom large lies on both sides of any threshold; few of the
    large draws come as near to a usual release as the little ones do.
    """
    without, with_it = (float(np.median(side @ weights)) for side in (quiet, loud))
    least = 1e-9 * abs(with_it - without) + 1e-300

    def nearer(values: np.ndarray) -> Scores:
        place = values @ weights
        found: Scores = np.log(np.abs(place - without) + least)
        found -= np.log(np.abs(place - with_it) + least)
        return found

    return Score("by which usual release is nearer", nearer)


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


def _rates(
    threshold: np.ndarray, inside: Scores, outside: Scores, significance: float
) -> tuple[np.ndarray, np.ndarray]:
    """`Errors.rates` at many thresholds at once."""
    missed = np.searchsorted(np.sort(inside), threshold, "left")
    alarms = len(outside) - np.searchsorted(np.sort(outside), threshold, "left")
    found = []
    for count, total in ((alarms, len(outside)), (missed, len(inside))):
        some = np.minimum(count, total - 1)
        most = betainccinv(some + 1.0, total - some, significance / 2)
        found.append(np.where(count >= total, 1.0, most))
    return found[0], found[1]


def best_counted(
    score: Score, quiet: Scores, loud: Scores, significance: float, delta: float
) -> tuple[float, Rule]:
    """The rule with the highest bound by counting on these draws."""
    thresholds = grid(quiet, loud)
    best = (0.0, Rule(score, float(thresholds[-1])))
    for reverse in (False, True):
        ends = -thresholds if reverse else thresholds
        sides = (-quiet, -loud) if reverse else (loud, quiet)
        fpr, fnr = _rates(ends, *sides, significance)
        bounds = np.log(np.maximum(1 - fnr - delta, 1e-300) / fpr)
        at = int(np.argmax(bounds))
        best = max(
            best,
            (float(bounds[at]), Rule(score, float(thresholds[at]), reverse)),
            key=lambda pair: pair[0],
        )
    return best


def best_gaussian(
    score: Score, quiet: Scores, loud: Scores, significance: float
) -> tuple[float, Rule]:
    """The rule with the highest Gaussian shift on these draws."""
    thresholds = grid(quiet, loud)
    fpr, fnr = _rates(thresholds, loud, quiet, significance)
    with np.errstate(invalid="ignore"):
        shifts = np.where(np.maximum(fpr, fnr) < 1, -ndtri(fpr) - ndtri(fnr), 0.0)
    at = int(np.argmax(shifts))
    return float(shifts[at]), Rule(score, float(thresholds[at]))
