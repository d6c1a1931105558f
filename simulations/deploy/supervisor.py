"""`python -m fedpriv.simulations.deploy.supervisor`: keeps a compose file's services running.

Each service is a process of this machine.

It does what a Docker engine would: starts services when those they depend on are ready, checks
their health, restarts them as the file says, and stops them in the opposite order when it gets
SIGTERM.
"""

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedpriv.simulations.deploy import shared
from fedpriv.simulations.deploy.compose import Service, read_compose
from fedpriv.simulations.deploy.local import Here, assigned, names_of, numbers, program
from fedpriv.simulations.deploy.state import Deployment, Running, start_time

TICK, BACKOFF = 0.2, 1.0
READY = {
    "service_started": ("running", "healthy", "completed"),
    "service_healthy": ("healthy",),
    "service_completed_successfully": ("completed",),
}


@dataclass
class Watched:
    """One service and its process."""

    service: Service
    process: "subprocess.Popen[bytes] | shared.Forked | None" = None
    probe: subprocess.Popen[bytes] | None = None
    status: str = "waiting"  # waiting, running, healthy, completed, failed or stopped
    restarts: int = 0
    code: int | None = None
    due: float = 0.0  # when to start, or to look at its health, again
    failures: int = 0

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


def die_with_parent() -> None:
    """In a child on Linux: get SIGTERM when the supervisor dies, however it dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


@dataclass
class Supervisor:
    """The processes of one deployment."""

    here: Here
    services: list[Service]
    shared: bool = False  # clients are forks of this process
    watched: dict[str, Watched] = field(default_factory=dict)
    stopping: bool = False

    def __post_init__(self) -> None:
        self.watched = {s.name: Watched(self.here.localised(s)) for s in self.services}

    def run(self) -> None:
        """Until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.on_signal)
        (self.here.folder / "volumes").mkdir(mode=0o700, parents=True, exist_ok=True)
        for service in self.services:
            for mount in service.mounts:
                self.here.place(mount).mkdir(parents=True, exist_ok=True)
        last = ""
        while not self.stopping:
            for watched in self.watched.values():
                self.step(watched)
            last = self.written(last)
            time.sleep(TICK)
        self.stop()
        self.written("")

    def on_signal(self, number: int, frame: object) -> None:
        self.stopping = True

    def step(self, watched: Watched) -> None:
        """One look at one service."""
        now = time.monotonic()
        if watched.status == "waiting":
            if now >= watched.due and self.may_start(watched.service):
                self.start(watched)
        elif watched.status in ("running", "healthy"):
            if not watched.alive:
                self.ended(watched)
            elif watched.service.health and watched.status == "running":
                self.look(watched)

    def may_start(self, service: Service) -> bool:
        return all(self.watched[other].status in READY[how] for other, how in service.after.items())

    def start(self, watched: Watched) -> None:
        service = watched.service
        scratch = self.here.folder / "scratch" / service.name
        scratch.mkdir(parents=True, exist_ok=True)
        main = shared.main_of(service.command) if self.shared else None
        if main is not None:
            watched.process = shared.forked(
                main,
                shared.options_of(service.command),
                name=service.name,
                environment=shared.paced(self.environment(service), self.executors),
                folder=scratch,
                log=self.log(service.name),
            )
        else:
            watched.process = self.started(service, scratch)
        watched.status, watched.failures = "running", 0

    @property
    def executors(self) -> int:
        """How many clients' executors ask for work."""
        return sum(shared.EXECUTOR in w.service.command for w in self.watched.values())

    def started(self, service: Service, scratch: Path) -> subprocess.Popen[bytes]:
        """A process of its own, with a program of its own."""
        with self.log(service.name).open("ab") as log:
            return subprocess.Popen(
                program(service.command),
                env=self.environment(service),
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def log(self, name: str) -> Path:
        path = self.here.folder / "logs" / f"{name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def environment(self, service: Service) -> Mapping[str, str]:
        """This process's environment, the service's own above it, our programs first."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return {**os.environ, **service.environment, "PATH": path, "PYTHONUNBUFFERED": "1"}

    def ended(self, watched: Watched) -> None:
        """A process has ended: that was its job, or it is started again."""
        assert watched.process is not None
        watched.code = watched.process.returncode
        end_group(watched.process.pid)
        if watched.code == 0 and watched.service.once:
            watched.status = "completed"
        elif watched.service.once or (
            watched.service.restart == "on-failure" and watched.code == 0
        ):
            watched.status = "failed" if watched.code else "stopped"
        else:
            watched.restarts += 1
            watched.status = "waiting"
            watched.due = time.monotonic() + min(BACKOFF * watched.restarts, 10)

    def look(self, watched: Watched) -> None:
        """Run the health check now and then until it has succeeded once."""
        if watched.probe is None:
            if time.monotonic() >= watched.due:
                watched.probe = subprocess.Popen(
                    program(watched.service.health),
                    env=self.environment(watched.service),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    preexec_fn=die_with_parent,
                )
            return
        code = watched.probe.poll()
        if code is None:
            return
        watched.probe, watched.due = None, time.monotonic() + min(1.0, watched.service.interval)
        if code == 0:
            watched.status = "healthy"

    def stop(self) -> None:
        """Stop everything, those that others depend on last."""
        left = {name: w for name, w in self.watched.items() if w.alive}
        while left:
            needed = {other for w in left.values() for other in w.service.after}
            wave = {name: w for name, w in left.items() if name not in needed} or left
            stop_all(wave.values())
            left = {name: w for name, w in left.items() if name not in wave}
        for watched in self.watched.values():
            if watched.status != "completed":
                watched.status = "stopped"

    def written(self, last: str) -> str:
        """Save the state when it has changed."""
        deployment = Deployment(
            pid=os.getpid(),
            started=start_time(os.getpid()),
            project=str(self.here.project),
            ports=dict(self.here.ports),
            names=dict(self.here.names),
            services={name: running(watched) for name, watched in self.watched.items()},
        )
        text = deployment.text()
        if text != last:
            deployment.save(self.here.folder)
        return text


def running(watched: Watched) -> Running:
    process = watched.process
    alive = watched.alive and process is not None
    return Running(
        status=watched.status,
        pid=process.pid if alive and process else None,
        started=start_time(process.pid) if alive and process else None,
        restarts=watched.restarts,
        code=watched.code,
    )


def stop_all(watched: Iterable[Watched]) -> None:
    """SIGTERM, the grace its service has, then SIGKILL to it and all it started."""
    going = [w for w in watched if w.process is not None]
    for one in going:
        signalled(one, signal.SIGTERM)
    ends = time.monotonic() + max((one.service.grace for one in going), default=0)
    while any(one.alive for one in going) and time.monotonic() < ends:
        time.sleep(0.1)
    for one in going:
        if one.probe is not None:
            one.probe.kill()
        if one.process is not None:
            end_group(one.process.pid)
            one.process.wait()


def signalled(watched: Watched, number: int) -> None:
    if watched.process is not None and watched.alive:
        watched.process.send_signal(number)


def end_group(pid: int) -> None:
    """SIGKILL to whatever is left of a process and its children."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--clients", type=int)
    parser.add_argument("--shared", action="store_true")
    given = parser.parse_args()
    services = read_compose(given.file, clients=given.clients)
    if given.shared:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        shared.load()
    ports = assigned(services)  # held until this process ends
    here = Here(
        folder=given.folder.resolve(),
        project=given.file.resolve().parent,
        ports=numbers(ports),
        names=names_of(services),
    )
    Supervisor(here, services, given.shared).run()


if __name__ == "__main__":
    main()
