"""Which seeded and held-out faults `verify-dp` refutes, and whether it refutes sound mechanisms.

Writes docs/measured/verify-dp.csv: ε claimed, true where known, lower bound, draws, and seconds of
computing on one core, which do not depend on what else the machine does.
`python benchmarks/verify_dp.py [runs of each sound mechanism]` goes on where it was stopped, as
long as the code is the same; the last column is the commit that was measured.
"""

import csv
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import torch

from fedpriv.simulations.dp.accounting import Account
from fedpriv.simulations.dp.examine import examined
from fedpriv.simulations.dp.findings import Claim, Examination
from fedpriv.simulations.dp.on_paper import checked
from fedpriv.simulations.dp.releases import Mechanism, Release, Session
from fedpriv.simulations.dp.targets import target_of
from fedpriv.simulations.dp.worlds import OTHERS, World

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))  # where the faults are
from dp_after import AFTER
from dp_enemy import ENEMY
from dp_fresh import FRESH
from dp_held_out import HELD_OUT
from dp_seeded import FAULTS, Fault
from dp_sly import SLY
from dp_sound import SOUND

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
    "without assumption",
    "named",
    "seed",
    "commit",
)
Row = dict[str, Any]
Work = tuple[str, str, int, Callable[[], Row]]  # kind, name, seed, and how to make the row


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


def sound() -> Iterator[tuple[str, Mechanism, Claim]]:
    """Mechanisms that hold their ε, which is exact for all but adaptive clipping."""
    fixed = {"noise-multiplier": SIGMA, "clipping-norm": 1.0}
    # Flower scales the noise to the norm after its update, which can be e^0.1 smaller, and the
    # count's noise to ±1/2: the ε of a 15 % smaller multiplier covers both.
    adaptive = {"noise-multiplier": SIGMA / 0.85, "initial-clipping-norm": 1.0}
    adaptive["clipped-count-stddev"] = 10.0
    claim = Claim(4.0, DELTA)
    sample = Claim(4.0, DELTA, "sample", "replace")
    twice = {"noise-multiplier": 2 * SIGMA}  # to replace a sample is twice the distance
    yield "Gaussian", target_of("gaussian", {"noise-multiplier": SIGMA}), claim
    yield "Laplace", target_of("laplace", {"epsilon": 4.0}), claim
    yield "Opacus, one step", PlainOpacus(), Claim(4.0, DELTA, "sample")
    yield "dp, samples replaced", target_of("dp", twice, "sample"), sample
    known = {"noise-multiplier": SIGMA, "samples": OTHERS}  # every batch has all samples
    yield "dp, one sample more", target_of("dp", known, "sample"), Claim(4.0, DELTA, "sample")
    yield "user-dp-server", target_of("user-dp-server", fixed), claim
    yield "Flower, fixed", target_of(f"{FLOWER}ServerSideFixedClipping", fixed), claim
    yield "Flower, adaptive", target_of(f"{FLOWER}ServerSideAdaptiveClipping", adaptive), claim
    for name, target in SOUND.items():
        yield name, target_of(target, {}), claim


def works(runs: int) -> Iterator[Work]:
    """All that is measured, in order."""
    for fault in FAULTS:
        yield "fault", fault.name, 2026, partial(refuted, fault, 2000)
    for epsilon in (1.0, 4.0, 10.0):
        noise = dp_accounting.get_sigma_gaussian(epsilon, DELTA)
        gaussian = target_of("gaussian", {"noise-multiplier": noise})
        make = partial(measured, gaussian, Claim(epsilon, DELTA), 500_000, epsilon)
        yield "tightness", f"Gaussian, ε = {epsilon:g}", 2026, make
    yield "shipped defaults", "LocalDpMod", 2026, shipped_defaults
    for seed in range(runs):
        for name, mechanism, claim in sound():
            quick = hasattr(mechanism, "many") or name in SOUND
            count = 20_000 if quick else 200
            yield "sound", name, seed, partial(measured, mechanism, claim, count, claim.epsilon)
    for kind, faults in (
        ("held out", HELD_OUT),
        ("fresh", FRESH),
        ("after", AFTER),
        ("enemy", ENEMY),
        ("sly", SLY),
    ):
        for fault in faults:
            yield f"{kind} fault", fault.name, 2026, partial(refuted, fault, 20_000)


def shipped_defaults() -> Row:
    """A mod with a clip norm of 1 and noise for a sensitivity of 0.0001, by time and not draws."""
    options = {"clipping_norm": 1.0, "sensitivity": 1e-4, "epsilon": 10.0, "delta": DELTA}
    mod = target_of("flwr.clientapp.mod:LocalDpMod", options)
    return row_of(examined(mod, Claim(10.0, DELTA), clip=1.0, seconds=5.0), "2.13e+08")


def refuted(fault: Fault, draws: int) -> Row:
    if fault.target:
        true = "" if fault.true is None else f"{fault.true:.3g}"
        return measured(target_of(fault.target, {}, fault.unit), fault.claim, draws, true)
    verdict = checked(fault.claim, Account(**(fault.account or {})))
    return {
        "claimed": fault.epsilon,
        "true": f"{verdict.low:.3g}",
        "at least": f"{verdict.low:.3g}",
        "answer": verdict.answer,
        "method": "computed",
        "draws": 0,
        "without assumption": f"{verdict.low:.3g}",
        "named": "; ".join(verdict.explained),
    }


def measured(mechanism: Mechanism, claim: Claim, draws: int, true: Any) -> Row:
    return row_of(examined(mechanism, claim, clip=1.0, draws=draws), true)


def row_of(found: Examination, true: Any) -> Row:
    return {
        "claimed": found.claim.epsilon,
        "true": true,
        "at least": f"{found.at_least:.3g}",
        "answer": found.answer,
        "method": found.best.method if found.best else "",
        "draws": found.draws,
        "without assumption": f"{found.without_assumption:.3g}",
        "named": "; ".join(dict.fromkeys(f.cause for f in found.findings)),
    }


def commit() -> str:
    """The commit of the code; it must have no changes but for what is measured here."""
    root = OUT.parents[2]
    own = f":(exclude){OUT.relative_to(root)}"
    changed = ["git", "-C", str(root), "status", "--porcelain", "--", ".", own]
    if subprocess.run(changed, check=True, capture_output=True).stdout:
        sys.exit("Commit your changes first: a row names the commit that it was measured on.")
    asked = ["git", "-C", str(root), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def main(runs: int) -> None:
    now = commit()
    done: list[Row] = []
    if OUT.exists():
        with OUT.open(newline="", encoding="utf-8") as file:
            done = [row for row in csv.DictReader(file) if row.get("commit") == now]
    known = {(row["kind"], row["name"], row["seed"]) for row in done}
    with OUT.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(done)
        for kind, name, seed, make in works(runs):
            if (kind, name, str(seed)) in known:
                continue
            random.seed(seed)
            np.random.seed(seed)
            torch.manual_seed(seed)
            begun = time.process_time()
            row = {"kind": kind, "name": name, **make(), "seed": seed, "commit": now}
            row["seconds"] = f"{time.process_time() - begun:.1f}"
            writer.writerow(row)
            file.flush()
            print(*row.values(), sep=" | ", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
