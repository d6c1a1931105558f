"""What Ray's start costs on this machine: measured whenever fedpriv starts one, and remembered.

Before the first start it is estimated from what a new process takes to import what a client needs:
Ray starts daemons and workers, and each worker imports that.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from fedpriv.files import write_text

KEPT = 5  # of the last starts, whose median counts
IMPORTS = 4.0  # a start in units of one worker's imports: two processes one after the other, twice
LONGEST = 120.0  # seconds that imports may take before they count as that long


def place() -> Path:
    """The file in which starts are remembered."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "fedpriv" / "ray-start.json"


def remembered() -> list[float]:
    """Seconds of the last starts on this machine; none where the file is missing or damaged."""
    try:
        found = json.loads(place().read_text(encoding="utf-8"))
        return [float(value) for value in found["seconds"]][-KEPT:]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def remember(seconds: float) -> None:
    """Add a start; a machine where nothing can be written forgets it."""
    values = [*remembered(), round(seconds, 2)][-KEPT:]
    with suppress(OSError):
        place().parent.mkdir(parents=True, exist_ok=True)
        write_text(place(), json.dumps({"seconds": values}) + "\n")


@cache
def import_seconds() -> float:
    """What a new process takes until it has imported what a client needs."""
    begun = time.monotonic()
    command = [sys.executable, "-c", "import fedpriv.clients.app, ray"]
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(command, check=False, timeout=LONGEST, capture_output=True)
    return time.monotonic() - begun


def start_seconds(estimate: Callable[[], float] = import_seconds) -> tuple[float, str]:
    """What a start costs here, and how that is known."""
    known = remembered()
    if known:
        return statistics.median(known), f"as its last {len(known)} starts on this machine took"
    return IMPORTS * estimate(), "estimated from the imports of one process"
