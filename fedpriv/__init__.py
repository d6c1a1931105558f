"""fedpriv: how much private data leaks from what a federation shares, and which defence stops it.

import fedpriv

result = fedpriv.run("quickstart", settings={"federation.rounds": 3})
result.rounds, result.scores  # pandas tables
fedpriv.load("runs/quickstart-…")  # the result of an earlier run
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what editors and type checkers see; at run time `__getattr__` imports on demand
    from fedpriv.clients.keeping import keep_truth
    from fedpriv.clients.plugin import PrivacyPlugin
    from fedpriv.errors import FedprivError
    from fedpriv.evidence.candidates import Candidates
    from fedpriv.evidence.claims import Attribute, Claim, Features, Reconstruction
    from fedpriv.evidence.inferences import Members, Owners, Rates, Shares
    from fedpriv.evidence.observation import Observation
    from fedpriv.evidence.release import Release
    from fedpriv.evidence.truth import Truth
    from fedpriv.metrics.metric import Metric
    from fedpriv.registry import Entry
    from fedpriv.scenario import Scenario, read
    from fedpriv.simulations.api import RunResult, SweepResult, attack, audit, load, run, sweep
    from fedpriv.strategies import Curious, Exchange, record_to

__all__ = [
    "Attribute",
    "Candidates",
    "Claim",
    "Curious",
    "Entry",
    "Exchange",
    "Features",
    "FedprivError",
    "Members",
    "Metric",
    "Observation",
    "Owners",
    "PrivacyPlugin",
    "Rates",
    "Reconstruction",
    "Release",
    "RunResult",
    "Scenario",
    "Shares",
    "SweepResult",
    "Truth",
    "attack",
    "audit",
    "keep_truth",
    "load",
    "read",
    "record_to",
    "run",
    "sweep",
]

# The module that defines each name. Importing `fedpriv` alone imports none of them.
_HOMES = {
    "fedpriv.clients.keeping": ("keep_truth",),
    "fedpriv.clients.plugin": ("PrivacyPlugin",),
    "fedpriv.errors": ("FedprivError",),
    "fedpriv.evidence.candidates": ("Candidates",),
    "fedpriv.evidence.claims": ("Attribute", "Claim", "Features", "Reconstruction"),
    "fedpriv.evidence.inferences": ("Members", "Owners", "Rates", "Shares"),
    "fedpriv.evidence.observation": ("Observation",),
    "fedpriv.evidence.release": ("Release",),
    "fedpriv.evidence.truth": ("Truth",),
    "fedpriv.metrics.metric": ("Metric",),
    "fedpriv.registry": ("Entry",),
    "fedpriv.scenario": ("Scenario", "read"),
    "fedpriv.simulations.api": (
        "RunResult",
        "SweepResult",
        "attack",
        "audit",
        "load",
        "run",
        "sweep",
    ),
    "fedpriv.strategies": ("Curious", "Exchange", "record_to"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

_ROOT = Path(__file__).resolve().parents[1]
if (_ROOT / "pyproject.toml").exists() and (_ROOT / "clients" / "app.py").exists():
    # In a checkout and in a Flower bundle four parts of the package lie beside this folder.
    __path__.append(str(_ROOT))


def __getattr__(name: str) -> Any:
    """Import a name of the Python API when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'fedpriv' has no attribute '{name}'")
    found = getattr(import_module(_HOME[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
