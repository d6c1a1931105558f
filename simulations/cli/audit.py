"""`fedpriv audit`: whether a federation leaks, and which defence stops it."""

import json
import logging
import os
import shlex
import warnings
from pathlib import Path
from typing import Annotated

import typer

from fedpriv.simulations.cli.options import (
    AsJson,
    InsecureRay,
    Profile,
    RayAddress,
    Scenario,
    Settings,
)
from fedpriv.simulations.cli.terminal import err, out


def audit(
    scenario: Scenario = None,
    minutes: Annotated[float, typer.Option(help="The time the audit may take.")] = 10.0,
    work: Annotated[
        int | None, typer.Option(help="Units of work instead of minutes; repeats an audit.", min=1)
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            help="Exit with 1 when this is crossed. Repeatable. Default: the scenario's gate, "
            "else a bound for every kind of claim."
        ),
    ] = None,
    settings: Settings = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder. Default: runs/audit-NAME-TIME.")
    ] = None,
    profile: Profile = None,
    resume: Annotated[
        bool, typer.Option(help="Continue the audit in --out; what it has is kept.")
    ] = False,
    ray_address: RayAddress = None,
    insecure_ray: InsecureRay = False,
    workers: Annotated[
        int | None, typer.Option(help="Attacks at a time. Default: the cores here.", min=1)
    ] = None,
    pdf: Annotated[
        bool, typer.Option("--pdf", help="Write two pages to sign too: report.pdf in the folder.")
    ] = False,
    app: Annotated[
        str | None,
        typer.Option(
            help="A Flower app's folder, or @publisher/name of Flower's hub, instead of a "
            "scenario; nothing in it changes."
        ),
    ] = None,
    run_config: Annotated[
        list[str] | None,
        typer.Option(help="With --app: its settings, as for `flwr run`. Repeatable."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="With --app: NAME=OURS serves what the app asks of the hub from data that are "
            "here: a name of `fedpriv list data`, a file.csv or pkg.module:function. Repeatable."
        ),
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option(
            help="With --app: how many clients. Default: as many as the app names, else 30.", min=1
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find out whether a federation leaks, and which defence would stop it."""
    from fedpriv.errors import BadFolder, BadOption, GateCrossed, Undecided

    if app is not None:
        if ray_address:
            raise BadOption(
                "--app runs its clients one after another in one process, where they can be "
                "watched; leave --ray-address out."
            )
        if scenario or settings or profile or resume or fail_if or work:
            raise BadOption(
                "--app takes --run-config, --data, --clients, --minutes, --pdf and --out."
            )
        of_app(app, run_config or [], data or [], clients, minutes, folder, as_json, pdf)
        return
    if run_config or data or clients:
        raise BadOption("--run-config, --data and --clients are for --app; use --set.")
    from fedpriv.report.sheet import write_sheet
    from fedpriv.runfolder import RunFolder, new_folder
    from fedpriv.scenario import read
    from fedpriv.simulations.api import RunResult
    from fedpriv.simulations.audit import audit as audited
    from fedpriv.simulations.cli.ending import given, kept
    from fedpriv.simulations.dp.card import written_card
    from fedpriv.simulations.stopping import stoppable

    if resume and folder is None:
        raise BadFolder("--resume needs --out, the folder of the audit to continue.")
    # An audit ends attacks that have had their time; the report says which.
    logging.getLogger("fedpriv.attacks").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message="Optimal order is the largest alpha")  # Opacus
    chosen = read("quickstart" if scenario is None else scenario, settings or [], profile)
    place = RunFolder(folder) if folder else new_folder(f"audit-{chosen.name}")
    with stoppable() as progress:
        found = audited(
            chosen,
            place,
            minutes=minutes,
            work=work,
            fail_if=fail_if or [],
            ray_address=ray_address,
            insecure_ray=insecure_ray,
            workers=workers or os.cpu_count() or 1,
            resume=resume,
            named=shlex.join([scenario or "quickstart", *given(profile, settings)]),
            console=err,
            progress=progress,
        )
    if pdf:
        written_card(place)
        found["sheet"] = str(write_sheet(place.path))
    if as_json:
        typer.echo(json.dumps(found))
    else:
        verdict = RunResult(place.path).verdict
        first, *others = verdict.sentences
        for sentence in (f"{verdict.word}. {first}", *others):
            out.print(sentence, highlight=False, markup=False)
        if found["accuracy"] is not None:
            trained = found["rounds"]["trained"]
            out.print(f"accuracy: {found['accuracy']:.1%} after {trained} rounds", highlight=False)
        for line in (found["next"]["what"], f"  {found['next']['command']}"):
            out.print(line, highlight=False, markup=False, soft_wrap=True)
        for name in ("report", "sheet"):
            if name in found:
                out.print(f"{name}: {found[name]}", highlight=False, soft_wrap=True)
    named = [scenario or "quickstart", *given(profile, settings), "--resume", "--out"]
    again = shlex.join(["fedpriv", "audit", *named, str(place.path)])
    with kept(found["interrupted"], again):
        if found["outcome"] == "leaks":
            raise GateCrossed(f"the federation leaks. See {found['report']}.")
        if found["outcome"] == "undecided":
            raise Undecided(f"the audit is undecided. See {found['report']}.")


def of_app(
    app: str,
    run_config: list[str],
    data: list[str],
    clients: int | None,
    minutes: float,
    folder: Path | None,
    as_json: bool,
    pdf: bool,
) -> None:
    """The same for somebody's Flower app."""
    from fedpriv.errors import GateCrossed, Undecided
    from fedpriv.report.sheet import write_sheet
    from fedpriv.runfolder import new_folder
    from fedpriv.simulations.apps.fetching import fetched, hub_name
    from fedpriv.simulations.apps.launching import Job, launch
    from fedpriv.simulations.apps.source import read_source
    from fedpriv.simulations.apps.support import check_supported

    place, named = folder, hub_name(app)
    if named is not None:
        place = folder or new_folder(f"audit-{named}").path
        app = str(fetched(app, place / "app"))
    source = read_source(app, run_config)
    check_supported(source)  # in one sentence, before a process is started
    place = place or new_folder(f"audit-{source.name}").path
    job = Job(app, str(place.resolve()), minutes, clients, tuple(run_config), tuple(data))
    found = launch(job)
    if pdf:
        found["sheet"] = str(write_sheet(place))
    if as_json:
        typer.echo(json.dumps(found))
    else:
        out.print(found["sentence"], highlight=False)
        for kind in ("report", "sheet"):
            if kind in found:
                out.print(f"{kind}: {found[kind]}", highlight=False, soft_wrap=True)
    if found["outcome"] == "leaks":
        raise GateCrossed(f"the app leaks. See {found['report']}.")
    if found["outcome"] == "undecided":
        raise Undecided(f"the audit is undecided. See {found['report']}.")
