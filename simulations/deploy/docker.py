"""The same federation in containers: every step is a `docker compose` command on the same file."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from fedpriv.errors import BadInput, BadOption, WorkFailed
from fedpriv.simulations.deploy.compose import read_compose
from fedpriv.simulations.deploy.control import Control
from fedpriv.simulations.deploy.enrol import key_in
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

    def up(
        self,
        patience: float = 600.0,
        tell: Callable[[str], None] = lambda line: None,
        *,
        clients: int | None = None,
        shared: bool = False,
    ) -> None:
        if shared or clients is not None:
            raise BadOption(
                "--shared and --clients are for local processes: in containers every owner has a "
                "process of its own. Add --engine local, or add clients to the compose file."
            )
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

    @property
    def up_now(self) -> bool:
        return bool(self.compose("ps", "--quiet", "superlink", capture=True).strip())

    def once(self, service: str, *words: str) -> None:
        """Run a service that ends by itself, with more words than the file has."""
        services = {one.name: one for one in read_compose(self.file)}
        if service not in services:
            raise BadInput(f"The active profile has no service '{service}': it has no keys.")
        self.compose("run", "--rm", service, *services[service].command, *words, capture=True)

    def lasting(self) -> list[str]:
        """The services that go on."""
        return [service.name for service in read_compose(self.file) if not service.once]

    def restart(self, services: Iterable[str]) -> None:
        """Stop services and wait until they are ready again."""
        names = list(services)
        self.compose("restart", *names, capture=True)
        self.compose("up", "--detach", "--no-deps", "--no-recreate", "--wait", *names, capture=True)

    def public_keys(self) -> list[bytes]:
        """The keys of the clients that this federation's `keys` made."""
        with tempfile.TemporaryDirectory() as folder:
            self.compose("cp", "superlink:/trust", folder, capture=True)
            return [key_in(path) for path in Path(folder).rglob("client-*.pub")]

    def certificates(self) -> dict[str, Path]:
        """Every certificate of the federation, copied out of its containers."""
        wanted = {"authority": ("superlink", "/trust/ca.crt")}
        wanted["superlink"] = ("superlink", "/keys/superlink.crt")
        services = {service.name: service for service in read_compose(self.file)}
        if "superlink" not in services:
            return {}
        for name in services:
            if name.startswith("supernode-"):
                wanted[name.replace("supernode", "client") + "'s own"] = name, "/hop/supernode.crt"
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, (service, path) in wanted.items():
            self.compose("cp", f"{service}:{path}", str(self.folder / f"{name}.crt"), capture=True)
        return {name: self.folder / f"{name}.crt" for name in wanted}

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
