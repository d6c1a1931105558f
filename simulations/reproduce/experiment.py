"""What an experiment is, and what a row of the table of papers is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from fedpriv.simulations.reproduce.cells import Cell
from fedpriv.tables import Row

Verdict = Literal["reproduced", "refuted", "undecided", "not done", "nothing to test"]
Work = Literal["run", "sweep"] | Callable[[Cell], list[Row]]
FEWEST = 3  # seeds; with fewer of them nothing is decided
TOLD = 2  # seeds; with one of them there is nothing to say
USUAL = "small"  # the profile of the page's rows; another one's rows stand beside them


class Lacking(Exception):
    """A judge has no rows of a setting that it compares."""


@dataclass(frozen=True)
class Finding:
    """What a judge says of an experiment's rows: the result in words, with its interval."""

    verdict: Verdict
    result: str
    against: str = ""  # which attackers: blind (they know no defence), informed


Judge = Callable[[Sequence[Row]], Finding]  # the rows of the experiment's CSV file


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One CSV file: a scenario that is run with several seeds.

    `work` "run" has a cell for each variant and seed, "sweep" one for each seed. A function takes
    a cell and gives its rows; it has one cell for each seed, too. `spare` seeds are run as well
    when a judge is undecided after the others. `metrics` get an interval over victims. One that
    takes hours is run `alone`: by its own name, not with its paper.
    """

    name: str  # of the CSV file and of the command's argument
    scenario: str
    rule: str  # by which settings were chosen, on what other data or seeds
    seeds: tuple[int, ...] = (101, 102, 103)
    spare: tuple[int, ...] = ()
    settings: tuple[str, ...] = ()  # as after --set, over the profile's
    variants: tuple[str, ...] = ()  # those of the scenario that are run; all without
    work: Work = "run"
    metrics: tuple[str, ...] = ("mse", "psnr")
    about: str = ""  # data, model and sizes in words, for the table
    alone: bool = False


@dataclass(frozen=True, kw_only=True)
class Item:
    """A table or figure of a paper: what it claims, and how that is tested."""

    where: str  # "table 1"
    claim: str
    figures: str = ""  # the paper's
    experiment: str = ""  # the name of one
    beside: str = ""  # another one, whose rows the judge is given too
    judge: Judge | None = None
    runs: tuple[str, ...] = ()  # the variants that the verdict rests on; without any, all rows
    why_not: str = ""  # the reason, where there is no experiment
    nothing: str = ""  # what it is, where it claims nothing that another row does not test
    decide: str = ""  # the command that would decide it


@dataclass(frozen=True)
class Paper:
    """A paper's short name, its reference, its items and experiments."""

    name: str
    reference: str
    items: tuple[Item, ...]
    experiments: tuple[Experiment, ...] = ()


def table_name(experiment: str, profile: str = USUAL) -> str:
    """The CSV file of an experiment; each profile has its own."""
    return f"{experiment}.csv" if profile == USUAL else f"{experiment}-{profile}.csv"


def compared(item: Item, rows: Sequence[Row]) -> list[Row]:
    """The rows that an item rests on: of its runs, and of the seeds that all of these have."""
    if not item.runs:
        return list(rows)
    seeds = [{row["seed"] for row in rows if row["run"] == run} for run in item.runs]
    common = set.intersection(*seeds)
    return [row for row in rows if row["run"] in item.runs and row["seed"] in common]


def lacking(item: Item, rows: Sequence[Row]) -> str:
    """The runs that no seed has yet, in words."""
    there = {row.get("run") for row in rows}
    missing = [run for run in item.runs if run not in there]
    return f"these runs have not been made yet: {', '.join(missing)}" if missing else ""


def concluded(item: Item, rows: Sequence[Row], hours: str = "") -> Finding:
    """The judge's finding; fewer than three seeds decide nothing, and one is not told at all.

    `hours` is what a trial said of an experiment that was not run.
    """
    if item.nothing:
        return Finding("nothing to test", item.nothing)
    if item.judge is None or not item.experiment:
        return Finding("not done", item.why_not)
    if not rows:
        return Finding("not done", item.why_not or hours or "it has not been run yet")
    if missing := lacking(item, rows):
        return Finding("not done", missing)
    own = compared(item, rows)
    seeds = {row["seed"] for row in own}
    if len(seeds) < TOLD:
        return Finding("not done", f"{len(seeds)} of at least {FEWEST} seeds have been run yet")
    try:
        found = item.judge([row for row in rows if row["seed"] in seeds])
    except Lacking as error:
        return Finding("not done", str(error))
    if len(seeds) < FEWEST and found.verdict in ("reproduced", "refuted"):
        told = f"{found.result}; {len(seeds)} of at least {FEWEST} seeds"
        return Finding("undecided", told, found.against)
    return found
