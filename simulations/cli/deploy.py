"""`fedpriv deploy`: a real federation from docker-compose.yml."""

import json
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from fedpriv.simulations.cli.guarded import guarded
from fedpriv.simulations.cli.options import AsJson, FailIf, Profile, Resume, Settings
from fedpriv.simulations.cli.terminal import err, out
from fedpriv.simulations.cli.values import within

if TYPE_CHECKING:
    from fedpriv.simulations.deploy.docker import Containers
    from fedpriv.simulations.deploy.processes import Processes

app = typer.Typer(
    help="Start, check and stop a real federation over gRPC; submit runs to it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

File = Annotated[Path, typer.Option("--file", help="The compose file.")]
Folder = Annotated[Path, typer.Option(help="Keys, client state and logs of local processes.")]
Engine = Annotated[
    Literal["auto", "docker", "local"],
    typer.Option(help="auto: Docker where an engine with compose answers, else local processes."),
]
FILE, FOLDER = Path("docker-compose.yml"), Path("runs/deployment")


def engine_of(name: str, file: Path, folder: Path) -> "Containers | Processes":
    from fedpriv.simulations.deploy.docker import Containers, engine_answers
    from fedpriv.simulations.deploy.processes import Processes

    if name == "docker" or (name == "auto" and engine_answers()):
        return Containers(file.resolve(), folder.resolve())
    return Processes(file.resolve(), folder.resolve())


@app.command()
@guarded
def up(
    file: File = FILE,
    folder: Folder = FOLDER,
    engine: Engine = "auto",
    patience: Annotated[float, typer.Option(help="Seconds to wait until all is ready.")] = 600.0,
    clients: Annotated[
        int | None, typer.Option(help="Another number of clients than the file has.")
    ] = None,
    shared: Annotated[
        bool,
        typer.Option(
            "--shared", help="For tests: all clients are forks of one process and share its memory."
        ),
    ] = False,
) -> None:
    """Start the SuperLink, the ServerApp executor and the clients."""
    within("--patience", patience, 1, 86400)

    def tell(line: str) -> None:
        err.print(line, highlight=False)

    engine_of(engine, file, folder).up(patience, tell, clients=clients, shared=shared)
    out.print("the federation is up; submit a run with: fedpriv deploy run", highlight=False)


@app.command()
@guarded
def status(
    file: File = FILE,
    folder: Folder = FOLDER,
    engine: Engine = "auto",
    as_json: AsJson = False,
) -> None:
    """Show services, clients, runs and until when certificates are valid."""
    from fedpriv.simulations.deploy.certificates import days_left, read_certificates

    chosen = engine_of(engine, file, folder)
    services = chosen.statuses()
    control = chosen.control()
    nodes = [{"node": node, "status": how} for node, how, _ in control.nodes()]
    runs = [{"run": run.run, "status": str(run), "details": run.details} for run in control.runs()]
    certificates = [
        {
            "certificate": name,
            "until": f"{one.not_valid_after_utc:%Y-%m-%d}",
            "days": days_left(one),
        }
        for name, path in chosen.certificates().items()
        for one in read_certificates(path)
    ]
    if as_json:
        shown_now = {"services": services, "clients": nodes, "runs": runs}
        typer.echo(json.dumps({**shown_now, "certificates": certificates}))
        return
    shown(["service", "status"], [list(row) for row in services.items()])
    shown(["client node", "status"], [[str(value) for value in n.values()] for n in nodes])
    shown(["run", "status", "details"], [[str(value) for value in r.values()] for r in runs])
    shown(
        ["certificate", "valid until", "days left"],
        [[str(c["certificate"]), str(c["until"]), f"{c['days']:.0f}"] for c in certificates],
    )


def shown(columns: list[str], rows: list[list[str]]) -> None:
    table = Table(*columns)
    for row in rows:
        table.add_row(*row)
    out.print(table)


@app.command()
@guarded
def run(
    scenario: Annotated[str, typer.Argument(help="A built-in name or a TOML file.")] = "quickstart",
    settings: Settings = None,
    target: Annotated[
        Path | None, typer.Option("--out", help="Run folder. Default: runs/NAME-TIME.")
    ] = None,
    profile: Profile = None,
    resume: Resume = False,
    detach: Annotated[bool, typer.Option(help="Submit and return at once.")] = False,
    fail_if: FailIf = None,
    file: File = FILE,
    folder: Folder = FOLDER,
    engine: Engine = "auto",
    as_json: AsJson = False,
) -> None:
    """Submit a scenario to the running federation; attack, judge and report what came of it."""
    from fedpriv.errors import BadFolder
    from fedpriv.metrics.gates import gates_of
    from fedpriv.runfolder import RunFolder, new_folder
    from fedpriv.scenario import read
    from fedpriv.simulations.checks import check
    from fedpriv.simulations.cli.ending import finish, given, print_leaks, told_on
    from fedpriv.simulations.cli.tables import finite
    from fedpriv.simulations.deploy.submission import carried_out, fitted, submitted
    from fedpriv.simulations.stopping import stoppable

    def tell(line: str) -> None:
        err.print(line, highlight=False, soft_wrap=True)

    if resume and target is None:
        raise BadFolder("--resume needs --out, the folder of the run to continue.")
    chosen = read(scenario, settings or [], profile)
    started = engine_of(engine, file, folder)
    chosen = fitted(started, chosen, tell)
    gates = gates_of(chosen.gate, fail_if or [])
    check(chosen, gates)
    place = RunFolder(target) if target else new_folder(chosen.name)
    number = submitted(started, chosen, place.path, resume=resume)
    tell(f"run {number} -> {place.path}")
    if detach:
        return
    with stoppable() as progress:
        results = carried_out(started, number, chosen, place, tell, told_on(err), gates, progress)
    if not results["report"]:
        tell(f"run {number} goes on without this command; `fedpriv deploy status` shows it")
    if as_json:
        typer.echo(json.dumps(finite(results)))
    else:
        print_leaks(chosen.name, results, out, err)
        out.print(f"run {number}: {results['status']}; run folder: {place.path}", soft_wrap=True)
        if results["report"]:
            out.print(f"report: {results['report']}", highlight=False, soft_wrap=True)
    named = [scenario, *given(profile, settings), "--resume", "--out", str(place.path)]
    again = shlex.join(["fedpriv", "deploy", "run", *named])
    finish(gates, [results], bool(results.get("partial")), again)


@app.command()
@guarded
def rotate(
    authority: Annotated[
        bool, typer.Option("--authority", help="Make the next authority; it signs from the next.")
    ] = False,
    client_keys: Annotated[
        bool, typer.Option("--client-keys", help="Also replace the clients' registered keys.")
    ] = False,
    file: File = FILE,
    folder: Folder = FOLDER,
    engine: Engine = "auto",
) -> None:
    """Replace certificates, their keys and the secrets between services; best between two runs."""
    from fedpriv.errors import BadOption
    from fedpriv.simulations.deploy.rotation import rotated

    if authority and client_keys:
        raise BadOption("--authority and --client-keys are two steps: rotate twice.")
    what: Literal["leaves", "clients", "authority"] = "clients" if client_keys else "leaves"
    chosen = engine_of(engine, file, folder)
    tell = partial(err.print, highlight=False, soft_wrap=True)
    rotated(chosen, "authority" if authority else what, tell)
    if authority:
        out.print(
            "two authorities are trusted now; give the new ca.crt to clients on other machines, "
            "then run: fedpriv deploy rotate",
            highlight=False,
            soft_wrap=True,
        )
    else:
        out.print("keys and certificates are new", highlight=False)


@app.command()
@guarded
def logs(
    service: Annotated[
        str,
        typer.Argument(help="One of the services: superlink, supernode-0, client-0, and so on."),
    ],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep on printing.")] = False,
    file: File = FILE,
    folder: Folder = FOLDER,
    engine: Engine = "auto",
) -> None:
    """Print what a service has written."""
    engine_of(engine, file, folder).logs(service, follow)


@app.command()
@guarded
def down(
    volumes: Annotated[
        bool, typer.Option("--volumes", help="Also delete keys, databases and client state.")
    ] = False,
    file: File = FILE,
    folder: Folder = FOLDER,
    engine: Engine = "auto",
) -> None:
    """Stop every service."""
    killed = engine_of(engine, file, folder).down(volumes)
    if killed:
        err.print(f"these processes had to be killed: {killed}", highlight=False)
    out.print("the federation is down", highlight=False)
