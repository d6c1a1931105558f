"""Names of Flower that apps still import from where they were before they were moved."""

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

MOVED: Mapping[str, Sequence[str]] = {  # an older module, and where its names are now
    "flwr.client.typing": ("flwr.compat.client.typing", "flwr.clientapp.typing"),
    "flwr.common.typing": ("flwr.app.user_config", "flwr.app.typing"),
}


def serve_moved(moved: Mapping[str, Sequence[str]] = MOVED) -> None:
    """From now on in this process, older modules have the names that they lost."""
    for old, places in moved.items():
        here = importlib.util.find_spec(old) is not None
        found = importlib.import_module(old) if here else ModuleType(old)
        for place in places:
            if importlib.util.find_spec(place) is None:
                continue
            for name, value in vars(importlib.import_module(place)).items():
                if not name.startswith("__") and not hasattr(found, name):
                    setattr(found, name, value)
        sys.modules[old] = found
