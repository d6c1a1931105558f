"""The first screen of a page, beside its verdict: the worst leak, what was tested, what to do."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from fedpriv.evidence.claims import CLAIMS
from fedpriv.report.about_apps import facts_in
from fedpriv.report.blocks import Tile
from fedpriv.report.gallery import tiles
from fedpriv.report.kinds import Kind, kinds_of_audit, kinds_of_runs
from fedpriv.report.ladder import ladder
from fedpriv.report.leakage import Measure, clipped, measure, measures
from fedpriv.report.lights import WORDS, Light
from fedpriv.report.reading import Grid, Run
from fedpriv.tables import decisive

MOST = 6  # lines of what was tested, and of what was not
ORIGINAL = "original"
DECIBELS = "dB"
BESIDES = {"label-hit": "labels", "traced-hit": "owner"}  # what a drawn sample also shows


@dataclass(frozen=True)
class First:
    """What a reader sees before scrolling: a picture, kinds of claims, tested, not tested, to do.

    `command` is what to type for it. `scale` is one sample at several values of the metric, and
    `facts` are what was found about somebody's app by looking.
    """

    picture: Tile | None
    kinds: Sequence[Kind]
    tested: tuple[str, ...]
    untested: tuple[str, ...]
    todo: str
    command: str
    scale: Tile | None = None
    facts: tuple[str, ...] = ()


def first_of_runs(runs: Sequence[Run], what: Measure | None, light: Light = "green") -> First:
    """Of an audit by its coverage; of other runs by the attacks that they scored.

    `light` is the verdict's: no card is green where the verdict is undecided.
    """
    if len(runs) == 1 and "outcome" in runs[0].audit:
        return first_of_audit(runs[0], what)
    shown = defended(runs)
    picture, attacks, kinds = worst_of(shown, what), attackers(runs), kinds_of_runs(shown)
    if light == "grey":
        kinds = [undecided(kind) for kind in kinds]
    if not attacks:
        todo = "Nothing was attacked. An audit attacks the federation as it is configured:"
    elif light == "red":
        todo = "Take a defence. An audit tries those that fit, and names the cheapest that holds:"
    else:
        todo = "An audit runs every attack that fits, and says what holds with which confidence:"
    return First(
        picture,
        kinds,
        cut(attacks),
        cut(not_attacked(runs, kinds)),
        todo,
        audit_of(runs[0].environment, runs[0].scenario.name),
        scale_of(picture, what),
    )


def undecided(kind: Kind) -> Kind:
    return replace(kind, light="grey", word=WORDS["grey"]) if kind.light == "green" else kind


def first_of_audit(run: Run, what: Measure | None) -> First:
    """What an audit tested, and the next step by its outcome."""
    found = run.audit
    lines = found["coverage"]

    def said(state: str) -> list[str]:
        return [f"{line['claim']}: {line['threat']}" for line in lines if line["state"] == state]

    picture = worst_of([run], what)
    return First(
        picture,
        kinds_of_audit(found),
        cut(said("tested")),
        cut(said("not tested")),
        found["next"]["what"],
        found["next"]["command"],
        scale_of(picture, what),
        facts_in(run.app),
    )


def first_of_sweep(grid: Grid, what: Measure | None) -> First:
    """What a sweep attacked; the worst of a defended setting, or else of any."""
    scores = decisive(grid.scores)
    own = scores[scores["defence"] != "none"] if "defence" in scores else scores
    found = tiles(grid.folder, own if len(own) else scores, what, 1) if what else []
    picture = found[0] if found else None
    failed = grid.results.get("error", pd.Series("", grid.results.index)).fillna("") != ""
    answers = grid.results[~failed]
    names = [str(name) for name in dict.fromkeys(answers.get("attack", ())) if name]
    settings = grid.results.drop_duplicates([c for c in ("defence", "value") if c in grid.results])
    tested = [f"sample: {name}" for name in names]
    if len(settings):
        ended = f" of {len(failed)}" if failed.any() else ""
        tested.insert(0, f"{len(settings)} settings, {len(answers)}{ended} cells")
    todo = "An audit of the setting that you choose says what holds, with which confidence:"
    return First(
        picture,
        (),
        cut(tested),
        ("every attack that the sweep does not name",),
        todo,
        audit_of(grid.environment, "SCENARIO"),
        scale_of(picture, what),
    )


def defended(runs: Sequence[Run]) -> Sequence[Run]:
    """The runs that a verdict is about: those with a defence, where there are some."""
    return [run for run in runs if run.scenario.plugins and len(run.scores)] or runs


def attackers(runs: Sequence[Run]) -> list[str]:
    """`claim: by, attack` of every attack that was scored, with its number of samples."""
    found: dict[str, set[tuple[str, str]]] = {}
    for run in runs:
        for _, row in run.scores.iterrows():
            by, claim = row.get("by", "curious server"), row.get("claim", "sample")
            whose = f" of {run.name}" if len(runs) > 1 else ""
            also = [kind for column, kind in BESIDES.items() if row.notna().get(column)]
            claims = ", ".join(dict.fromkeys([claim, *also]))
            key = f"{claims}: {by}, {row.get('attack', '')}{whose}"
            found.setdefault(key, set()).add((str(row.get("node")), str(row.get("victim"))))
    return [f"{key} ({len(victims)} samples)" for key, victims in found.items()]


def not_attacked(runs: Sequence[Run], kinds: Sequence[Kind]) -> list[str]:
    """Runs or samples that nobody attacked, claims that nobody made, and all other attacks."""
    lines = []
    for run in runs if len(runs) > 1 else ():
        if run.scores.empty:
            lines.append(f"{run.name}: nothing was attacked")
        elif "claim" in run.scores and "sample" not in set(run.scores["claim"]):
            lines.append(f"{run.name}: nobody drew its samples")
    claimed = {str(claim) for run in runs for claim in run.scores.get("claim", ())}
    claimed |= {kind.claim for kind in kinds}
    silent = [kind for kind in CLAIMS if kind not in claimed]
    if claimed and silent:
        lines.append(f"no attack here asked for: {', '.join(silent)}")
    return [*lines, "every attack that the scenario does not name"]


def audit_of(environment: Mapping[str, Any], fallback: str) -> str:
    """The command for an audit of the scenario that a run was started with."""
    try:
        words = shlex.split(str(environment.get("command") or ""))
    except ValueError:  # a quote that nobody closed: `command` is what the shell had split
        words = []
    told = words[2:] if words[1:2] in (["run"], ["sweep"]) else []
    pairs = list(zip(["", *told], told, strict=False))
    names = [word for before, word in pairs if not word.startswith("-") and before[:2] != "--"]
    kept = [part for pair in pairs for part in pair if pair[0] in ("--set", "--profile")]
    return shlex.join(["fedpriv", "audit", *(names[:1] or [fallback]), *kept, "--minutes", "10"])


def worst_of(runs: Sequence[Run], what: Measure | None) -> Tile | None:
    """The worst reconstruction beside its original, by what decides or else by a sample's metric.

    Of an audit it is one of the federation as configured, where there is one.
    """
    shown = {run.name: configured(decisive(run.scores)) for run in runs}
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


def scale_of(picture: Tile | None, what: Measure | None) -> Tile | None:
    """The original of a picture at several PSNRs; nothing where there is no original."""
    original = dict(picture.parts).get(ORIGINAL) if picture else None
    shown = what if what is not None and what.unit == DECIBELS else measure("psnr")
    return ladder(original, shown.bound) if original else None


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
