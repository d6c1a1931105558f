"""Writes oracle.json: scores, and the bounds that another implementation gives for them.

Not run by the tests. `pip install jax-privacy==2.0.0` into an environment of its own, then
`python tests/simulations/dp/oracle.py`.

Every bound is stored twice: as the other implementation gives it, and with its search for a root
made finer. As shipped that search stops within 1e-6, which is most of what the two differ by.
"""

import json
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import numpy as np

auditing = import_module("jax_privacy.auditing")  # of no extra: it would bring JAX to everybody
optimise = import_module("scipy.optimize")
shipped = optimise.brentq
LEVEL, DELTA = 1e-3, 1e-5
draw = np.random.default_rng(20)


def finer(*args, **options):
    return shipped(*args, **options | {"xtol": 1e-13})


def bounds(auditor, threshold):
    at = auditing.Explicit(threshold)
    found = {
        "clopper-pearson": auditor.epsilon_clopper_pearson(LEVEL, DELTA, threshold_strategy=at),
        "clopper-pearson-all": auditor.epsilon_clopper_pearson(LEVEL, DELTA),
        "one-run": auditor.epsilon_one_run(LEVEL, DELTA, threshold_strategy=at),
        "one-run-all": auditor.epsilon_one_run(LEVEL, DELTA),
        "one-run-fdp": auditor.epsilon_one_run_fdp(LEVEL, DELTA, threshold_strategy=at),
        "one-run-fdp-all": auditor.epsilon_one_run_fdp(LEVEL, DELTA),
        "gdp-all": auditor.epsilon_from_gdp(LEVEL, DELTA, eps_tol=1e-9),
    }
    return {name: float(value) for name, value in found.items()}


cases = []
for count, shift, kind in [
    (200, 0.5, "normal"),
    (200, 2.0, "normal"),
    (500, 1.0, "laplace"),
    (500, 4.0, "normal"),
    (300, 0.0, "normal"),
    (1000, 6.0, "laplace"),
    (100, 8.0, "normal"),
]:
    outside = getattr(draw, kind)(size=count).round(4)
    inside = (shift + getattr(draw, kind)(size=count)).round(4)
    auditor = auditing.CanaryScoreAuditor(inside, outside)
    threshold = float(np.quantile(outside, 0.9))
    case = {"inside": inside.tolist(), "outside": outside.tolist(), "threshold": threshold}
    case["shipped"] = bounds(auditor, threshold)
    optimise.brentq = finer
    case["finer"] = bounds(auditor, threshold)
    optimise.brentq = shipped
    cases.append(case)
facts = {"jax-privacy": version("jax-privacy"), "level": LEVEL, "delta": DELTA}
path = Path(__file__).with_name("oracle.json")
path.write_text(json.dumps(facts | {"cases": cases}) + "\n")
