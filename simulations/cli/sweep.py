"""`fedpriv sweep`: a grid of defences and attacks."""

import json
import os
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fedpriv.errors import FedprivError
from fedpriv.simulations.cli.options import AsJson, InsecureRay, Profile, RayAddress
from fedpriv.simulations.cli.tables import finite
from fedpriv.simulations.cli.terminal import err, out

if TYPE_CHECKING:
    from fedpriv.scenario import Scenario


def sweep(
    scenario: Annotated[str, typer.Argument(help="A built-in name or a TOML file with [sweep].")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Override: sweep.victims=4. Repeatable.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Sweep folder. Default: runs/NAME-TIME.")
    ] = None,
    profile: Profile = None,
    resume: Annotated[bool, typer.Option(help="Do only the cells --out lacks.")] = False,
    ray_address: RayAddress = None,
    insecure_ray: InsecureRay = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Cells at a time; 1 works without Ray. Default: the cores, or 1 where Ray's start "
            "would take longer than it saves.",
            min=1,
        ),
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            help="Exit with 1 if no defended setting keeps all victims within: 'psnr>20'."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train and attack a grid of defences; ends in PPC curves and a CAP table."""
    from fedpriv.errors import BadFolder, WorkFailed
    from fedpriv.metrics.gates import gates_of
    from fedpriv.runfolder import new_folder
    from fedpriv.scenario import read
    from fedpriv.simulations.cli.ending import given, kept
    from fedpriv.simulations.judging.askable import of_model
    from fedpriv.simulations.stopping import stoppable
    from fedpriv.simulations.sweep.ending import check_defended
    from fedpriv.simulations.sweep.sweep import sweep as swept
    from fedpriv.simulations.sweep.tables import notes
    from fedpriv.sweepfolder import SweepFolder

    if resume and folder is None:
        raise BadFolder("--resume needs --out, the folder of the sweep to continue.")
    chosen = read(scenario, settings or [], profile)
    place = folder or new_folder(chosen.name).path
    gates = gates_of(chosen.gate, fail_if or [])
    minutes = minutes_of(chosen)
    long = (
        "less than a minute" if minutes is None or minutes < 1 else f"about {minutes:.0f} minutes"
    )
    expected = "" if minutes is None else f"; all of it: {long} of one worker"
    if workers is None and ray_address is None and not ray_pays(minutes):
        workers = 1
    began: list[tuple[float, int]] = []  # when the first cell was begun, and what was there

    def tell(done: int, total: int, name: str) -> None:
        if not began:
            began.append((time.monotonic(), done))
            there = f"{done} of {total} cells are {name}" if done else f"{total} cells to do"
            err.print(f"{there}{expected}", highlight=False)
            return
        since, before = began[0]
        left = (time.monotonic() - since) / max(1, done - before) * (total - done)
        err.print(f"{done}/{total} cells  {left:.0f} s left  {name}", highlight=False)

    with stoppable() as progress:
        results = swept(
            chosen,
            SweepFolder(place),
            resume=resume,
            ray_address=ray_address,
            insecure_ray=insecure_ray,
            workers=workers,
            gates=gates,
            tell=tell,
            progress=progress,
        )
    partial = results["partial"]
    failed = [row for row in results["rows"] if row.get("error")]
    if as_json:
        typer.echo(json.dumps(finite(results)))
    else:
        out.print(cap_table(chosen.name, results["cap"]))
        for note in notes(results["cap"]):
            out.print(note, highlight=False, markup=False)
        out.print(f"sweep folder: {place}", highlight=False, soft_wrap=True)
        out.print(f"report: {results['report']}", highlight=False, soft_wrap=True)
    best = max((row["accuracy"] for row in results["rows"] if "accuracy" in row), default=None)
    for finding in [] if best is None else of_model(chosen, best):
        if finding["severity"] == "warning":
            said = f"warning: {finding['cause']}: no setting learned more. {finding['detail']}"
            err.print(said, highlight=False, markup=False)
    for line in () if partial else failures(failed):
        err.print(line, highlight=False, markup=False)
    if failed and len(failed) == len(results["rows"]) and not partial:
        raise WorkFailed(f"Every cell failed, the first one with: {failed[0]['error']}")
    named = [scenario, *given(profile, settings)]
    again = shlex.join(["fedpriv", "sweep", *named, "--resume", "--out", str(place)])
    with kept(partial, again):
        check_defended(gates, results["scores"], results["rows"])


def failures(rows: list[dict[str, Any]]) -> list[str]:
    """Why cells have no result: a line for each attack and reason, however many cells it is."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        name = row["defence"] if row["value"] is None else f"{row['defence']} {row['value']}"
        why = str(row["error"]).removeprefix(f"{FedprivError.__name__}: ")
        found.setdefault((row["attack"], why), []).append(name)
    return [
        f"{attack} failed for {', '.join(dict.fromkeys(names))}: {why}"
        for (attack, why), names in found.items()
    ]


def minutes_of(scenario: "Scenario") -> float | None:
    """What a sweep takes on one worker; None where only a run can tell."""
    from fedpriv.simulations.forecast import forecast

    expected = forecast(scenario)
    if expected.training_minutes is None or expected.attack_minutes is None:
        return None
    return expected.training_minutes + expected.attack_minutes


def ray_pays(minutes: float | None) -> bool:
    """Whether several workers save more than Ray's start takes; says why not."""
    from fedpriv.simulations.federation.ray_start import start_seconds

    cores = os.cpu_count() or 1
    if minutes is None:
        return cores > 1
    seconds = 60 * minutes
    start, known = start_seconds()
    if seconds * (1 - 1 / cores) > start:
        return True
    err.print(
        f"one worker: about {seconds:.0f} s of work would not pay for Ray's start (about "
        f"{start:.0f} s, {known})",
        highlight=False,
    )
    return False


def cap_table(title: str, rows: list[dict[str, Any]]) -> Table:
    """CAP of every defence against every attack (SPN table 1); higher is better."""
    from fedpriv.metrics.distances import distances
    from fedpriv.simulations.sweep.tables import spelled

    seeds = max((row["seeds"] for row in rows), default=1)
    over = f"; ± over {seeds} seeds" if seeds > 1 else ""
    table = Table(title=f"{title}: CAP, higher is better{over}")
    columns = ("defence", "attack", "knows", "batch", "accuracy")
    for column in columns:
        table.add_column(column)
    for distance in distances():
        table.add_column(distance.said, justify="right")
    for row in rows:
        table.add_row(
            row["defence"],
            row["attack"],
            row["knows"],
            str(row["batch"]),
            f"{row['accuracy']:.1%}",
            *(spelled(row, f"cap-{distance.kind}") for distance in distances()),
        )
    return table
