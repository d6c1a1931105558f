"""Which way of sharing leaks least for what it learns? Every run on one data set in one picture.

Privacy is the median error of the strongest attack on a run, utility its accuracy. Codes and updates meet
in the same units, squared differences of pixels in [0, 1], so that they stand beside each other.
Runs and sweeps are read from their folders.
"""

import csv
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fedpriv.errors import BadFolder
from fedpriv.files import write_text
from fedpriv.metrics.tradeoff import pareto
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.representation.assess import table_text

ANALYSES = ("mask-overlap",)  # told a part of what is secret: no attack
Cells = Mapping[str, str]


@dataclass(frozen=True)
class Point:
    """One run: what it learned, and how wrong its strongest attacker stays."""

    data: str
    samples: int | None  # training samples, where a scenario takes fewer than all
    way: str  # what is shared: codes, columns or updates
    run: str
    plugins: str
    accuracy: float
    accuracy_shared: float  # where new samples are shared too, and carry the noise
    mse: float
    attack: str
    front: bool = False

    @property
    def kind(self) -> str:
        return f"{self.way}: {self.plugins}"


def error_of(row: Cells) -> float | None:
    """The MSE of a guess; from its PSNR for pictures, whose files need not hold both."""
    if row.get("psnr"):
        return 10 ** (-float(row["psnr"]) / 10)
    return float(row["mse"]) if row.get("mse") else None


def strongest(rows: Iterable[Cells]) -> tuple[float, str] | None:
    """The lowest median MSE of any attack, and which attack it is."""
    values: dict[str, list[float]] = {}
    for row in rows:
        value = error_of(row)
        if value is not None and not row["attack"].startswith(ANALYSES):
            values.setdefault(row["attack"], []).append(value)
    medians = {attack: statistics.median(found) for attack, found in values.items()}
    return min(((mse, attack) for attack, mse in medians.items()), default=None)


def rows_of(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def made(
    scenario: Scenario,
    run: str,
    plugins: str,
    accuracies: tuple[float, float],
    found: tuple[float, str] | None,
) -> list[Point]:
    """The point of a run; none when nothing was attacked."""
    if found is None:
        return []
    strategy, data = scenario.federation.strategy, scenario.data
    way = {"representation": "codes", "vertical": "columns"}.get(strategy, "updates")
    return [Point(data.name, data.limit, way, run, plugins, *accuracies, found[0], found[1])]


def points_of_run(folder: RunFolder, name: str) -> list[Point]:
    rounds = folder.rounds()
    if not rounds:
        return []
    scenario = folder.scenario()
    plugins = " + ".join(spec.name for spec in scenario.plugins) or "none"
    accuracies = accuracies_in(rounds[-1])
    return made(scenario, name, plugins, accuracies, strongest(rows_of(folder.scores_file)))


def accuracies_in(record: Mapping[str, float]) -> tuple[float, float]:
    """On clean codes, as a party has that uses the classifier itself, and as shared."""
    return record.get("train-accuracy-clean", record["accuracy"]), record["accuracy"]


def points_of_sweep(folder: Path) -> list[Point]:
    """One point for every defence and value of a sweep's results.csv."""
    scenario = RunFolder(folder).scenario()
    cells: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows_of(folder / "results.csv"):
        if row.get("accuracy") and row.get("psnr"):
            named = {**row, "attack": f"{row['attack']}, batch {row.get('batch-size', 1)}"}
            cells.setdefault((row["defence"], row.get("value", "")), []).append(named)
    found: list[Point] = []
    for (defence, value), rows in cells.items():
        accuracy = statistics.fmean(float(row["accuracy"]) for row in rows)
        name = f"{folder.name}/{defence} {value}".strip()
        found += made(scenario, name, defence, (accuracy, accuracy), strongest(rows))
    return found


def points_in(folders: Sequence[Path]) -> list[Point]:
    """The points of sweeps, runs and the variants below them, the best of each data set marked."""
    return marked([point for folder in folders for point in _points(folder)])


def _points(folder: Path) -> Iterator[Point]:
    if not folder.is_dir():
        raise BadFolder(f"'{folder}' is no folder; give the folders of runs or sweeps.")
    if (folder / "results.csv").exists():
        yield from points_of_sweep(folder)
        return
    for place in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        if (place / "scenario.toml").exists():
            name = place.name if place == folder else f"{folder.name}/{place.name}"
            yield from points_of_run(RunFolder(place), name)


def marked(points: Sequence[Point]) -> list[Point]:
    """The same points, those on the front of their data set marked (RAN fig. 3)."""
    found: list[Point] = []
    for data in dict.fromkeys(point.data for point in points):
        same = [point for point in points if point.data == data]
        best = set(pareto([(point.accuracy, point.mse) for point in same]))
        found += [replace(point, front=i in best) for i, point in enumerate(same)]
    return found


def write_pareto(folders: Sequence[Path], out: Path) -> list[Point]:
    """pareto.csv and pareto.png of the runs in `folders`, written into `out`."""
    from fedpriv.simulations.representation.fronts import draw

    points = points_in(folders)
    if not points:
        raise BadFolder(
            "None of these folders holds an attacked run (scores.csv); run a scenario with attacks "
            "first, such as `fedpriv run ars-mnist --profile small`."
        )
    write_text(out / "pareto.csv", table_text(asdict(point) for point in points))
    draw(points, out / "pareto.png")
    return points
