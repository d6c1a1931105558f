"""How commands that attack end: tables, where things are, and an exit code."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from fedpriv.errors import Interrupted, Undecided
from fedpriv.metrics.gates import Gate
from fedpriv.simulations.cli.tables import scores_tables
from fedpriv.simulations.judging.findings import LEFT_OUT
from fedpriv.simulations.judging.gate import check

EVERY = 2.0  # seconds between two lines of one attack
LOUD = ("warning", "fatal")  # findings that change what the figures mean


def told_on(
    console: Console, clock: Callable[[], float] = time.monotonic
) -> Callable[[str, float, int], None]:
    """A line for every attack as it begins and ends, and between them one every few seconds.

    Between them it says how much is done, and the time left.
    """
    began: dict[str, tuple[float, float]] = {}
    last: dict[str, float] = {}

    def tell(attack: str, done: float, total: int) -> None:
        now = clock()
        start, before = began.setdefault(attack, (now, done))
        if 0 < done < total and now - last.get(attack, -math.inf) < EVERY:
            return
        last[attack] = now
        left = ""
        if before < done < total:
            left = f"  {(now - start) / (done - before) * (total - done):.0f} s left"
        part = f"{done:.0f}" if done == int(done) else f"{done / total:.0%}"
        console.print(f"{attack}: {part} of {total} attacked{left}", highlight=False)

    return tell


def print_leaks(title: str, result: Mapping[str, Any], out: Console, err: Console) -> None:
    """What leaked, a table for each kind of claim; which attacks broke down or were left out.

    Warnings stand below the tables, since they say how the figures can be read.
    """
    for table in scores_tables(title, result.get("scores", [])):
        out.print(table)
    for failure in result.get("attacks-failed", []):
        err.print(f"{failure['attack']} failed: {failure['why']}", highlight=False, markup=False)
    drawn = any(row.get("claim") == "sample" for row in result.get("scores", []))
    for finding in result.get("findings", []):
        said = f"{finding['cause']}: {finding['detail']}"
        if finding["severity"] == LEFT_OUT:
            err.print(said, highlight=False, markup=False)
        elif finding["severity"] in LOUD and (drawn or not finding["evidence"]):
            err.print(f"warning: {said}", highlight=False, markup=False)  # of updates: if drawn


def finish(
    gates: Sequence[Gate], results: Iterable[Mapping[str, Any]], partial: bool, again: str = ""
) -> None:
    """GateCrossed if a score lies beyond a gate; Undecided or Interrupted if work was cut short.

    `results` hold the scores and the failed attacks of what was judged. `again` is the command
    that goes on with work that was cut short.
    """
    results = list(results)
    rows = [row for one in results for row in one.get("scores", [])]
    failed = [each["attack"] for one in results for each in one.get("attacks-failed", [])]
    with kept(partial, again):
        check(gates, rows, partial, failed)


def given(profile: str | None, settings: Sequence[str] | None) -> list[str]:
    """The options of a command that chose its settings, to be given again."""
    named = ["--profile", profile] if profile else []
    return named + [part for one in settings or () for part in ("--set", one)]


@contextmanager
def kept(partial: bool, again: str = "") -> Iterator[None]:
    """Around a gate: where work was cut short, the end says so and how to go on with it."""
    way = "Interrupted; what was found so far is kept and marked partial."
    way += f" Go on with: {again}" if again else ""
    try:
        yield
    except Undecided as error:
        raise Undecided(f"{error} {way}" if partial else str(error)) from None
    if partial:
        raise Interrupted(way)
