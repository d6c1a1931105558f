"""Which way of sharing leaks least for what it learns? Every run on the same samples in one panel.

Privacy is the median error of the strongest attack on a run, utility its accuracy for new samples
that are shared like the others. Codes and updates meet in the same units, squared differences of
pixels in [0, 1], so that they stand beside each other. Runs on other samples, or on more of them,
are not compared. Runs and sweeps are read from their folders.
"""

import math
import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedpriv.clients.catalogue import plural
from fedpriv.columns import BLIND
from fedpriv.errors import BadFolder
from fedpriv.metrics.intervals import bootstrap
from fedpriv.metrics.tradeoff import pareto
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of
from fedpriv.scenario.sharing import sharing_of
from fedpriv.sweepfolder import SweepFolder
from fedpriv.tables import decisive, write_table

if TYPE_CHECKING:
    import pandas as pd


WORDS = (
    "A point is a run: to the right it learned more, further up its best attack was more wrong. On "
    "the front no other run on the same samples is better in both. Point at a mark to read it."
)


@dataclass(frozen=True)
class Strongest:
    """The attack with the lowest median error, its interval over samples, and a blind guess's."""

    mse: float
    attack: str
    low: float | None = None
    high: float | None = None
    blind: float | None = None
    n: int = 0


@dataclass(frozen=True)
class Point:
    """One run: what it learned, and how wrong its strongest attacker stays."""

    data: str
    samples: int | None  # training samples, where a scenario takes fewer than all
    way: str  # what is shared: codes, columns or updates
    run: str
    plugins: str
    accuracy: float  # of new samples that are shared like the others, noise and PCA included
    accuracy_error: float
    accuracy_clean: float  # of a party's own samples, whose codes need no noise
    mse: float
    mse_low: float | None
    mse_high: float | None
    mse_blind: float | None
    n: int
    attack: str
    front: bool = False

    @property
    def group(self) -> str:
        """What it may be compared with."""
        return self.data if self.samples is None else f"{self.data}, {self.samples} samples"

    @property
    def kind(self) -> str:
        return f"{self.way}: {self.plugins}"


def errors_in(scores: "pd.DataFrame") -> "pd.Series":
    """The MSE of every guess; from its PSNR for pictures, whose old files need not hold both."""
    if "psnr" not in scores:
        return scores["mse"]
    from_psnr = 10 ** (-scores["psnr"] / 10)
    return from_psnr.fillna(scores["mse"]) if "mse" in scores else from_psnr


def strongest(scores: "pd.DataFrame", by: Sequence[str] = ("attack",)) -> Strongest | None:
    """The attack with the lowest median MSE; an analysis is no attack."""
    if scores.empty or not {"psnr", "mse"} & set(scores.columns):
        return None
    real = decisive(scores)
    real = real.assign(error=errors_in(real)).dropna(subset=["error"])
    groups = real.groupby(list(by), sort=False)
    if not len(groups):
        return None
    medians = groups["error"].median()
    key = medians.idxmin()
    rows = groups.get_group(key if isinstance(key, tuple) else (key,))
    named = key if isinstance(key, tuple) else (key,)
    low, high = bootstrap(rows["error"].to_numpy(), np.median)
    blind = rows["mse" + BLIND].dropna() if "mse" + BLIND in rows else rows["error"][:0]
    return Strongest(
        float(medians.min()),
        ", batch ".join(map(str, named)),
        low,
        high,
        float(blind.median()) if len(blind) else None,
        len(rows),
    )


def made(
    scenario: Scenario,
    run: str,
    plugins: str,
    accuracies: tuple[float, float],
    found: Strongest | None,
) -> list[Point]:
    """The point of a run; none when nothing was attacked. `accuracies` are as shared and clean."""
    if found is None:
        return []
    data = scenario.data
    row = sharing_of(scenario)
    way = "columns" if row.columns else plural(row.reply)
    shared, clean = accuracies
    error = math.sqrt(max(shared * (1 - shared), 0) / len(dataset_of(scenario).y_test))
    return [
        Point(
            data=data.name,
            samples=data.limit,
            way=way,
            run=run,
            plugins=plugins,
            accuracy=shared,
            accuracy_error=error,
            accuracy_clean=clean,
            mse=found.mse,
            mse_low=found.low,
            mse_high=found.high,
            mse_blind=found.blind,
            n=found.n,
            attack=found.attack,
        )
    ]


def points_of_run(folder: RunFolder, name: str) -> list[Point]:
    rounds = folder.rounds()
    if not rounds:
        return []
    scenario = folder.scenario()
    plugins = " + ".join(spec.name for spec in scenario.plugins) or "none"
    return made(scenario, name, plugins, accuracies_in(rounds[-1]), strongest(folder.scores()))


def accuracies_in(record: Mapping[str, float]) -> tuple[float, float]:
    """As shared, and on clean codes, as a party has that uses the classifier itself."""
    return record["accuracy"], record.get("train-accuracy-clean", record["accuracy"])


def points_of_sweep(folder: SweepFolder) -> list[Point]:
    """One point for every defence and value of a sweep's results."""
    scenario, results = folder.scenario(), folder.results()
    found: list[Point] = []
    if not {"accuracy", "defence"} <= set(results.columns):
        return found
    results = results.dropna(subset=["accuracy"])
    results = results.assign(
        value=results["value"].fillna("").astype(str) if "value" in results else "",
        batch=results.get("batch", 1),
    )
    for (defence, value), rows in results.groupby(["defence", "value"], sort=False):
        accuracy = statistics.fmean(rows["accuracy"])
        name = f"{folder.path.name}/{defence} {value}".strip()
        best = strongest(rows, by=("attack", "batch"))
        found += made(scenario, name, str(defence), (accuracy, accuracy), best)
    return found


def points_in(folders: Sequence[Path]) -> list[Point]:
    """The points of sweeps, runs and the variants below them, the best of each data set marked."""
    return marked([point for folder in folders for point in _points(folder)])


def _points(folder: Path) -> Iterator[Point]:
    if not folder.is_dir():
        raise BadFolder(f"'{folder}' is no folder; give the folders of runs or sweeps.")
    if SweepFolder(folder).exists():
        yield from points_of_sweep(SweepFolder(folder))
        return
    for place in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        if RunFolder(place).scenario_file.exists():
            name = place.name if place == folder else f"{folder.name}/{place.name}"
            yield from points_of_run(RunFolder(place), name)


def marked(points: Sequence[Point]) -> list[Point]:
    """The same points, those on the front of the same samples marked (RAN fig. 3)."""
    found: list[Point] = []
    for group in dict.fromkeys(point.group for point in points):
        same = [point for point in points if point.group == group]
        best = set(pareto([(point.accuracy, point.mse) for point in same]))
        found += [replace(point, front=i in best) for i, point in enumerate(same)]
    return found


def write_pareto(folders: Sequence[Path], out: RunFolder) -> list[Point]:
    """The table and the picture of the runs in `folders`, written into `out`."""
    from fedpriv.files import write_bytes
    from fedpriv.report.blocks import Section
    from fedpriv.report.fronts import charts, draw
    from fedpriv.report.page import plain_page

    points = points_in(folders)
    if not points:
        raise BadFolder(
            "None of these folders holds an attacked run (scores.csv); run a scenario with attacks "
            "first, such as `fedpriv run ars-mnist --profile small`."
        )
    write_table(out.pareto_file, [asdict(point) for point in points])
    draw(points, out.pareto_picture)
    command = shlex.join(["fedpriv", "pareto", *map(str, folders), "--out", str(out.path)])
    section = Section("pareto", "Accuracy against leakage", WORDS, charts=charts(points))
    page = plain_page("What each way of sharing leaks for what it learns", [section], command)
    write_bytes(out.pareto_page, page.encode("utf-8"))
    return points
