"""The folder of a Flower app: its name, its two parts, its settings, and who it is exactly."""

import hashlib
import importlib.util
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedpriv.errors import BadInput, BadOption
from fedpriv.flower import flatten_dict, parse_config_args
from fedpriv.scenario.binding import nearest

SKIPPED = {"__pycache__", ".venv", "venv", "env", "build", ".git"}


@dataclass(frozen=True)
class Source:
    """A Flower app as it lies on disk; nothing of it is imported here."""

    folder: Path
    name: str
    version: str
    publisher: str
    server: str  # module:attribute
    client: str
    config: dict[str, Any]  # as Flower gives it to the app
    pins: tuple[str, ...]
    nodes: int | None = None  # clients of its simulation, where it names them

    @property
    def modules(self) -> tuple[str, ...]:
        """The packages that the app brings."""
        return tuple(dict.fromkeys(part.partition(".")[0] for part in (self.server, self.client)))

    def files(self) -> Iterator[Path]:
        """Its Python files and its settings."""
        for path in sorted(self.folder.rglob("*")):
            inside = path.relative_to(self.folder).parts
            if path.suffix in (".py", ".toml") and path.is_file() and not SKIPPED & set(inside):
                yield path

    @property
    def digest(self) -> str:
        """SHA-256 of names and contents of its files."""
        found = hashlib.sha256()
        for path in self.files():
            found.update(str(path.relative_to(self.folder)).encode() + b"\0")
            found.update(hashlib.sha256(path.read_bytes()).digest())
        return found.hexdigest()

    @property
    def commit(self) -> str | None:
        """The commit that the folder is at, where it lies in a git repository."""
        try:
            done = subprocess.run(
                ["git", "-C", str(self.folder), "rev-parse", "HEAD"],
                capture_output=True,
                text=True,
                timeout=10,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() or None if done.returncode == 0 else None

    def plain(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "version": self.version,
            "publisher": self.publisher,
            "commit": self.commit,
            "sha256": self.digest,
            "run-config": self.config,
        }


def read_source(path: str, run_config: Sequence[str] = ()) -> Source:
    """The app in a folder; BadInput says what is missing."""
    folder = Path(path).resolve()
    file = folder / "pyproject.toml"
    try:
        project = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(
            f"'{path}' is no Flower app: {file.name} cannot be read ({error}). Give the folder "
            "whose pyproject.toml has [tool.flwr.app]."
        ) from error
    app = project.get("tool", {}).get("flwr", {}).get("app")
    parts = (app or {}).get("components", {})
    lacking = [name for name in ("serverapp", "clientapp") if ":" not in str(parts.get(name, ""))]
    if not isinstance(app, dict) or lacking:
        what = "[tool.flwr.app.components] " + " and ".join(lacking)
        raise BadInput(f"'{path}' is no Flower app: its pyproject.toml lacks {what}.")
    about = project.get("project", {})
    return Source(
        folder=folder,
        name=str(about.get("name", folder.name)),
        version=str(about.get("version", "")),
        publisher=str(app.get("publisher", "")),
        server=str(parts["serverapp"]),
        client=str(parts["clientapp"]),
        config=configured(flatten_dict(app.get("config", {})), run_config),
        pins=tuple(one for one in map(str, about.get("dependencies", ())) if "==" in one),
        nodes=nodes_in(project["tool"]["flwr"].get("federations", {})),
    )


def nodes_in(federations: Any) -> int | None:
    """`options.num-supernodes` of the federation that `flwr run` takes, in apps that name one."""
    if not isinstance(federations, dict):
        return None
    known = {name: one for name, one in federations.items() if isinstance(one, dict)}
    chosen = known.get(str(federations.get("default", ""))) or next(iter(known.values()), {})
    options = chosen.get("options", {})
    found = options.get("num-supernodes") if isinstance(options, dict) else None
    return found if isinstance(found, int) and found > 0 else None


def configured(defaults: dict[str, Any], given: Sequence[str]) -> dict[str, Any]:
    """The app's settings with those of --run-config; only keys that the app has."""
    try:
        changed = parse_config_args(list(given)) if given else {}
    except Exception as error:  # Flower raises click's errors and tomli's
        raise BadOption(
            f"--run-config {' '.join(given)!r} cannot be read: {error}. Write key=value, as for "
            "`flwr run`."
        ) from error
    for key in changed:
        if key not in defaults:
            raise BadOption(
                f"The app has no setting '{key}'.{nearest(key, defaults)} It has: "
                f"{', '.join(defaults) or 'none'}."
            )
    return {**defaults, **changed}


def check_names(source: Source) -> None:
    """BadInput when a module of the app has the name of one that is installed here."""
    for name in source.modules:
        found = importlib.util.find_spec(name)
        if found is not None and not Path(found.origin or "").is_relative_to(source.folder):
            raise BadInput(
                f"The app's package '{name}' has the name of one that is installed here "
                f"({found.origin or 'a namespace'}), which Python finds first. Rename one of them."
            )
