"""Modules of Flower that apps still import by the names they had before they were moved."""

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

MOVED: Mapping[str, Sequence[str]] = {
    "flwr.client.typing": ("flwr.compat.client.typing", "flwr.clientapp.typing"),
}


def serve_moved(moved: Mapping[str, Sequence[str]] = MOVED) -> None:
    """From now on in this process, old names find what the new modules hold."""
    for old, places in moved.items():
        if importlib.util.find_spec(old) is not None:
            continue
        found = ModuleType(old, f"What {' and '.join(places)} hold, by an older name.")
        for place in places:
            held = vars(importlib.import_module(place))
            vars(found).update({k: v for k, v in held.items() if not k.startswith("__")})
        sys.modules[old] = found
