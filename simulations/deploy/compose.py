"""docker-compose.yml as far as a federation needs it: services, commands and their order."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from fedpriv.scenario.binding import nearest
from fedpriv.simulations.deploy.scale import scaled
from fedpriv.simulations.deploy.variables import BadCompose, dotenv, interpolated

FILE = "docker-compose.yml"
USED = {
    "command",
    "environment",
    "volumes",
    "ports",
    "expose",
    "healthcheck",
    "depends_on",
    "restart",
    "profiles",
    "networks",
    "stop_grace_period",
}
CONTAINER_ONLY = {
    "image",
    "build",
    "init",
    "cap_drop",
    "security_opt",
    "deploy",
    "user",
    "read_only",
    "tmpfs",
    "logging",
    "labels",
    "stop_signal",
    "mem_limit",
    "cpus",
    "pids_limit",
}
CONDITIONS = ("service_started", "service_healthy", "service_completed_successfully")
RESTARTS = ("no", "always", "on-failure", "unless-stopped")


@dataclass(frozen=True)
class Mount:
    """A folder of the host, or a named volume, at a place in the container."""

    source: str
    target: str
    read_only: bool = False

    @property
    def named(self) -> bool:
        return not self.source.startswith((".", "/", "~"))


@dataclass(frozen=True)
class Service:
    """One service: what is run, with what, and after whom."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    ports: tuple[int, ...] = ()  # inside the container
    aliases: tuple[str, ...] = ()  # other names on the network
    health: tuple[str, ...] = ()
    interval: float = 5.0
    retries: int = 60
    after: Mapping[str, str] = field(default_factory=dict)  # service -> condition
    optional: frozenset[str] = frozenset()  # those of `after` that other profiles may lack
    restart: str = "no"
    grace: float = 10.0

    @property
    def once(self) -> bool:
        return self.restart == "no"


def read_compose(
    path: Path, environment: Mapping[str, str] | None = None, clients: int | None = None
) -> list[Service]:
    """The services of the active profiles, each after those it depends on.

    `clients` asks for another number of clients than the file has.
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise BadCompose(
            f"'{path}' cannot be read: {error.strerror}; run this where {FILE} is, or give --file."
        ) from error
    try:
        tables = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadCompose(f"'{path}' is not valid YAML: {error}") from error
    if not isinstance(tables, dict) or not isinstance(tables.get("services"), dict):
        raise BadCompose(f"'{path}' has no table 'services'.")
    known = {**dotenv(path.parent / ".env"), **(os.environ if environment is None else environment)}
    if clients is not None:
        tables = scaled(tables, clients)
        known["CLIENTS"] = str(clients)
    active = {name for name in known.get("COMPOSE_PROFILES", "").split(",") if name}
    services = {}
    for name, table in tables["services"].items():
        if not isinstance(table, dict):
            raise BadCompose(f"Service '{name}' must be a table, got {table!r}.")
        profiles = table.get("profiles", [])
        if not profiles or active & set(profiles):
            services[name] = service_of(name, interpolated(table, known, f"service '{name}'"))
    if not services:
        raise BadCompose(
            f"'{path}' has no service in the profiles {sorted(active)}; set COMPOSE_PROFILES."
        )
    return in_order(services)


def service_of(name: str, table: Mapping[str, Any]) -> Service:
    """A checked Service; BadCompose names the service and the key."""
    for key in table:
        if key not in USED | CONTAINER_ONLY and not key.startswith("x-"):
            hint = nearest(key, USED | CONTAINER_ONLY)
            raise BadCompose(f"service '{name}': key '{key}' is not one fedpriv can follow.{hint}")
    read = Reader(name, table)
    restart = read.text("restart", "no")
    if restart not in RESTARTS:
        raise BadCompose(
            f"service '{name}': restart must be one of {', '.join(RESTARTS)}, got '{restart}'."
        )
    health = read.table("healthcheck")
    return Service(
        name=name,
        command=read.words("command"),
        environment={key: str(value) for key, value in read.table("environment").items()},
        mounts=tuple(mount_of(name, item) for item in read.items("volumes")),
        ports=tuple(dict.fromkeys([*read.exposed(), *read.published()])),
        aliases=read.aliases(),
        health=health_of(name, health),
        interval=seconds(name, "healthcheck.interval", health.get("interval", "5s")),
        retries=int(health.get("retries", 60)),
        after=read.after(),
        optional=read.optional(),
        restart=restart,
        grace=seconds(name, "stop_grace_period", table.get("stop_grace_period", "10s")),
    )


@dataclass(frozen=True)
class Reader:
    """The keys of one service with their types checked."""

    name: str
    keys: Mapping[str, Any]

    def wrong(self, key: str, rule: str, value: Any) -> BadCompose:
        return BadCompose(f"service '{self.name}': {key} must be {rule}, got {value!r}.")

    def text(self, key: str, default: str) -> str:
        value = self.keys.get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, 'text (YAML reads a bare no as false: write "no")', value)
        return value

    def table(self, key: str) -> Mapping[str, Any]:
        value = self.keys.get(key) or {}
        if not isinstance(value, dict):
            raise self.wrong(key, "a table", value)
        return value

    def items(self, key: str) -> list[Any]:
        value = self.keys.get(key) or []
        if not isinstance(value, list):
            raise self.wrong(key, "a list", value)
        return value

    def words(self, key: str) -> tuple[str, ...]:
        value = self.items(key)
        if not value or not all(isinstance(word, str) for word in value):
            raise self.wrong(key, "a list of texts, not empty", value)
        return tuple(value)

    def exposed(self) -> Iterable[int]:
        return [self.port("expose", item) for item in self.items("expose")]

    def published(self) -> Iterable[int]:
        return [self.port("ports", str(item).rsplit(":", 1)[-1]) for item in self.items("ports")]

    def port(self, key: str, value: Any) -> int:
        if not str(value).isdigit() or not 0 < int(value) < 65536:
            raise self.wrong(key, "port numbers", value)
        return int(value)

    def aliases(self) -> tuple[str, ...]:
        networks = self.keys.get("networks") or {}
        if isinstance(networks, list):
            return ()
        found = [
            alias for options in networks.values() for alias in (options or {}).get("aliases", [])
        ]
        return tuple(dict.fromkeys(found))

    def after(self) -> Mapping[str, str]:
        value = self.keys.get("depends_on") or {}
        if isinstance(value, list):
            return dict.fromkeys(value, CONDITIONS[0])
        conditions = {
            other: (how or {}).get("condition", CONDITIONS[0]) for other, how in value.items()
        }
        for condition in conditions.values():
            if condition not in CONDITIONS:
                raise self.wrong("depends_on", f"with one of {', '.join(CONDITIONS)}", condition)
        return conditions

    def optional(self) -> frozenset[str]:
        value = self.keys.get("depends_on") or {}
        if isinstance(value, list):
            return frozenset()
        return frozenset(
            name for name, how in value.items() if not (how or {}).get("required", True)
        )


def mount_of(name: str, item: Any) -> Mount:
    parts = item.split(":") if isinstance(item, str) else []
    if not 2 <= len(parts) <= 3 or not parts[1].startswith("/") or parts[2:] not in ([], ["ro"]):
        raise BadCompose(
            f"service '{name}': volumes must be 'source:/target' or 'source:/target:ro', got "
            f"{item!r}."
        )
    return Mount(parts[0], parts[1].rstrip("/"), len(parts) == 3)


def health_of(name: str, table: Mapping[str, Any]) -> tuple[str, ...]:
    test = table.get("test", [])
    if test and (not isinstance(test, list) or test[0] != "CMD"):
        raise BadCompose(f"service '{name}': healthcheck.test must be [CMD, …], got {test!r}.")
    return tuple(test[1:])


def seconds(name: str, key: str, text: Any) -> float:
    found = re.fullmatch(r"(\d+)(ms|s|m)?", str(text))
    if not found:
        raise BadCompose(f"service '{name}': {key} must be a time such as 10s, got {text!r}.")
    return int(found[1]) * {"ms": 0.001, "s": 1, "m": 60, None: 1}[found[2]]


def in_order(services: Mapping[str, Service]) -> list[Service]:
    """Every service after those it depends on."""
    waiting = {name: present(service, services) for name, service in services.items()}
    ordered: dict[str, Service] = {}
    while waiting:
        ready = [s for s in waiting.values() if all(other in ordered for other in s.after)]
        if not ready:
            raise BadCompose(f"depends_on goes in a circle: {', '.join(sorted(waiting))}.")
        for service in ready:
            ordered[service.name] = waiting.pop(service.name)
    return list(ordered.values())


def present(service: Service, services: Mapping[str, Service]) -> Service:
    """The service without dependencies that are optional and not there."""
    for other in service.after:
        if other not in services and other not in service.optional:
            raise BadCompose(
                f"service '{service.name}': depends_on names '{other}', which is not a "
                f"service of the active profiles.{nearest(other, services)}"
            )
    return replace(service, after={k: v for k, v in service.after.items() if k in services})
