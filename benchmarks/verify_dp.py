"""Which seeded and held-out faults `verify-dp` refutes, and whether it refutes sound mechanisms.

Writes docs/measured/verify-dp.csv: ε claimed, true where known, lower bound, draws and seconds.
`python benchmarks/verify_dp.py [runs of each sound mechanism]`
"""

import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import torch

from fedpriv.simulations.dp.accounting import Account
from fedpriv.simulations.dp.examine import examined
from fedpriv.simulations.dp.findings import Claim
from fedpriv.simulations.dp.on_paper import checked
from fedpriv.simulations.dp.releases import Mechanism, Release, Session
from fedpriv.simulations.dp.targets import target_of
from fedpriv.simulations.dp.worlds import OTHERS, World

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))  # where the faults are
from dp_held_out import HELD_OUT
from dp_seeded import FAULTS

OUT = Path(__file__).parents[1] / "docs" / "measured" / "verify-dp.csv"
DELTA = 1e-5
SIGMA = float(dp_accounting.get_sigma_gaussian(4.0, DELTA))
FLOWER = "flwr.serverapp.strategy:DifferentialPrivacy"
COLUMNS = (
    "kind",
    "name",
    "claimed",
    "true",
    "at least",
    "answer",
    "method",
    "draws",
    "seconds",
    "named",
)


class PlainOpacus:
    """One step of Opacus on per-sample gradients: full batch, so that its ε is the Gaussian's."""

    name, takes, fixed = "opacus", "updates", True

    def session(self) -> Session:
        from opacus.optimizers import DPOptimizer

        def release(world: World, _: int) -> Release:
            weight = torch.nn.Parameter(torch.zeros(4, 8))
            rows = np.stack([update["weight"] for update in world.updates])
            weight.grad_sample = torch.from_numpy(rows)  # type: ignore[attr-defined]
            optimiser = DPOptimizer(
                torch.optim.SGD([weight], lr=1.0),
                noise_multiplier=SIGMA,
                max_grad_norm=1.0,
                expected_batch_size=len(rows),
            )
            optimiser.step()
            return {"weight": weight.detach().numpy()}

        return release


def sound() -> Iterator[tuple[str, Mechanism, Claim, dict[str, Any]]]:
    """Mechanisms that hold their ε, which is exact for all but adaptive clipping."""
    fixed = {"noise-multiplier": SIGMA, "clipping-norm": 1.0}
    # Flower scales the noise to the norm after its update, which can be e^0.1 smaller, and the
    # count's noise to ±1/2: the ε of a 15 % smaller multiplier covers both.
    adaptive = {"noise-multiplier": SIGMA / 0.85, "initial-clipping-norm": 1.0}
    adaptive["clipped-count-stddev"] = 10.0
    claim = Claim(4.0, DELTA)
    sample = Claim(4.0, DELTA, "sample", "replace")
    twice = {"noise-multiplier": 2 * SIGMA}  # to replace a sample is twice the distance
    yield "Gaussian", target_of("gaussian", {"noise-multiplier": SIGMA}), claim, {}
    yield "Laplace", target_of("laplace", {"epsilon": 4.0}), claim, {}
    yield "Opacus, one step", PlainOpacus(), Claim(4.0, DELTA, "sample"), {}
    yield "dp, samples replaced", target_of("dp", twice, "sample"), sample, {}
    known = {"noise-multiplier": SIGMA, "samples": OTHERS}  # every batch has all samples
    yield "dp, one sample more", target_of("dp", known, "sample"), Claim(4.0, DELTA, "sample"), {}
    yield "user-dp-server", target_of("user-dp-server", fixed), claim, {}
    yield "Flower, fixed", target_of(f"{FLOWER}ServerSideFixedClipping", fixed), claim, {}
    yield "Flower, adaptive", target_of(f"{FLOWER}ServerSideAdaptiveClipping", adaptive), claim, {}


def rows(runs: int) -> Iterator[dict[str, Any]]:
    for fault in FAULTS:
        np.random.seed(2026)
        begun = time.perf_counter()
        if fault.target:
            mechanism = target_of(fault.target, {}, fault.unit)
            found = examined(mechanism, fault.claim, clip=1.0, draws=2000)
            yield row("fault", fault.name, found, "")
            continue
        verdict = checked(fault.claim, Account(**(fault.account or {})))
        yield {
            "kind": "fault on paper", "name": fault.name, "claimed": fault.epsilon,
            "true": f"{verdict.low:.3g}", "at least": f"{verdict.low:.3g}",
            "answer": verdict.answer, "method": "computed", "draws": 0,
            "seconds": f"{time.perf_counter() - begun:.1f}", "named": "; ".join(verdict.explained),
        }  # fmt: skip
    for fault in HELD_OUT:
        np.random.seed(2026)
        mechanism = target_of(fault.target, {}, fault.unit)
        found = examined(mechanism, fault.claim, clip=1.0, draws=20_000)
        yield row("held-out fault", fault.name, found, "")
    for epsilon in (1.0, 4.0, 10.0):
        np.random.seed(2026)
        noise = dp_accounting.get_sigma_gaussian(epsilon, DELTA)
        mechanism = target_of("gaussian", {"noise-multiplier": noise})
        found = examined(mechanism, Claim(epsilon, DELTA), clip=1.0, draws=500_000)
        yield row("tightness", "Gaussian", found, epsilon)
    for seed in range(runs):
        for name, mechanism, claim, more in sound():
            np.random.seed(seed)
            torch.manual_seed(seed)
            count = 20_000 if hasattr(mechanism, "many") else 200
            found = examined(mechanism, claim, clip=1.0, draws=count, **more)
            yield row("sound", name, found, claim.epsilon)


def row(kind: str, name: str, found: Any, true: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": name,
        "claimed": found.claim.epsilon,
        "true": true,
        "at least": f"{found.at_least:.3g}",
        "answer": found.answer,
        "method": found.best.method if found.best else "",
        "draws": found.draws,
        "seconds": f"{found.seconds:.1f}",
        "named": "; ".join(dict.fromkeys(f.cause for f in found.findings)),
    }


if __name__ == "__main__":
    with OUT.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for each in rows(int(sys.argv[1]) if len(sys.argv) > 1 else 8):
            writer.writerow(each)
            file.flush()
            print(*each.values(), sep=" | ", flush=True)
