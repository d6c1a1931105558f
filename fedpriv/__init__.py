"""fedpriv: how much private data leaks from what a federation shares, and which defence stops it.

import fedpriv

result = fedpriv.run("quickstart", settings={"federation.rounds": 3})
result.rounds, result.scores  # pandas tables
fedpriv.load("runs/quickstart-…")  # the result of an earlier run
"""

from pathlib import Path
from typing import Any

__all__ = ["RunResult", "load", "run"]

_ROOT = Path(__file__).resolve().parents[1]
if (_ROOT / "pyproject.toml").exists() and (_ROOT / "clients" / "app.py").exists():
    # In a checkout and in a Flower bundle four parts of the package lie beside this folder.
    __path__.append(str(_ROOT))


def __getattr__(name: str) -> Any:
    """The Python API: the core itself needs nothing above it."""
    if name in __all__:
        from fedpriv.simulations import api

        return getattr(api, name)
    raise AttributeError(f"module 'fedpriv' has no attribute '{name}'")
