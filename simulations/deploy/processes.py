"""The federation of a compose file as processes of this machine: start, look at, stop."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedpriv.errors import BadFolder, BadInput, WorkFailed
from fedpriv.simulations.deploy.compose import Service, read_compose
from fedpriv.simulations.deploy.control import Control
from fedpriv.simulations.deploy.enrol import key_in
from fedpriv.simulations.deploy.local import Here, names_of, program
from fedpriv.simulations.deploy.state import Deployment, deployment_in

CONTROL_PORT, SUPERLINK = 8000, "superlink"


@dataclass(frozen=True)
class Processes:
    """The federation of a compose file as local processes, with its files below `folder`."""

    file: Path
    folder: Path

    def up(
        self,
        patience: float = 600.0,
        tell: Callable[[str], None] = lambda line: None,
        *,
        clients: int | None = None,
        shared: bool = False,
    ) -> None:
        """Start every service and wait until all are ready."""
        services = read_compose(self.file, clients=clients)
        found = self.deployment()
        if found is not None and found.alive:
            raise BadInput(
                f"A federation is running in '{self.folder}' already; `fedpriv deploy status` "
                "shows it, `fedpriv deploy down` stops it."
            )
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "fedpriv.simulations.deploy.supervisor"]
        command += ["--folder", str(self.folder), "--file", str(self.file)]
        command += [f"--clients={clients}"] if clients is not None else []
        command += ["--shared"] if shared else []
        with (self.folder / "logs" / "supervisor.log").open("ab") as log:
            supervisor = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self.wait_ready(supervisor, services, patience, tell)
        except BaseException:
            self.down()
            raise

    def wait_ready(
        self,
        supervisor: subprocess.Popen[bytes],
        services: list[Service],
        patience: float,
        tell: Callable[[str], None],
    ) -> None:
        told: dict[str, str] = {}
        ends = time.monotonic() + patience
        while True:
            if supervisor.poll() is not None:
                raise WorkFailed(f"The supervisor ended: {self.tail('supervisor')}")
            found = self.deployment()
            states = found.services if found and found.pid == supervisor.pid else {}
            for name, running in states.items():
                if told.get(name) != running.status:
                    told[name] = running.status
                    tell(f"{name}: {running.status}")
                if running.status == "failed" or running.restarts > 5:
                    raise WorkFailed(f"Service '{name}' does not start: {self.tail(name)}")
            if states and all(ready(service, states[service.name].status) for service in services):
                return
            if time.monotonic() > ends:
                late = [s.name for s in services if not ready(s, told.get(s.name, "waiting"))]
                raise WorkFailed(
                    f"After {patience:.0f} s these services are not ready: {', '.join(late)}. "
                    f"{self.tail(late[0])}"
                )
            time.sleep(0.3)

    def down(self, volumes: bool = False, patience: float = 90.0) -> list[int]:
        """Stop every service; the process numbers that had to be killed."""
        found = self.deployment()
        killed = []
        if found is not None and found.alive:
            os.kill(found.pid, signal.SIGTERM)
            ends = time.monotonic() + patience
            while found.alive and time.monotonic() < ends:
                collect(found.pid)
                time.sleep(0.1)
            if found.alive:
                os.kill(found.pid, signal.SIGKILL)
                killed.append(found.pid)
        for running in found.services.values() if found else ():
            if running.alive and running.pid is not None:
                os.killpg(running.pid, signal.SIGKILL)
                killed.append(running.pid)
        if volumes:
            for name in ("volumes", "scratch", "logs"):
                shutil.rmtree(self.folder / name, ignore_errors=True)
        return killed

    def deployment(self) -> Deployment | None:
        return deployment_in(self.folder)

    def running(self) -> Deployment:
        """The deployment; BadFolder when nothing runs."""
        found = self.deployment()
        if found is None or not found.alive:
            raise BadFolder(
                f"No federation runs in '{self.folder}'; start one with `fedpriv deploy up`."
            )
        return found

    def here(self, found: Deployment) -> Here:
        return Here(self.folder, Path(found.project), found.ports, found.names)

    def control(self) -> Control:
        """The Control API of the running SuperLink."""
        found = self.running()
        certificate = self.folder / "volumes" / "trust" / "ca.crt"
        secure = found.names[SUPERLINK] == SUPERLINK
        address = self.here(found).address(SUPERLINK, CONTROL_PORT)
        return Control(address, certificate if secure else None)

    def statuses(self) -> dict[str, str]:
        """State of every service; 'dead' for one whose process is gone."""
        found = self.running()
        lasting = ("running", "healthy")
        return {
            name: "dead" if one.status in lasting and not one.alive else one.status
            for name, one in found.services.items()
        }

    def logs(self, service: str, follow: bool = False) -> None:
        """Print the log of a service."""
        for line in followed(self.log(service), stop=lambda: not follow):
            print(line, end="")

    @property
    def up_now(self) -> bool:
        found = self.deployment()
        return found is not None and found.alive

    def once(self, service: str, *words: str) -> None:
        """Run a service that ends by itself, with more words than the file has."""
        keys = len(list((self.folder / "volumes").glob("client-*-key")))
        services = read_compose(self.file, clients=keys or None)
        chosen = next((one for one in services if one.name == service), None)
        if chosen is None:
            raise BadInput(f"The active profile has no service '{service}': it has no keys.")
        found = self.running() if self.up_now else None
        ports = found.ports if found else {}
        here = Here(self.folder, self.file.parent, ports, names_of(services))
        local = here.localised(chosen)
        done = subprocess.run(
            [*program(local.command), *words],
            env={**os.environ, **local.environment},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise WorkFailed(f"Service '{service}' failed: {' '.join(last) or done.returncode}")

    def lasting(self) -> list[str]:
        """The services that go on."""
        found = self.running()
        return [name for name, one in found.services.items() if one.status != "completed"]

    def restart(self, services: Iterable[str], patience: float = 300.0) -> None:
        """Stop services and wait until they are ready again."""
        before = self.running().services
        names = [name for name in services if before[name].alive]
        for name in names:
            os.kill(before[name].pid or 0, signal.SIGTERM)
        ends = time.monotonic() + patience
        waiting = names
        while waiting:
            now = self.running().services
            waiting = [
                name
                for name in names
                if now[name].pid in (None, before[name].pid)
                or now[name].status not in (before[name].status, "healthy")
            ]
            if time.monotonic() > ends:
                raise WorkFailed(
                    f"After {patience:.0f} s these services are not ready again: "
                    f"{', '.join(waiting)}. {self.tail(waiting[0])}"
                )
            time.sleep(0.3)

    def public_keys(self) -> list[bytes]:
        """The keys of the clients that this federation's `keys` made."""
        return [key_in(path) for path in (self.folder / "volumes" / "trust").glob("client-*.pub")]

    def certificates(self) -> dict[str, Path]:
        """Every certificate of the federation."""
        volumes = self.folder / "volumes"
        found = {"authority": volumes / "trust" / "ca.crt"}
        found["superlink"] = volumes / "superlink-keys" / "superlink.crt"
        hops = sorted(volumes.glob("client-*-hop/supernode.crt"), key=lambda path: len(str(path)))
        found |= {f"{path.parent.name.removesuffix('-hop')}'s own": path for path in hops}
        return {name: path for name, path in found.items() if path.exists()}

    def seen_by_server(self, out: Path) -> str:
        return str(out.resolve())

    def truths(self) -> list[Path]:
        return sorted((self.folder / "volumes").glob("client-*-state/truth"))

    def log(self, service: str) -> Path:
        """The log file of a service."""
        found = self.deployment()
        names = list(found.services) if found else []
        if service not in names:
            raise BadInput(f"No service is named '{service}'. There are: {', '.join(names)}.")
        return self.folder / "logs" / f"{service}.log"

    def tail(self, service: str, lines: int = 8) -> str:
        path = self.folder / "logs" / f"{service}.log"
        if not path.exists():
            return "it has written nothing."
        last = path.read_text("utf-8", "replace").splitlines()[-lines:]
        return "its last lines are\n" + "\n".join(last)


def ready(service: Service, status: str) -> bool:
    if service.once:
        return status == "completed"
    return status == "healthy" if service.health else status in ("running", "healthy")


def collect(pid: int) -> None:
    """Reap the supervisor when it is a child of this very process."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def followed(path: Path, stop: Callable[[], bool]) -> Iterator[str]:
    """The lines of a growing file until `stop`."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        while True:
            line = lines.readline()
            if line:
                yield line
            elif stop():
                return
            else:
                time.sleep(0.3)
