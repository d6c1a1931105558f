"""The live view: a read-only page that follows a run folder while it grows.

Every request is answered from file names that the folder itself was found to hold; a name that is
not among them is 404, so no path outside the folder can be asked for. Truth, checkpoints and the
clients' private state are never served.
"""

import json
import socket
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse

from fedpriv.errors import BadFolder, BadOption
from fedpriv.metrics.images import CEILING
from fedpriv.report.leakage import deciding
from fedpriv.report.reading import gates_in
from fedpriv.report.verdict import worst_measure
from fedpriv.runfolder import RunFolder
from fedpriv.sweepfolder import SweepFolder

PICTURES = 60
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self' data:; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def watch_app(path: Path, hosts: frozenset[str] = LOCAL) -> FastAPI:
    """The application that shows the runs in `path`, a run folder or a folder of variants.

    Only requests whose Host is one of `hosts` are answered: a foreign page that points its own name
    at this machine reads nothing.
    """
    if not path.is_dir():
        raise BadFolder(f"'{path}' is no folder; give the run folder to follow.")
    app = FastAPI(title="fedpriv watch", docs_url=None, redoc_url=None, openapi_url=None)

    @app.middleware("http")
    async def guarded(request: Request, call_next: Any) -> Response:
        if hosts and request.url.hostname not in hosts:
            return Response("unknown host", status_code=403, headers=HEADERS)
        response = await call_next(request)
        response.headers.update(HEADERS)
        found: Response = response
        return found

    @app.get("/")
    def page() -> HTMLResponse:
        return HTMLResponse((files("fedpriv.simulations") / "watch.html").read_text("utf-8"))

    @app.get("/state")
    def state(after: Annotated[list[str], Query()] = []) -> dict[str, Any]:  # noqa: B006
        """What is new: `after=name:5:MARK` has the first five rounds of that run already.

        MARK is that of the state it has. What is behind the same mark is not sent again.
        """
        have = {name: (count, mark) for name, count, mark in map(parted, after)}
        runs = [newer(state_of(run), have) for run in runs_in(path)]
        return {"folder": path.resolve().name, "runs": runs}

    @app.get("/picture/{name:path}")
    def picture(name: str) -> FileResponse:
        known = {shown: file for run in runs_in(path) for shown, file in pictures(run)}
        if name not in known:
            raise HTTPException(404)
        return FileResponse(known[name], media_type="image/png")

    return app


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens on the address; BadOption when it is taken or not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen()
    except OSError as error:
        opened.close()
        raise BadOption(
            f"{host}:{port} cannot be listened on: {error.strerror or error}; give another --port."
        ) from error
    return opened


def runs_in(path: Path) -> list[RunFolder]:
    """The run at `path`, else those right below it; a run counts from its first file on."""
    if RunFolder(path).scenario_file.exists() and not SweepFolder(path).exists():
        return [RunFolder(path)]
    found = (folder for folder in sorted(path.iterdir()) if folder.is_dir())
    return [RunFolder(folder) for folder in found if RunFolder(folder).scenario_file.exists()]


def state_of(run: RunFolder) -> dict[str, Any]:
    """What the page shows of a run; files that are not there yet are left out."""
    try:
        scenario = run.scenario()
    except BadFolder:  # caught between being made and being written
        return {"name": run.path.name, "rounds": [], "total": 0, "clients": [], "pictures": []}
    rounds = run.rounds()
    return {
        "name": run.path.resolve().name,
        "total": scenario.federation.rounds,
        "plugins": [spec.name for spec in scenario.plugins],
        "rounds": rounds,
        "clients": _clients(scenario.federation.clients, rounds, _scores(run)),
        "pictures": [name for name, _ in pictures(run)][:PICTURES],
        "observations": sum(1 for _ in run.observations.glob("*.safetensors")),
    }


def parted(text: str) -> tuple[str, str, str]:
    """`name:5:MARK` in its parts; a name may hold colons."""
    rest, _, mark = text.rpartition(":")
    name, _, count = rest.rpartition(":")
    return name, count, mark


def newer(state: dict[str, Any], have: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """The state without what somebody has: rounds, of which `before` says how many, and the rest.

    The rest goes as a whole when any of it changed.
    """
    name, rounds = state["name"], state["rounds"]
    count, known = have.get(name, ("", ""))
    before = int(count) if count.isdigit() and int(count) <= len(rounds) else 0
    rest = {key: value for key, value in state.items() if key != "rounds"}
    mark = sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()[:16]
    sent = {"name": name} if known == mark else rest
    return {**sent, "mark": mark, "before": before, "rounds": rounds[before:]}


def pictures(run: RunFolder) -> Iterator[tuple[str, Path]]:
    """Reconstructions, newest first: the name under which each is served, and its file."""
    found = [file for file in run.attacks.glob("*/*.png") if _inside(file, run.path)]
    for file in sorted(found, key=lambda file: (-file.stat().st_mtime_ns, file.name)):
        yield f"{run.path.resolve().name}/{file.parent.name}/{file.name}", file


def _inside(file: Path, folder: Path) -> bool:
    """Whether a file, links followed, lies in the folder."""
    return file.is_file() and file.resolve().is_relative_to(folder.resolve())


def _scores(run: RunFolder) -> dict[str, float]:
    """The worst value of each client so far, by the metric that decides."""
    try:
        scores = run.scores()
    except BadFolder:
        return {}
    what = worst_measure(scores, deciding(scores, gates_in(run)))
    if what is None or "node" not in scores.columns:
        return {}
    groups = scores.groupby("node")[what.name]
    worst = (groups.max() if what.high else groups.min()).clip(upper=CEILING).dropna()
    return {str(node): round(float(value), 2) for node, value in worst.items()}


def _clients(
    count: int, rounds: list[dict[str, Any]], worst: dict[str, float]
) -> list[dict[str, Any]]:
    failed: dict[str, int] = {}
    for record in rounds:
        for failure in record.get("failed", ()):
            failed[str(failure["client"])] = failed.get(str(failure["client"]), 0) + 1
    names = [str(client) for client in range(count)]
    names += [name for name in sorted(worst) if name not in names]
    return [
        {"client": name, "failed": failed.get(name, 0), "worst": worst.get(name)} for name in names
    ]
