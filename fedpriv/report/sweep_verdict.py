"""The answer at the top of a sweep's page: which defence holds, against whom, at what price."""

import pandas as pd

from fedpriv.metrics.rates import SHARE, victims_for
from fedpriv.report.about_sweeps import (
    finished,
    measure_of,
    setting_names,
    settings_in,
    worst_in,
)
from fedpriv.report.leakage import Measure, deciding
from fedpriv.report.lights import Light, too_few
from fedpriv.report.reading import Grid
from fedpriv.report.verdict import Verdict


def verdict_of_sweep(grid: Grid) -> Verdict:
    """A setting holds when it is within every gate; one with a cell missing was not tested."""
    what = measure_of(grid)
    done = finished(grid, what) if what else pd.DataFrame()
    if what is None or done.empty:
        return Verdict("grey", ("No cell of this sweep has finished yet.",))
    settings = settings_in(done, what)
    bare, defended = settings[~settings["defended"]], settings[settings["defended"]]
    if defended.empty:
        best = what.shown(worst_in(bare["leak"], what))
        return Verdict("grey", (f"No defence was tried; without one an attack reached {best}.",))
    gates = deciding(grid.results, grid.gates)
    crossed, untested = beyond(grid, gates), unmeasured(grid, gates)
    holds = defended[~defended["name"].isin(crossed)]
    whole = holds[~holds["name"].isin(untested)]
    sure = whole[whole["tested"]]
    shown = sure[~sure["victims"].map(too_few)]
    light: Light = "red"
    if len(holds):
        light = "green" if len(shown) else "grey"
    named = grid.results["plugins" if "plugins" in grid.results else "defence"] != "none"
    every = setting_names(grid.results[named]).nunique()
    counted = _counted(defended, every, len(sure), what, gates, len(holds) - len(whole))
    if len(sure) > len(shown):
        counted += _few(sure["victims"])
    return Verdict(light, (counted, _best(done, bare, what), _price(sure, bare)))


def _few(victims: pd.Series) -> str:
    """That a setting of which few victims were attacked may leak in the next one."""
    number = int(victims.min())
    counted = f"{number} victim{'s' if number > 1 else ''} a setting" if number else "an unknown n"
    return (
        f" That is no proof, with {counted}: {victims_for(SHARE)} victims without a hit are needed "
        f"to say that at most {SHARE:.0%} of samples leak (95 % confidence)."
    )


def beyond(grid: Grid, gates: list[Measure]) -> set[str]:
    """The settings of which one victim is beyond a gate."""
    found: set[str] = set()
    for gate in gates:
        done = finished(grid, gate)
        if not done.empty:
            found |= set(done["setting"][done["leak"].map(gate.crosses)])
    return found


def unmeasured(grid: Grid, gates: list[Measure]) -> set[str]:
    """The settings that were not tested fully: a cell is missing, or a gate has no value."""
    frame = grid.results
    names = setting_names(frame)
    found = set(names[frame["error"].fillna("") != ""]) if "error" in frame else set()
    for gate in gates:
        done = finished(grid, gate)
        found |= set(names) - (set() if done.empty else set(done["setting"]))
    return found


def _counted(
    defended: pd.DataFrame,
    every: int,
    sure: int,
    what: Measure,
    gates: list[Measure],
    missing: int,
) -> str:
    """How many settings have a defence and a result, and how many of them hold against whom."""
    tried = defended["unaware"].notna()
    kept = (tried & ~defended["unaware"].map(what.crosses)).sum()
    bound = f"keep every reconstruction within {what.shown(what.bound)}"
    unaware = f"Against attackers who do not know it, {kept} of them {bound}."
    if not tried.all():
        unaware = f"Attackers who do not know it gave a result on {tried.sum()}"
        unaware += f"; {kept} of these {bound}." if tried.any() else "."
    result = "" if every == len(defended) else f", {len(defended)} of them a result"
    bounds = " and ".join(f"{gate.shown(gate.bound)} {gate.word}" for gate in gates)
    text = (
        f"{every} settings have a defence{result}. {unaware} "
        f"Attackers who know it were tried on {defended['tested'].sum()}; {sure} of these keep "
        f"every reconstruction within {bounds if len(gates) > 1 or not tried.any() else 'it'}."
    )
    if missing:
        text += f" {missing} more may hold, but were not tested fully: cells are missing or failed."
    return text


def _best(done: pd.DataFrame, bare: pd.DataFrame, what: Measure) -> str:
    worst = done.sort_values("leak", ascending=not what.high, kind="stable").iloc[0]
    blind = "" if pd.isna(worst["blind"]) else f" (a blind guess: {what.shown(worst['blind'])})"
    text = (
        f"The best reconstruction, {what.shown(worst['leak'])}{blind}, came from "
        f"{worst['setting']} with the attack {worst['attack']}"
    )
    if bare.empty:
        return f"{text}."
    return f"{text}; without a defence it was {what.shown(worst_in(bare['leak'], what))}."


def _price(holds: pd.DataFrame, bare: pd.DataFrame) -> str:
    if holds.empty:
        return (
            "No setting was shown to hold against an attacker who knows it, so there is no price "
            "to name."
        )
    best = holds.sort_values("accuracy", ascending=False, kind="stable").iloc[0]
    text = f"The setting that holds and costs least is {best['name']} with "
    text += f"{best['accuracy']:.1%} accuracy"
    return text + (f", {bare['accuracy'].mean():.1%} without a defence." if len(bare) else ".")
