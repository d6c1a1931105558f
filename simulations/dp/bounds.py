"""Lower bounds of ε from scores of two neighbouring worlds; all are pure functions of counts.

A score above a threshold is a guess that the canary was in. Fewer wrong guesses than (ε, δ)
allows refute the claim. Thresholds must be chosen on other draws than those that are counted.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.optimize import brentq
from scipy.special import betainccinv, log_ndtr, ndtri

Scores = np.ndarray  # (n,)
LEAST_P = (0.01, 1e-4)  # of the tests whether noise is Gaussian, of few draws and of many
FEWEST, MANY = 50, 1000
HUGE = 1e5
MOST_TESTED = 20_000  # draws in those tests: with more, float32's own steps are found


@dataclass(frozen=True)
class Errors:
    """Wrong guesses at one threshold: canaries taken for absent, and absent ones for canaries."""

    missed: int  # false negatives
    present: int
    alarms: int  # false positives
    absent: int

    @staticmethod
    def at(threshold: float, inside: Scores, outside: Scores) -> "Errors":
        """A score equal to the threshold counts as a guess 'in'."""
        missed, alarms = int((inside < threshold).sum()), int((outside >= threshold).sum())
        return Errors(missed, len(inside), alarms, len(outside))

    def rates(self, significance: float) -> tuple[float, float]:
        """Upper bounds of the false positive and false negative rate, each at half of it."""
        return (
            most_likely(self.alarms, self.absent, significance / 2),
            most_likely(self.missed, self.present, significance / 2),
        )


def most_likely(count: int, total: int, significance: float) -> float:
    """The upper end of the exact one-sided interval of a rate (Clopper & Pearson 1934)."""
    if count >= total:
        return 1.0
    return float(betainccinv(count + 1, total - count, significance))


def counted(errors: Errors, significance: float, delta: float) -> float:
    """ε ≥ ln((TPR − δ) / FPR), with no assumption on the noise (arXiv 2006.07709, eq. 2).

    It needs about e^ε draws, so that it serves small ε only.
    """
    fpr, fnr = errors.rates(significance)
    detected = 1 - fnr - delta
    return max(0.0, math.log(detected / fpr)) if detected > 0 else 0.0


def gaussian_epsilon(mu: float, delta: float) -> float:
    """ε of a μ-GDP mechanism at δ (arXiv 1905.02383, corollary 2.13), in logarithms."""
    if mu <= 0 or delta >= 1:
        return 0.0
    if mu > HUGE:  # the two terms cannot be told apart any more; this is a little below ε
        return mu * mu / 2

    def excess(epsilon: float) -> float:
        high = log_ndtr(mu / 2 - epsilon / mu)
        low = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        # Both terms round to the same number where δ is far below 1e-16 of them.
        gap = math.log1p(-math.exp(low - high)) if low < high else -math.inf
        return float(max(high + gap, -1e300) - math.log(delta))

    if excess(0.0) <= 0:
        return 0.0
    top = mu * (mu / 2 - ndtri(delta)) + 1
    return float(brentq(excess, 0.0, top, xtol=1e-9 * max(1.0, top)))


def gdp_shift(errors: Errors, significance: float) -> float:
    """μ ≥ Φ⁻¹(1 − FPR) − Φ⁻¹(FNR) for noise that is Gaussian (arXiv 1905.02383, eq. 6)."""
    fpr, fnr = errors.rates(significance)
    if max(fpr, fnr) >= 1:
        return 0.0
    return float(-ndtri(fpr) - ndtri(fnr))


def gdp(errors: Errors, significance: float, delta: float) -> float:
    """ε from wrong guesses, for noise that is Gaussian: few draws bound a large ε."""
    return gaussian_epsilon(gdp_shift(errors, significance), delta)


def moment_shift(inside: Scores, outside: Scores, significance: float) -> float:
    """μ ≥ (distance of the means) / (standard deviation), for noise that is Gaussian.

    A t interval of the difference and a χ² interval of the variance, each at half of the
    significance. It has no ceiling, where counted errors end at about ln n.
    """
    free = len(inside) + len(outside) - 2
    largest = max(np.abs(inside).max(), np.abs(outside).max())
    if largest > 1:  # squares of huge scores would overflow
        inside, outside = inside / largest, outside / largest
    squares = ((inside - inside.mean()) ** 2).sum() + ((outside - outside.mean()) ** 2).sum()
    spread = math.sqrt(squares / free)
    if spread == 0:
        return 0.0
    wide = scipy.stats.t.isf(significance / 2, free) * math.sqrt(1 / len(inside) + 1 / len(outside))
    distance = (inside.mean() - outside.mean()) / spread - wide
    return max(
        0.0, float(distance * math.sqrt(scipy.stats.chi2.ppf(significance / 2, free) / free))
    )


def why_not_gaussian(inside: Scores, outside: Scores) -> str | None:
    """Why scores cannot come from one Gaussian noise in both worlds; None if they may.

    The Gaussian bounds would call sound Laplace noise refuted, so this must pass before.
    """
    least = LEAST_P[min(len(inside), len(outside)) >= MANY] / 4
    for name, scores in (("with", inside), ("without", outside)):
        if len(scores) < FEWEST:
            return f"fewer than {FEWEST} draws"
        part = scores[:MOST_TESTED]
        spread = part.std()
        if not np.isfinite(spread) or spread <= 1e-12 * (abs(part.mean()) + 1e-300):
            return f"scores {name} the canary do not vary"
        if scipy.stats.normaltest(part).pvalue < least:
            return f"scores {name} the canary are not normal (skewness, kurtosis)"
        # The fitted normal is nearer to the draws than the true one, so this test is lenient.
        if scipy.stats.kstest(part, "norm", args=(part.mean(), part.std())).pvalue < least:
            return f"scores {name} the canary are not normal (Kolmogorov-Smirnov)"
    a, b = inside[:MOST_TESTED], outside[:MOST_TESTED]
    if scipy.stats.ks_2samp(a - a.mean(), b - b.mean()).pvalue < least:
        return "the noise differs with and without the canary"
    return None
