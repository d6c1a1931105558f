"""The ε that a client reports, against one worked out here from the definitions alone.

A step releases N(0, σ²) without the sample, and with it (1 − q)·N(0, σ²) + q·N(1, σ²). Nothing of
Opacus is called, only numpy.
"""

import numpy as np
import pytest
from messages import context_of
from worlds import UPDATES

from fedpriv.clients.catalogue import plugin_of
from fedpriv.clients.job import make_job
from fedpriv.scenario import from_tables, merged
from fedpriv.scenario.built import first_state

SETTINGS = [  # noise multiplier, batch size, samples, steps
    (1.0, 8, 128, 48),
    (0.7, 16, 500, 200),
    (1.1, 64, 512, 80),
    (2.0, 32, 128, 60),
    (1.5, 4, 400, 1000),
]
DELTA = 1e-5


def reported(sigma, batch, samples, steps, accountant):
    """The figure that goes into rounds.jsonl, of a client that was asked once."""
    dp = {"name": "dp", "noise-multiplier": sigma, "samples": samples, "accountant": accountant}
    training = {"batch-size": batch, "local-steps": steps}
    scenario = from_tables(merged(UPDATES, {"plugins": [dp], "training": training}))
    job = make_job(scenario, first_state(scenario), 1, context_of(scenario))
    return plugin_of(scenario.plugins).on_setup(job).report["epsilon"]


def by_renyi(sigma, q, steps):
    """The least ε over orders α of steps · D_α + log((α−1)/α) − log(δα)/(α−1).

    D_α = log E[(p/r)^α] / (α − 1) is integrated on a grid (Mironov et al. 2019, Balle et al. 2020).
    """
    x = np.linspace(-40 * sigma, 40 * sigma + 80, 40_001)
    log_r = -(x**2) / (2 * sigma**2) - np.log(sigma * np.sqrt(2 * np.pi))
    log_ratio = np.logaddexp(np.log1p(-q), np.log(q) + (2 * x - 1) / (2 * sigma**2))
    found = []
    for order in [*np.arange(1.1, 11, 0.1), *range(12, 64)]:
        log_terms = order * log_ratio + log_r
        top = log_terms.max()
        moment = top + np.log(np.exp(log_terms - top).sum() * (x[1] - x[0]))
        epsilon = steps * moment / (order - 1)
        epsilon += np.log((order - 1) / order) - np.log(DELTA * order) / (order - 1)
        found.append(epsilon)
    return min(found)


def by_convolution(sigma, q, steps):
    """The larger ε of adding and of removing a sample.

    The distribution of the privacy loss of one step, put on a grid, is convolved with itself by
    FFT; then δ(ε) = E[1 − exp(ε − loss)]₊ (Sommer et al. 2019).
    """
    step, size = 5e-4, 2**19
    x = np.linspace(-14 * sigma - 1, 14 * sigma + 2, 400_001)
    width = x[1] - x[0]
    without = np.exp(-(x**2) / (2 * sigma**2)) / (sigma * np.sqrt(2 * np.pi)) * width
    ratio = 1 - q + q * np.exp((2 * x - 1) / (2 * sigma**2))
    found = []
    for mass, loss in ((without * ratio, np.log(ratio)), (without, -np.log(ratio))):
        # Between two points of the grid the mass is split so that the mean loss stays.
        place = loss / step
        low = np.floor(place).astype(int)
        part = place - low
        grid = np.bincount(low % size, mass * (1 - part), size)
        grid += np.bincount((low + 1) % size, mass * part, size)
        total = np.fft.irfft(np.fft.rfft(grid) ** steps, size)
        losses = ((np.arange(size) + size // 2) % size - size // 2) * step

        def delta_at(epsilon, total=total, losses=losses):
            above = losses > epsilon
            return float((total[above] * -np.expm1(epsilon - losses[above])).sum())

        low_end, high_end = 0.0, 60.0
        for _ in range(60):
            middle = (low_end + high_end) / 2
            low_end, high_end = (
                (middle, high_end) if delta_at(middle) > DELTA else (low_end, middle)
            )
        found.append(high_end)
    return max(found)


@pytest.mark.parametrize(("sigma", "batch", "samples", "steps"), SETTINGS)
def test_rdp(sigma, batch, samples, steps):
    own = by_renyi(sigma, batch / samples, steps)
    assert reported(sigma, batch, samples, steps, "rdp") == pytest.approx(own, rel=0.01)


@pytest.mark.parametrize(("sigma", "batch", "samples", "steps"), SETTINGS)
def test_prv(sigma, batch, samples, steps):
    own = by_convolution(sigma, batch / samples, steps)
    assert reported(sigma, batch, samples, steps, "prv") == pytest.approx(own, rel=0.01)
