"""The first screen of a page, beside its verdict: the worst leak, what was tested, what to do."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from fedpriv.report.blocks import Tile
from fedpriv.report.gallery import tiles
from fedpriv.report.leakage import Measure, clipped, measures
from fedpriv.report.reading import Grid, Run

MOST = 6  # lines of what was tested, and of what was not


@dataclass(frozen=True)
class First:
    """What a reader sees before scrolling: a picture, tested, not tested, and what to do next.

    `command` is what to type for it.
    """

    picture: Tile | None
    tested: tuple[str, ...]
    untested: tuple[str, ...]
    todo: str
    command: str


def first_of_runs(runs: Sequence[Run], what: Measure | None) -> First:
    """Of an audit by its coverage; of other runs by the attacks that they scored."""
    if len(runs) == 1 and "outcome" in runs[0].audit:
        return first_of_audit(runs[0], what)
    attacks = attackers(runs)
    named = str(runs[0].scenario.name)
    untested = ("every attack that the scenario does not name",)
    if not attacks:
        todo = "Nothing was attacked. An audit attacks the federation as it is configured:"
    else:
        todo = "An audit runs every attack that fits and says what holds, with its confidence:"
    command = shlex.join(["fedpriv", "audit", named, "--minutes", "10"])
    return First(worst_of(runs, what), cut(attacks), untested, todo, command)


def first_of_audit(run: Run, what: Measure | None) -> First:
    """What an audit tested, and the next step by its outcome."""
    found = run.audit
    lines = found["coverage"]

    def said(state: str) -> list[str]:
        return [f"{line['claim']}: {line['threat']}" for line in lines if line["state"] == state]

    return First(
        worst_of([run], what),
        cut(said("tested")),
        cut(said("not tested")),
        found["next"]["what"],
        found["next"]["command"],
    )


def first_of_sweep(grid: Grid) -> First:
    """What a sweep attacked; an audit of one setting is the next step."""
    names = [str(name) for name in dict.fromkeys(grid.results.get("attack", ())) if name]
    untested = ("every attack that the sweep does not name",)
    todo = "An audit of the setting that you choose says what holds, with its confidence:"
    command = "fedpriv audit SCENARIO --minutes 10"
    return First(None, cut(names), untested, todo, command)


def attackers(runs: Sequence[Run]) -> list[str]:
    """`claim: attack (by)` of every attack that was scored, with its number of samples."""
    found: dict[str, set[tuple[str, str]]] = {}
    for run in runs:
        for _, row in run.scores.iterrows():
            by, claim = row.get("by", "curious server"), row.get("claim", "sample")
            key = f"{claim}: {by}, {row.get('attack', '')}"
            found.setdefault(key, set()).add((str(row.get("node")), str(row.get("victim"))))
    return [f"{key} ({len(victims)} samples)" for key, victims in found.items()]


def worst_of(runs: Sequence[Run], what: Measure | None) -> Tile | None:
    """The worst reconstruction beside its original, by what decides or else by a sample's metric.

    Of an audit it is one of the federation as configured, where there is one.
    """
    shown = {run.name: configured(run.scores) for run in runs}
    known = pd.concat(list(shown.values())) if shown else pd.DataFrame()
    gates = [gate for run in runs for gate in run.gates]
    for one in [one for one in (what, *measures(known, gates)) if one is not None]:
        if one.metric.of != "sample":
            continue
        there = [run for run in runs if one.measured(shown[run.name])]
        order = sorted(there, key=lambda run: -badness(shown[run.name], one))
        for run in order:
            name = run.name if len(runs) > 1 else ""
            if found := tiles(run.folder, shown[run.name], one, 1, name):
                return found[0]
    return None


def configured(scores: pd.DataFrame) -> pd.DataFrame:
    """The scores of the federation as configured; all where nobody says which they are."""
    if "configured" not in scores:
        return scores
    own = scores[scores["configured"].astype(bool)]
    return scores if own.empty else own


def badness(scores: pd.DataFrame, what: Measure) -> float:
    """The worst value of some scores, larger for worse."""
    values = clipped(scores[what.name])
    return float(values.max()) if what.high else -float(values.min())


def cut(lines: Sequence[str]) -> tuple[str, ...]:
    """The first lines, and how many more there are."""
    if len(lines) <= MOST:
        return tuple(lines)
    return (*lines[: MOST - 1], f"and {len(lines) - MOST + 1} more, below")
