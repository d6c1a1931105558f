"""`fedpriv attack`: attack recorded evidence of any Flower app."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fedpriv.simulations.cli.options import (
    AsJson,
    Device,
    FailIf,
    GpusPerWorker,
    InsecureRay,
    RayAddress,
    Workers,
)
from fedpriv.simulations.cli.tables import finite
from fedpriv.simulations.cli.terminal import err, out
from fedpriv.simulations.cli.values import within


def attack(
    observations: Annotated[
        Path, typer.Argument(help="A run folder, or a folder that record_to wrote.")
    ],
    names: Annotated[
        list[str] | None, typer.Option("--attack", help="Which attack. Repeatable.")
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--option", help="An option of the attacks: steps=100. Repeatable."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model that clients train: pkg.module:Net.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A fact the recording lacks: lr=0.1. Repeatable."),
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Option(help="The folder of samples that clients kept. Without it, no scores."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Where claims go. Default: beside the observations."),
    ] = None,
    victims: Annotated[
        int | None,
        typer.Option(help="At most so many updates, over all rounds together. Default: all."),
    ] = None,
    device: Device = None,
    workers: Workers = 1,
    ray_address: RayAddress = None,
    insecure_ray: InsecureRay = False,
    gpus_per_worker: GpusPerWorker = 0.0,
    fail_if: FailIf = None,
    as_json: AsJson = False,
) -> None:
    """Attack recorded observations of any Flower app.

    With --workers or --ray-address attacks run on Ray, each worker on the device that Ray gave it.
    """
    within("--gpus-per-worker", gpus_per_worker, 0, 64)
    from fedpriv.errors import WorkFailed
    from fedpriv.metrics.gates import gates_of
    from fedpriv.runfolder import RunFolder
    from fedpriv.simulations.cli.ending import finish, print_leaks, told_on
    from fedpriv.simulations.judging.judge import scored_claims
    from fedpriv.simulations.judging.on_ray import spread_over
    from fedpriv.simulations.judging.recordings import attacks_named, opened, truths_in
    from fedpriv.simulations.stopping import stoppable

    gates = gates_of({}, fail_if or [])
    recording, place = opened(observations, model, settings or [], device)
    kept = truths_in(truth) if truth else place.truth_of  # the run's own, wherever claims go
    chosen = attacks_named(names or ["dlg"], options or [], victims)
    place = RunFolder(folder) if folder else place
    with (
        stoppable() as progress,
        spread_over(ray_address, workers, gpus_per_worker, insecure_ray) as spread,
    ):
        found = scored_claims(
            recording,
            chosen,
            place,
            truth_of=kept,
            metrics=[gate.metric for gate in gates],
            spread=spread,
            tell=told_on(err),
            progress=progress,
        )
    if as_json:
        typer.echo(json.dumps(finite({"folder": str(place.path), **found.plain()})))
    else:
        print_leaks("attacked", found.plain(), out, err)
        out.print(f"claims: {place.attacks}", highlight=False, soft_wrap=True)
    if found.failures and not found.rows and len(found.failures) >= len(chosen):
        raise WorkFailed(f"No attack succeeded: {found.failures[0].why}")
    finish(gates, [found.plain()], found.partial)
