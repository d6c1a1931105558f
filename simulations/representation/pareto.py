"""Which way of sharing leaks least for what it learns? Every run on one data set in one picture.

Privacy is the mean error of the strongest attack on a run, utility its accuracy. Codes and updates meet
in the same units, squared differences of pixels in [0, 1], so that they stand beside each other.
"""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fedpriv.errors import BadFolder
from fedpriv.files import whole, write_text
from fedpriv.metrics.tradeoff import pareto
from fedpriv.runfolder import RunFolder
from simulations.representation.assess import table_text
from strategies.catalogue import SHARING_CODES


@dataclass(frozen=True)
class Point:
    """One run: what it learned, and how wrong its strongest attacker stays."""

    data: str
    way: str  # what is shared: codes, columns or updates
    run: str
    plugins: str
    accuracy: float
    mse: float
    attack: str
    front: bool = False


def strongest(
    rows: Iterable[dict[str, str]], spare: Sequence[str] = ()
) -> tuple[float, str] | None:
    """The lowest mean MSE of any attack in a scores.csv, and which attack it is."""
    values: dict[str, list[float]] = {}
    for row in rows:
        value = error_of(row)
        if value is not None and not row["attack"].startswith(tuple(spare) or ("\0",)):
            values.setdefault(row["attack"], []).append(value)
    means = {attack: sum(found) / len(found) for attack, found in values.items()}
    return min(((mse, attack) for attack, mse in means.items()), default=None)


def error_of(row: dict[str, str]) -> float | None:
    """The MSE of a guess, from its PSNR where a file has no MSE."""
    if row.get("mse"):
        return float(row["mse"])
    if row.get("psnr"):
        return 10 ** (-float(row["psnr"]) / 10)
    return None


def point_of(folder: RunFolder, name: str) -> Point | None:
    """The run's point; None when nothing was attacked."""
    if not folder.scores_file.exists() or not folder.rounds():
        return None
    scenario = folder.scenario()
    with folder.scores_file.open(newline="") as file:
        found = strongest(csv.DictReader(file), spare=("mask-overlap",))  # an analysis, no attack
    if found is None:
        return None
    strategy = scenario.federation.strategy
    way = {"representation": "codes", "vertical": "columns"}.get(strategy, "updates")
    return Point(
        data=scenario.data.name,
        way=way,
        run=name,
        plugins=" + ".join(spec.name for spec in scenario.plugins) or "none",
        accuracy=accuracy_of(folder.rounds()[-1], strategy),
        mse=found[0],
        attack=found[1],
    )


def accuracy_of(record: dict, strategy: str) -> float:
    """On clean codes where parties use the classifier themselves, else as measured."""
    if strategy in SHARING_CODES:
        return float(record.get("train-accuracy-clean", record["accuracy"]))
    return float(record["accuracy"])


def points_in(folders: Sequence[Path]) -> list[Point]:
    """The points of run folders and of the variants below them, the best of each data set marked."""
    found: list[Point] = []
    for folder in folders:
        if not folder.is_dir():
            raise BadFolder(f"'{folder}' is no folder; give the folders of runs.")
        places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
        for place in places:
            if (place / "scenario.toml").exists():
                name = place.name if place == folder else f"{folder.name}/{place.name}"
                point = point_of(RunFolder(place), name)
                found += [] if point is None else [point]
    return marked(found)


def marked(points: Sequence[Point]) -> list[Point]:
    """The same points, those on the front of their data set marked (RAN fig. 3)."""
    found = []
    for data in dict.fromkeys(point.data for point in points):
        same = [point for point in points if point.data == data]
        best = set(pareto([(point.accuracy, point.mse) for point in same]))
        found += [Point(**{**asdict(point), "front": i in best}) for i, point in enumerate(same)]
    return found


def draw(points: Sequence[Point], path: Path) -> None:
    """One panel a data set: accuracy against error, a colour for each kind of defence."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(point.data for point in points))
    columns = min(3, len(names))
    rows = math.ceil(len(names) / columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4.6 * columns, 3.6 * rows), squeeze=False, layout="constrained"
    )
    kinds = list(dict.fromkeys(f"{point.way}: {point.plugins}" for point in points))
    colours = {kind: f"C{number % 10}" for number, kind in enumerate(kinds)}
    shapes = {"codes": "o", "columns": "s", "updates": "^"}
    for axis, data in zip(axes.flat, names, strict=False):
        same = [point for point in points if point.data == data]
        front = sorted((p for p in same if p.front), key=lambda point: point.accuracy)
        axis.plot([p.accuracy for p in front], [p.mse for p in front], color="0.7", zorder=1)
        for point in same:
            kind = f"{point.way}: {point.plugins}"
            axis.scatter(
                point.accuracy,
                point.mse,
                color=colours[kind],
                marker=shapes[point.way],
                label=kind,
                zorder=2,
            )
        axis.set(title=data, xlabel="accuracy", ylabel="MSE of the best attack", yscale="log")
    for axis in list(axes.flat)[len(names) :]:
        axis.set_axis_off()
    handles = {
        label: handle
        for axis in axes.flat
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize="small"
    )
    with whole(path) as beside:
        figure.savefig(beside, format="png", dpi=120)
    plt.close(figure)


def write_pareto(folders: Sequence[Path], out: Path) -> list[Point]:
    """pareto.csv and pareto.png of the runs in `folders`, written into `out`."""
    points = points_in(folders)
    if not points:
        raise BadFolder(
            "None of these folders holds an attacked run (scores.csv); run a scenario with attacks "
            "first, such as `fedpriv run ars-mnist --profile small`."
        )
    write_text(out / "pareto.csv", table_text(asdict(point) for point in points))
    draw(points, out / "pareto.png")
    return points
