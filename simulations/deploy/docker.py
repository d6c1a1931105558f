"""The same federation in containers: every step is a `docker compose` command on the same file."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedpriv.errors import WorkFailed
from fedpriv.simulations.deploy.compose import read_compose
from fedpriv.simulations.deploy.control import Control
from fedpriv.simulations.deploy.variables import dotenv


def engine_answers() -> bool:
    """Whether there is a Docker engine with the compose plugin."""
    for words in (["docker", "compose", "version"], ["docker", "info"]):
        try:
            done = subprocess.run(words, capture_output=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return False
        if done.returncode:
            return False
    return True


@dataclass(frozen=True)
class Containers:
    """The federation of a compose file, run by Docker."""

    file: Path
    folder: Path  # where the authority's certificate is copied to

    @property
    def runs(self) -> Path:
        """The folder that the ServerApp's container writes runs to."""
        known = {**dotenv(self.file.parent / ".env"), **os.environ}
        return (self.file.parent / known.get("RUNS", "./runs")).resolve()

    def compose(self, *words: str, capture: bool = False) -> str:
        """One `docker compose` command; WorkFailed when it fails."""
        command = ["docker", "compose", "--file", str(self.file), *words]
        done = subprocess.run(command, capture_output=capture, text=True)
        if done.returncode:
            why = (done.stderr or "").strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            raise WorkFailed(f"`{' '.join(command)}` failed: {why[0]}")
        return done.stdout or ""

    def up(self, patience: float = 600.0, tell: Callable[[str], None] = lambda line: None) -> None:
        read_compose(self.file)  # names the service and key of a mistake before anything starts
        if not self.runs.exists():  # Docker would make it root's, and services are not root
            self.runs.mkdir(parents=True)
            self.runs.chmod(0o1777)
        self.compose("up", "--build", "--detach", "--wait", "--wait-timeout", f"{patience:.0f}")

    def down(self, volumes: bool = False) -> list[int]:
        self.compose("down", *(["--volumes"] if volumes else []))
        return []

    def statuses(self) -> dict[str, str]:
        """State of every container, by service."""
        lines = self.compose("ps", "--all", "--format", "json", capture=True).splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        return {row["Service"]: row.get("Health") or row["State"] for row in rows}

    def logs(self, service: str, follow: bool = False) -> None:
        self.compose("logs", "--no-log-prefix", *(["--follow"] if follow else []), service)

    def control(self) -> Control:
        """The Control API on the port that the file publishes."""
        known = {**dotenv(self.file.parent / ".env"), **os.environ}
        address = f"127.0.0.1:{known.get('CONTROL_PORT', '8000')}"
        if "insecure" in known.get("COMPOSE_PROFILES", "").split(","):
            return Control(address, None)
        certificate = self.folder / "ca.crt"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.compose("cp", "superlink:/trust/ca.crt", str(certificate), capture=True)
        return Control(address, certificate)

    def truths(self) -> list[Path]:
        return []

    def seen_by_server(self, out: Path) -> str:
        """The run folder as the ServerApp's container sees it: below ./runs, mounted at /runs."""
        try:
            return f"/runs/{out.resolve().relative_to(self.runs)}"
        except ValueError:
            raise WorkFailed(
                f"--out must be below '{self.runs}', which containers see as /runs; got '{out}'."
            ) from None
