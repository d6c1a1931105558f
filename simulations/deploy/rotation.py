"""New keys and certificates for a federation that goes on: `fedpriv deploy rotate`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

from fedpriv.errors import BadInput
from fedpriv.simulations.deploy.control import Control

What = Literal["leaves", "clients", "authority"]
SUPERLINK = "superlink"


class Engine(Protocol):
    """Whoever runs the services: this machine or Docker."""

    @property
    def up_now(self) -> bool:
        """Whether the federation runs."""

    def control(self) -> Control: ...

    def once(self, service: str, *words: str) -> None:
        """Run a service that ends by itself, with more words than the file has."""

    def lasting(self) -> Sequence[str]:
        """The services that go on."""

    def restart(self, services: Iterable[str]) -> None:
        """Stop services and wait until they are ready again."""

    def public_keys(self) -> Sequence[bytes]:
        """The keys of the clients that this federation's `keys` made."""


def rotated(engine: Engine, what: What, tell: Callable[[str], None]) -> None:
    """Make new keys, let services load them, and let in no longer what was replaced.

    leaves: the SuperLink's certificate, those between SuperNodes and executors, and the secrets.
    clients: the same, and the clients' registered keys. authority: the next authority, trusted
    beside the present one; it signs from the next rotation on.
    """
    running = engine.up_now
    if what == "clients" and not running:
        raise BadInput(
            "--client-keys needs a running federation, which lets the old keys in no longer; "
            "start it with `fedpriv deploy up`."
        )
    old = set(engine.public_keys()) if what == "clients" else set()
    engine.once("keys", f"--rotate={what}")
    if not running:
        tell("the federation is down; it starts with the new keys")
        return
    tell("restarting services with the new keys")
    engine.restart([name for name in engine.lasting() if name == SUPERLINK])
    if what == "clients":
        engine.once("enrol")
        control = engine.control()
        for node, _, key in control.nodes():
            if key in old:
                control.unregister(node)
    engine.restart([name for name in engine.lasting() if name != SUPERLINK])
