"""A compose service as a process of this machine: the same words, other folders and ports.

In containers every service has its own disk and its own ports. Here the folder that a container
sees as `/state` is one below the deployment's folder, and port 9094 of `supernode-1` is a free port
of the loopback; both are replaced wherever a command, a variable or a health check names them.
"""

import re
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fedpriv.simulations.deploy.compose import Mount, Service

LOOPBACK = "127.0.0.1"


def held(count: int) -> list[socket.socket]:
    """Sockets that hold ports of the loopback for whoever is told their numbers.

    A bound socket that does not listen keeps the number from being given to others, and a server
    that asks to reuse addresses, as uvicorn and gRPC do, can listen on it all the same. They are
    held as long as the federation runs, so that a service that is restarted finds its port free.
    """
    sockets = [socket.socket() for _ in range(count)]
    for opened in sockets:
        opened.bind((LOOPBACK, 0))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return sockets


def assigned(services: Iterable[Service]) -> dict[str, socket.socket]:
    """A held local port for every `service:port`."""
    wanted = [f"{service.name}:{port}" for service in services for port in service.ports]
    return dict(zip(wanted, held(len(wanted)), strict=True))


def numbers(ports: Mapping[str, socket.socket]) -> dict[str, int]:
    return {name: opened.getsockname()[1] for name, opened in ports.items()}


@dataclass(frozen=True)
class Here:
    """Where things of a deployment are on this machine."""

    folder: Path  # named volumes, scratch space and logs
    project: Path  # what `./` means in the compose file
    ports: Mapping[str, int]  # `service:port` -> local port
    names: Mapping[str, str]  # host name -> service

    def place(self, mount: Mount) -> Path:
        """The local folder behind a mount."""
        if mount.named:
            return self.folder / "volumes" / mount.source
        return (self.project / Path(mount.source).expanduser()).resolve()

    def address(self, host: str, port: int) -> str:
        """`127.0.0.1:<local port>` of a service's port."""
        return f"{LOOPBACK}:{self.ports[f'{self.names[host]}:{port}']}"

    def localised(self, service: Service) -> Service:
        """The service with local folders and ports in all its words."""
        folders = {mount.target: str(self.place(mount)) for mount in service.mounts}
        folders["/tmp"] = str(self.folder / "scratch" / service.name)
        return replace(
            service,
            command=tuple(self.word(service, word, folders) for word in service.command),
            health=tuple(self.word(service, word, folders) for word in service.health),
            environment={
                key: self.word(service, value, folders)
                for key, value in service.environment.items()
            },
        )

    def word(self, service: Service, text: str, folders: Mapping[str, str]) -> str:
        targets = "|".join(map(re.escape, sorted(folders, key=len, reverse=True)))
        text = re.sub(rf"(?<![\w/.-])({targets})(?=[/\"'\s:,]|$)", lambda m: folders[m[1]], text)
        hosts = "|".join(map(re.escape, sorted(self.names, key=len, reverse=True)))
        text = re.sub(
            rf"(?<![\w.-])({hosts}):(\d+)\b",
            lambda m: self.address(m[1], int(m[2])) if self.known(m[1], m[2]) else m[0],
            text,
        )
        own = {str(port): self.ports[f"{service.name}:{port}"] for port in service.ports}
        text = re.sub(r"\b0\.0\.0\.0:(\d+)\b", lambda m: f"{LOOPBACK}:{own.get(m[1], m[1])}", text)
        text = re.sub(r"--port=(\d+)$", lambda m: f"--port={own.get(m[1], m[1])}", text)
        return text.replace("--host=0.0.0.0", f"--host={LOOPBACK}")

    def known(self, host: str, port: str) -> bool:
        return f"{self.names[host]}:{port}" in self.ports


def names_of(services: Iterable[Service]) -> dict[str, str]:
    """Host names on the network, and the service each one means."""
    return {name: service.name for service in services for name in (service.name, *service.aliases)}


def program(words: Iterable[str]) -> list[str]:
    """The words with the program replaced by the one of this Python's environment."""
    first, *rest = words
    beside = Path(sys.executable).parent / first
    return [
        sys.executable if first == "python" else str(beside if beside.exists() else first),
        *rest,
    ]
