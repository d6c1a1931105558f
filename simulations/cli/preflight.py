"""`fedpriv preflight`: whether an attack can work, and if not, why."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedpriv.simulations.cli.terminal import out


def preflight(
    observations: Annotated[
        Path, typer.Argument(help="A run folder, or a folder that record_to wrote.")
    ],
    model: Annotated[
        str | None, typer.Option(help="The model that clients train: pkg.module:Net.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A fact the recording lacks: lr=0.1. Repeatable."),
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="The folder of samples that clients kept.")
    ] = None,
    control: Annotated[
        bool,
        typer.Option(help="Attack a planted client with the same facts, and say what comes back."),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option("--attack", help="The attack of the control. Default: by the facts."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say whether an attack can work here, and if not, which condition fails."""
    from fedpriv.device import moved
    from fedpriv.simulations.judging.findings import examined, findings_of
    from fedpriv.simulations.judging.planting import controlled
    from fedpriv.simulations.judging.recordings import opened, truths_in
    from fedpriv.simulations.stopping import stoppable

    recording, place = opened(observations, model, settings or [])
    kept = truths_in(truth) if truth else place.truth_of
    results = examined(recording.updates, kept, recording.device)
    found = None
    if control:
        first = moved(recording.updates[0], recording.device)
        chosen = name or ("fedavg-replay" if first.local_steps > 1 else "quick")
        with stoppable() as progress:
            found = controlled(first, chosen, progress)
    if as_json:
        verdicts = {result.name: result.verdict for result in results}
        about = {"verdicts": verdicts, "findings": findings_of(results)}
        if found is not None:
            about["control"] = found.plain()
        typer.echo(json.dumps(about))
        return
    for verdict in dict.fromkeys(result.verdict for result in results):
        names = [result.name for result in results if result.verdict == verdict]
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        out.print(f"{verdict}: {shown}", highlight=False)
    table = Table("severity", "cause", "updates", "detail")
    for entry in findings_of(results):
        count = str(len(entry["evidence"]))
        table.add_row(entry["severity"], entry["cause"], count, entry["detail"])
    if table.row_count:
        out.print(table)
    if found is not None:
        out.print(found.sentence, highlight=False)
