"""Audits side by side with single attacks: is the audit's best attack as strong as any other?

    python -P benchmarks/audits.py [NAMES …] [--out FOLDER] [--write docs/measured/audits.csv]

Each of six undefended federations is audited with the units below. Then every attack of the
catalogue that fits attacks the first victims of the audit again, alone, with three times the time
that the audit's best attack took for them. Federations, seeds, units and the number of victims were
chosen before the first result was seen. Seconds are CPU time. A federation that FOLDER has is not
audited again.

    python -P benchmarks/audits.py --calibration 200

simulates so many audits of federations in which a known share of the samples leaks, and counts how
often "at most p %" was wrong, and how often a federation that leaks more than a tenth held. Half of
them ask a server that is told more, whose hits are a bound and no leak.
"""

import argparse
import csv
import json
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.errors import FedprivError
from fedpriv.evidence.claims import Reconstruction, claims_in
from fedpriv.evidence.victims import slots_of
from fedpriv.metrics.images import psnr
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario, from_tables, merged
from fedpriv.scenario.binding import parameters
from fedpriv.simulations.audit import audit
from fedpriv.simulations.audit.battery import Method, built, fitting, racers
from fedpriv.simulations.judging.conditions import row_of as attack_row
from fedpriv.simulations.judging.indirect import indirect
from fedpriv.simulations.judging.outcome import outcomes, overall
from fedpriv.simulations.judging.recordings import of_run
from fedpriv.tables import rows_in

VICTIMS, SAMPLES = 4, 8  # clients whose updates single attacks see, or so many samples; 2 at least
TIMES = 3  # as much time as the audit's best attack had
LOUD = {"name": "loud", "plugins": [{"name": "noise", "scale": 10.0}]}  # the only defence tried
BASE = {
    "seed": 31,
    "federation": {"clients": 3, "rounds": 1, "backend": "inline"},
    "training": {"lr": 0.1, "local-steps": 1},
    "defences": [LOUD],
}
FEDERATIONS: Mapping[str, tuple[int, dict[str, Any]]] = {  # units, and what differs
    "dlnet-1": (60_000, {"data": {"name": "cifar100"}, "model": {"name": "dlnet"},
                          "training": {"batch-size": 1}}),
    "dlnet-4": (100_000, {"data": {"name": "cifar10"}, "model": {"name": "dlnet"},
                          "training": {"batch-size": 4}}),
    "lenet-4": (240_000, {"data": {"name": "mnist-5k"}, "model": {"name": "lenet"},
                          "training": {"batch-size": 4}}),
    "mlp-8": (480_000, {"data": {"name": "mnist-5k"}, "model": {"name": "mlp"},
                        "training": {"batch-size": 8}}),
    "lenet-2-steps-3": (240_000, {"data": {"name": "mnist-5k"}, "model": {"name": "lenet"},
                                  "training": {"batch-size": 2, "local-steps": 3}}),
    "resnet20-1": (8_000, {"data": {"name": "fashion-mnist"}, "model": {"name": "resnet20"},
                            "training": {"batch-size": 1}}),
}  # fmt: skip
CELL = "round-1-batch-own"


def scenario_of(name: str) -> Scenario:
    return from_tables(merged(BASE, {"name": name, **FEDERATIONS[name][1]}))


@dataclass(frozen=True)
class Best:
    """An attack, the mean PSNR over samples, how many samples, and the CPU seconds per client."""

    attack: str
    psnr: float
    samples: int
    seconds: float


def audited(name: str, place: Path) -> tuple[dict[str, Any], float]:
    """The verdict of the audit, and the CPU seconds that it took."""
    kept = place / "cpu-seconds.json"
    if not kept.exists():
        started = time.process_time()
        console, again = Console(stderr=True), RunFolder(place).rounds_file.exists()
        units = FEDERATIONS[name][0]
        audit(scenario_of(name), RunFolder(place), work=units, resume=again, console=console)
        kept.write_text(json.dumps(time.process_time() - started))
    return RunFolder(place).verdict(), float(json.loads(kept.read_text()))


def victims_in(folder: RunFolder) -> list[Any]:
    """The updates that single attacks see: the first that are not planted."""
    updates = of_run(folder).updates
    most = max(2, min(VICTIMS, SAMPLES // slots_of(updates[0])))
    scores = rows_in(RunFolder(folder.path.parents[1]).scores())
    counted = {str(row["node"]) for row in scores if row.get("folder") == f"cells/{CELL}"}
    return [seen for seen in updates if str(seen.node) in counted][:most]


def best_of(place: Path, nodes: set[str]) -> Best:
    """The audit's best attack by its mean PSNR over the samples of these clients."""
    by_attack: dict[str, list[Any]] = {}
    for row in rows_in(RunFolder(place).scores()):
        if row.get("folder") == f"cells/{CELL}" and str(row["node"]) in nodes:
            value = row.get("psnr")
            if value not in (None, "") and float(value) == float(value):
                by_attack.setdefault(str(row["attack"]), []).append(row)
    most = max(map(len, by_attack.values()))
    means = {
        attack: sum(float(row["psnr"]) for row in rows) / len(rows)
        for attack, rows in by_attack.items()
        if len(rows) == most
    }
    name = max(means, key=lambda attack: means[attack])
    took = {str(row["node"]): float(row["seconds"]) for row in by_attack[name]}
    return Best(name, means[name], most, sum(took.values()) / len(took))


def singles(scenario: Scenario, folder: RunFolder, seconds: float) -> Iterator[Best]:
    """Every attack that fits, alone, with so many seconds of CPU for each client."""
    seen = victims_in(folder)
    truths = {one.name: folder.truth_of(one.name) for one in seen}
    direct = [Method(name) for name in fitting(scenario)]
    for method in {one.label: one for one in (*direct, *racers(scenario))}.values():
        if attack_row(method.name).claims != "sample":
            continue
        found = timed(method, scenario, seen, truths, seconds * len(seen))
        if found is not None:
            yield found


def timed(
    method: Method, scenario: Scenario, seen: list[Any], truths: dict[str, Any], limit: float
) -> Best | None:
    """One attack until it ends or its time is over; one that ends early has more steps."""
    result = ran(method, scenario, seen, truths, limit)
    takes = parameters(ATTACKS[method.name].build)
    if result is None or "steps" not in takes or result.seconds * len(seen) > limit / 1.5:
        return result
    steps = int(takes["steps"].default * min(5.0, limit / (result.seconds * len(seen))))
    longer = Method(method.name, {**method.options, "steps": steps}, method.said)
    again = ran(longer, scenario, seen, truths, limit)
    return result if again is None or result.psnr > again.psnr else again


def ran(
    method: Method, scenario: Scenario, seen: list[Any], truths: dict[str, Any], limit: float
) -> Best | None:
    started = time.process_time()
    try:
        made = built(method, scenario)(
            seen, lambda part, loss: time.process_time() - started < limit
        )
    except FedprivError:
        return None
    took = time.process_time() - started
    values: list[float] = []
    for claim in claims_in(made):
        assert isinstance(claim, Reconstruction)
        truth = truths[claim.names[0]]
        g, t = claim.pairs(truth)
        real = claim.as_pixels(truth.x[None])[0]
        values += psnr(claim.pixels[0][g], real[t]).tolist()
    return Best(method.label, sum(values) / len(values), len(values), took / len(seen))


def row_of(name: str, out: Path) -> dict[str, Any]:
    """A line of the table."""
    place = out / name
    verdict, took = audited(name, place)
    folder = RunFolder(place / "cells" / CELL)
    nodes = {str(seen.node) for seen in victims_in(folder)}
    best = best_of(place, nodes)
    print(f"{name}: audit {verdict['outcome']}, {best}", flush=True)
    found = []
    for one in singles(folder.scenario(), folder, TIMES * best.seconds):
        print(f"  {one}", flush=True)
        found.append(one)
    single = max(found, key=lambda one: one.psnr)
    (question,) = [one for one in verdict["questions"] if one["metric"] == "psnr"]
    return {
        "federation": name,
        "verdict": verdict["outcome"],
        "hits": f"{question['hits']} of {question['victims']}",
        "interval": f"{question['low']:.0%} to {question['high']:.0%}",
        "units": FEDERATIONS[name][0],
        "audit (CPU s)": round(took),
        "best attack of the audit": best.attack,
        "its mean PSNR (dB)": round(best.psnr, 2),
        "samples": best.samples,
        "its time (s per client)": round(best.seconds, 2),
        "best single attack": single.attack,
        "mean PSNR of it (dB)": round(single.psnr, 2),
        "time of it (CPU s per client)": round(single.seconds, 2),
        "audit minus single (dB)": round(best.psnr - single.psnr, 2),
    }


def written(rows: list[dict[str, Any]], path: Path) -> None:
    """The table, with rows of other federations kept."""
    names = [row["federation"] for row in rows]
    if path.exists():
        with path.open(encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["federation"] not in names] + rows
    order = list(FEDERATIONS)
    rows.sort(key=lambda row: order.index(row["federation"]))
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


@dataclass(frozen=True)
class Simulated:
    """How often audits of federations with a known leak were wrong."""

    audits: int
    too_low: int  # "at most p %" was below the true share
    held: int  # a federation that leaks more than a tenth held
    above: int  # of so many that leak more than a tenth


def simulated(audits: int, seed: int, by_client: bool = False, more: bool = False) -> Simulated:
    """Audits of federations in which every sample leaks with a known chance, by scores alone.

    Three attacks see 29 to 40 clients with 1, 2 or 4 samples each; who leaks, leaks to one of them.
    The share that leaks is drawn between 0 and 30 %. With `by_client` all samples of a client leak
    or none. With `more` the scores are those of a server that is told more, with 16 samples each,
    and the share is that of its hits: drawn between 0 and 20 %, since few hits are allowed there.
    """
    draw = random.Random(seed)
    wrong = held = above = 0
    for _ in range(audits):
        share = draw.uniform(0, 0.2 if more else 0.3)
        each = 16 if more else draw.choice((1, 2, 4))
        rows = []
        for client in range(draw.randint(29, 40)):
            together = draw.random() < share
            for sample in range(each):
                leaks = together if by_client else draw.random() < share
                winner = draw.randrange(3)
                for attack in range(3):
                    value = 30.0 if leaks and attack == winner else draw.uniform(8, 14)
                    rows.append(
                        {"node": client, "victim": sample, "attack": str(attack), "round": 1,
                         "by": "curious server", "psnr": value, "psnr-blind": 7.0}
                    )  # fmt: skip
        (one,) = outcomes((), rows)
        one = indirect(one, [rows]) if more else one
        wrong += one.at_most < share
        above += share > one.limit
        held += share > one.limit and overall([one]) == "holds"
    return Simulated(audits, wrong, held, above)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(FEDERATIONS)}; default: all")
    parser.add_argument("--out", type=Path, default=Path("runs/audits"))
    parser.add_argument("--write", type=Path)
    parser.add_argument("--calibration", type=int, default=0)
    given = parser.parse_args()
    if given.calibration:
        for more in (False, True):
            for by_client in (False, True):
                found = simulated(given.calibration, seed=1, by_client=by_client, more=more)
                whom = "a server that is told more" if more else "the server"
                how = "with their client" if by_client else "alone"
                print(f"{whom}, samples leak {how}: {found}")
        return
    for name in given.names or FEDERATIONS:
        row = row_of(name, given.out)
        print(row, flush=True)
        if given.write:
            written([row], given.write)


if __name__ == "__main__":
    main()
