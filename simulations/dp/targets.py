"""Targets: what people name on the command line, as a mechanism that can be drawn from."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from flwr.serverapp.strategy import Strategy

from fedpriv.clients.catalogue import PLUGINS
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.errors import BadOption
from fedpriv.registry import imported
from fedpriv.scenario.binding import bound, nearest
from fedpriv.simulations.dp.messages import ModTarget, StrategyTarget, named_strategy
from fedpriv.simulations.dp.reference import REFERENCES
from fedpriv.simulations.dp.releases import Mechanism, Release, Session
from fedpriv.simulations.dp.samples import PluginTarget
from fedpriv.simulations.dp.worlds import World
from fedpriv.strategies.catalogue import STRATEGIES

MOD = ("msg", "message"), ("ctxt", "context", "ctx"), ("call_next", "next_", "call")


@dataclass(frozen=True)
class CallableTarget:
    """Any function from an update to an update, or from a list of updates to an update.

    A function says `takes = "updates"` to be given the list: of client updates, or of gradients of
    samples. Updates are dicts of numpy arrays by name. What it returns may have other names.
    """

    function: Callable[..., Release]
    name: str
    takes: Literal["update", "updates", "samples"] = "update"
    fixed: bool = False

    def session(self) -> Session:
        def release(world: World, _: int) -> Release:
            if self.takes == "updates":
                return self.function([dict(one) for one in world.updates])
            return self.function({k: v.copy() for k, v in world.updates[0].items()})

        return release


def target_of(name: str, options: Mapping[str, Any], unit: str = "client") -> Mechanism:
    """The mechanism that a name and its options describe."""
    if name in REFERENCES:
        reference: Mechanism = _built(REFERENCES[name], options, name)
        return reference
    if name in PLUGINS:
        return PluginTarget(name, options, unit)
    if name in STRATEGIES:
        return StrategyTarget(lambda clients: named_strategy(name, options, clients), name)
    if ":" not in name:
        known = [*REFERENCES, *PLUGINS, *(s for s in STRATEGIES if s.startswith("user-dp"))]
        raise BadOption(
            f"No mechanism is named '{name}'.{nearest(name, known)} Choose from: "
            f"{', '.join(known)}; or give pkg.module:name."
        )
    found = imported(name, "mechanism")
    if inspect.isclass(found) and issubclass(found, PrivacyPlugin):
        return PluginTarget(name, options, unit)
    if inspect.isclass(found) and issubclass(found, Strategy):
        return StrategyTarget.around(found, options, name)
    if inspect.isclass(found):
        found = _built(found, options, name)
    elif options:
        raise BadOption(f"'{name}' is a function and takes no --set options, got {dict(options)}.")
    if hasattr(found, "session"):
        return found  # type: ignore[no-any-return]
    if not callable(found):
        raise BadOption(
            f"'{name}' is a {type(found).__name__}; a mechanism must be something to call."
        )
    if is_mod(found):
        return ModTarget(lambda: found, name)
    return CallableTarget(
        found, name, getattr(found, "takes", "update"), getattr(found, "fixed", False)
    )


def is_mod(found: Callable[..., Any]) -> bool:
    """Whether something takes a message, a context and the next app, as Flower's mods do."""
    try:
        names = list(inspect.signature(found).parameters)
    except (TypeError, ValueError):
        return False
    return len(names) == 3 and all(n in known for n, known in zip(names, MOD, strict=True))


def _built(build: Callable[..., Any], options: Mapping[str, Any], name: str) -> Any:
    try:
        return build(**bound(build, options, f"mechanism '{name}'"))
    except (TypeError, ValueError) as error:
        raise BadOption(f"mechanism '{name}' refuses {dict(options)}: {error}.") from error
