"""The picture of pareto.csv: a panel for each data set, a colour for each kind of defence."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import matplotlib

from fedpriv.files import whole

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator, PercentFormatter


class Point(Protocol):
    """One run: what it learned, and how wrong its strongest attacker stays."""

    @property
    def data(self) -> str: ...
    @property
    def way(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def run(self) -> str: ...
    @property
    def accuracy(self) -> float: ...
    @property
    def mse(self) -> float: ...
    @property
    def front(self) -> bool: ...


TINY = 1e-12
SHAPES = {"codes": "o", "columns": "s", "updates": "^"}


def draw(points: Sequence[Point], path: Path) -> None:
    """Accuracy to the right, the strongest attack's error upwards. The best have their names."""
    names = list(dict.fromkeys(point.data for point in points))
    columns = min(3, len(names))
    rows = math.ceil(len(names) / columns)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(max(6.4, 4.6 * columns), 3.6 * rows + 1),
        squeeze=False,
        layout="constrained",
    )
    kinds = list(dict.fromkeys(point.kind for point in points))
    palette = matplotlib.colormaps["tab10" if len(kinds) <= 10 else "tab20"]
    colours = {kind: palette(number % palette.N) for number, kind in enumerate(kinds)}
    shown = {}
    for axis, data in zip(axes.flat, names, strict=False):
        same = [point for point in points if point.data == data]
        front = sorted((p for p in same if p.front), key=lambda point: point.accuracy)
        axis.plot([p.accuracy for p in front], [p.mse for p in front], color="0.7", zorder=1)
        for point in same:
            shown[point.kind] = axis.scatter(
                point.accuracy,
                point.mse,
                color=colours[point.kind],
                marker=SHAPES[point.way],
                zorder=2,
            )
        for point in front:
            axis.annotate(
                point.run.rpartition("/")[2],
                (point.accuracy, point.mse),
                xytext=(2, 5),
                textcoords="offset points",
                fontsize="x-small",
                rotation=40,
            )
        errors = [point.mse for point in same]
        scale = "log" if max(errors) > 10 * max(min(errors), TINY) else "linear"
        axis.set(title=data, xlabel="accuracy", ylabel="median MSE of the best attack")
        axis.set_yscale(scale)
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.xaxis.set_major_formatter(PercentFormatter(1))
        axis.margins(x=0.15, y=0.2)
    for axis in list(axes.flat)[len(names) :]:
        axis.set_axis_off()
    figure.legend(
        shown.values(), shown.keys(), loc="outside lower center", ncols=3, fontsize="small"
    )
    with whole(path) as beside:
        figure.savefig(beside, format="png", dpi=120)
    plt.close(figure)
