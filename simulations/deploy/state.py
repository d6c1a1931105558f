"""What is known of a running deployment: a JSON file, written by its supervisor."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from fedpriv.errors import BadFolder
from fedpriv.files import write_text

FILE = "deployment.json"


def start_time(pid: int) -> str:
    """When a process started, in the system's own clock; '' where that is not known."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def alive(pid: int | None, started: str | None) -> bool:
    """Whether that very process still runs; a number may have been given to another."""
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
        return False
    return not started or start_time(pid) in ("", started)


@dataclass(frozen=True)
class Running:
    """One service."""

    status: str
    pid: int | None
    started: str | None
    restarts: int
    code: int | None

    @property
    def alive(self) -> bool:
        return alive(self.pid, self.started)


@dataclass(frozen=True)
class Deployment:
    """The supervisor and its services."""

    pid: int
    started: str
    project: str
    ports: Mapping[str, int]
    names: Mapping[str, str]
    services: Mapping[str, Running]

    @property
    def alive(self) -> bool:
        return alive(self.pid, self.started)

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1)

    def save(self, folder: Path) -> None:
        write_text(folder / FILE, self.text() + "\n")


def deployment_in(folder: Path) -> Deployment | None:
    """The deployment of a folder, None when nothing was ever started there."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        tables = json.loads(path.read_text("utf-8"))
        services = {name: Running(**table) for name, table in tables.pop("services").items()}
        return Deployment(**tables, services=services)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadFolder(f"'{path}' is damaged: {error}.") from error
