"""`fedpriv run`: a scenario end to end."""

import json
import math
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedpriv.simulations.cli.options import (
    AsJson,
    FailIf,
    InsecureRay,
    Profile,
    RayAddress,
    Resume,
    Scenario,
    Settings,
)
from fedpriv.simulations.cli.tables import finite
from fedpriv.simulations.cli.terminal import err, out

# The columns of summary.csv that a terminal has room for.
SHOWN = (
    *("run", "attack", "accuracy", "accuracy-clean", "own-accuracy"),
    *("psnr", "psnr-blind", "mse", "mse-blind", "attribute-hit", "attribute-hit-blind"),
)
MEANS = (
    "Means over the attacked samples; blind: a guess without looking. accuracy: learned from the "
    "codes as they are shared; clean: from codes without noise. summary.csv has all columns."
)
SPENT = "ε: spent from the first round to this one, as the clients say; δ is the plugin's"


def run(
    scenario: Scenario = None,
    settings: Settings = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Run folder. Default: runs/NAME-TIME.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="Run this one of the scenario's variants alone.")
    ] = None,
    profile: Profile = None,
    resume: Resume = False,
    ray_address: RayAddress = None,
    insecure_ray: InsecureRay = False,
    fail_if: FailIf = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario end to end."""
    from fedpriv.errors import BadFolder
    from fedpriv.runfolder import RunFolder, new_folder
    from fedpriv.scenario import read
    from fedpriv.simulations.cli.options import named_or
    from fedpriv.simulations.variants import only

    if resume and folder is None:
        raise BadFolder("--resume needs --out, the folder of the run to continue.")
    if resume and scenario is None and folder is not None:
        chosen = RunFolder(folder).scenario()
    else:
        chosen = read(named_or(scenario, "quickstart"), settings or [], profile)
    if variant is not None:
        chosen = only(chosen, variant)
    place = RunFolder(folder) if folder else new_folder(chosen.name)

    from fedpriv.metrics.gates import gates_of
    from fedpriv.simulations.cli.ending import finish, given, told_on
    from fedpriv.simulations.federation.progress import show_on
    from fedpriv.simulations.pipeline import run_all
    from fedpriv.simulations.stopping import stoppable

    gates = gates_of(chosen.gate, fail_if or [])
    # A folder of variants has no scenario of its own, so the command names it again.
    named = [scenario or "quickstart", *given(profile, settings)] if chosen.variants else []
    again = shlex.join(["fedpriv", "run", *named, "--resume", "--out", str(place.path)])
    with stoppable() as progress:
        results = run_all(
            chosen,
            place,
            lambda: show_on(err),
            resume=resume,
            ray_address=ray_address,
            insecure_ray=insecure_ray,
            gates=gates,
            tell=told_on(err),
            progress=progress,
            begins=lambda name: err.print(f"variant {name}", highlight=False, markup=False),
        )
    if as_json:
        typer.echo(json.dumps(finite(results)))
    else:
        print_results(chosen.name, results)
    finish(gates, results["rows"].values(), results["partial"], again)


def print_results(title: str, results: dict[str, Any]) -> None:
    from fedpriv.simulations.cli.ending import print_leaks

    if results["summary"]:
        out.print(summary_table(title, results["summary"]))
    else:
        for name, result in results["rows"].items():
            out.print(rounds_table(name or title, result["rounds"]))
    for name, result in results["rows"].items():
        print_leaks(name or title, result, out, err)
    if any(result.get("scores") or result.get("findings") for result in results["rows"].values()):
        print_verdict(Path(results["folder"]))
    out.print(f"run folder: {results['folder']}", highlight=False, soft_wrap=True)
    if results["report"]:
        out.print(f"report: {results['report']}", highlight=False, soft_wrap=True)


def print_verdict(folder: Path) -> None:
    """The sentences at the top of the page."""
    from fedpriv.report.page import verdict_in

    found = verdict_in(folder)
    for sentence in (f"{found.word}. {found.sentences[0]}", *found.sentences[1:]):
        out.print(sentence, highlight=False, markup=False)


def rounds_table(title: str, rounds: list[dict[str, Any]], most: int = 12) -> Table:
    """The rounds of a run, evenly thinned when there are many."""
    spent = any("train-epsilon" in record for record in rounds)
    table = Table(title=title, caption=SPENT if spent else None, caption_justify="left")
    columns = ["round", "accuracy", "loss", "clients", "failed", "KiB up", "seconds"]
    for column in (*columns, *(["ε so far"] if spent else [])):
        table.add_column(column, justify="right")
    step = max(1, -(-len(rounds) // most))
    shown = [r for i, r in enumerate(rounds) if (len(rounds) - 1 - i) % step == 0]
    for record in shown:
        table.add_row(
            str(record["round"]),
            f"{record['accuracy']:.1%}",
            f"{record['loss']:.3f}",
            f"{record['clients']}/{record['asked']}",
            str(len(record["failed"])),
            f"{record['bytes-up'] / 1024:.0f}",
            f"{record['seconds']:.2f}",
            *([f"{record.get('train-epsilon', math.nan):.2f}"] if spent else []),
        )
    return table


def summary_table(title: str, rows: list[dict[str, Any]]) -> Table:
    """What variants that share codes learned and what leaked, beside a blind guess."""
    found = {key for row in rows for key in row}
    columns = [name for name in SHOWN if name in found]
    table = Table(title=title, caption=MEANS, caption_justify="left")
    for name in columns:
        words = name in ("run", "attack")
        unit = " (dB)" if name.startswith("psnr") else ""
        table.add_column(
            name if words else name.replace("-", " ") + unit,
            justify="left" if words else "right",
            no_wrap=words,
        )
    for row in rows:
        table.add_row(*(shown(name, row.get(name, "")) for name in columns))
    return table


def shown(name: str, value: object) -> str:
    if isinstance(value, float) and ("accuracy" in name or "-hit" in name):
        return f"{value:.1%}"
    if isinstance(value, float) and name.startswith("psnr"):
        return f"{value:.1f}"
    if isinstance(value, float) and value < 1e4:
        return f"{value:.3g}"
    return f"{value:.0f}" if isinstance(value, float) else str(value)
