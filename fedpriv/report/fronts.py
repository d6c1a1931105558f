"""The picture of pareto.csv: a panel for runs on the same samples, a colour for each defence."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import matplotlib

from fedpriv.files import whole
from fedpriv.report.charts import MARKS, PERCENT, Chart, percent

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator, PercentFormatter


class Point(Protocol):
    """One run: what it learned, and how wrong its strongest attacker stays."""

    @property
    def group(self) -> str: ...
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
    def accuracy_error(self) -> float: ...
    @property
    def mse_low(self) -> float | None: ...
    @property
    def mse_high(self) -> float | None: ...
    @property
    def mse_blind(self) -> float | None: ...
    @property
    def attack(self) -> str: ...
    @property
    def front(self) -> bool: ...


LOWEST = 1e-4  # of the errors drawn, 40 dB: below it a picture is given away anyhow
NAMED = 25  # points of a chart that have room for their names; the others show them on hover
SHAPES = {"codes": "o", "columns": "s", "updates": "^"}


def draw(points: Sequence[Point], path: Path) -> None:
    """Accuracy to the right, the strongest attack's error upwards, 95 % intervals around both.

    Only the best among runs on the same samples are joined. The dotted line is a blind guess: what
    lies above it hides all that this attack could find. Errors below the lowest drawn are at the
    bottom, marked "≤".
    """
    names = list(dict.fromkeys(point.group for point in points))
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
    for axis, group in zip(axes.flat, names, strict=False):
        same = [point for point in points if point.group == group]
        front = sorted((p for p in same if p.front), key=lambda point: point.accuracy)
        axis.plot(
            [p.accuracy for p in front], [height(p.mse) for p in front], color="0.7", zorder=1
        )
        for point in same:
            shown[point.kind] = drawn(axis, point, colours[point.kind])
        blind = [point.mse_blind for point in same if point.mse_blind]
        if blind:
            axis.axhline(statistics.median(blind), color="0.4", linestyle=":", zorder=0)
        errors = [height(point.mse) for point in same]
        scale = "log" if max(errors) > 10 * min(errors) else "linear"
        axis.set(title=group, xlabel="accuracy", ylabel="median MSE of the best attack")
        axis.set_yscale(scale)
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.xaxis.set_major_formatter(PercentFormatter(1))
        axis.margins(x=0.2, y=0.2)
    for axis in list(axes.flat)[len(names) :]:
        axis.set_axis_off()
    figure.legend(
        shown.values(), shown.keys(), loc="outside lower center", ncols=3, fontsize="small"
    )
    with whole(path) as beside:
        figure.savefig(beside, format="png", dpi=120)
    plt.close(figure)


def charts(points: Sequence[Point]) -> list[Chart]:
    """The same for a page: one chart a group, whose points say all about themselves."""
    kinds = list(dict.fromkeys(point.kind for point in points))
    return [
        _chart(number, group, [p for p in points if p.group == group], kinds)
        for number, group in enumerate(dict.fromkeys(point.group for point in points))
    ]


def _chart(number: int, group: str, same: Sequence[Point], kinds: Sequence[str]) -> Chart:
    data: list[dict[str, Any]] = []
    for kind in dict.fromkeys(point.kind for point in same):
        own = [point for point in same if point.kind == kind]
        place = kinds.index(kind)
        mark = {"symbol": MARKS[place % len(MARKS)], "size": 10}
        data.append(
            {
                "type": "scatter",
                "mode": "markers+text" if len(same) < NAMED else "markers",
                "name": kind,
                "x": [point.accuracy for point in own],
                "y": [height(point.mse) for point in own],
                "text": [short(point) for point in own],
                "hovertext": [told(point) for point in own],
                "marker": mark,
                "meta": place,
            }
        )
    errors = [height(point.mse) for point in same]
    logarithmic = {"type": "log"} if max(errors) > 10 * min(errors) else {}
    layout = {
        "xaxis": {"title": {"text": "accuracy"}, "tickformat": PERCENT},
        "yaxis": {"title": {"text": "median MSE of the best attack"}} | logarithmic,
        "showlegend": True,
    }
    columns = ("run", "plugins", "accuracy", "MSE", "blind guess", "best attack", "on the front")
    rows = [
        (
            p.run,
            p.kind,
            percent(p.accuracy),
            f"{p.mse:.4f}",
            "–" if p.mse_blind is None else f"{p.mse_blind:.4f}",
            p.attack,
            "yes" if p.front else "",
        )
        for p in same
    ]
    return Chart(f"pareto-{number}", group, data, layout, columns, rows)


def short(point: Point) -> str:
    """A point's name in a picture, marked where its error is below the lowest drawn."""
    return ("≤ " if point.mse < LOWEST else "") + point.run.rpartition("/")[2]


def told(point: Point) -> str:
    """What a reader sees of a point under the pointer."""
    blind = "" if point.mse_blind is None else f", a blind guess {point.mse_blind:.4f}"
    front = "; on the front" if point.front else ""
    return (
        f"{point.run} ({point.kind}): accuracy {percent(point.accuracy)}, MSE {point.mse:.4f} by "
        f"{point.attack}{blind}{front}"
    )


def height(mse: float) -> float:
    """Where an error is drawn."""
    return max(mse, LOWEST)


def drawn(axis: Any, point: Point, colour: Any) -> Any:
    """A point with its intervals and its name, which stays within the frame."""
    low, high = point.mse_low or point.mse, point.mse_high or point.mse
    down, up = height(point.mse) - height(low), height(high) - height(point.mse)
    made = axis.errorbar(
        point.accuracy,
        height(point.mse),
        xerr=1.96 * point.accuracy_error,
        yerr=[[max(down, 0)], [max(up, 0)]],
        color=colour,
        marker=SHAPES[point.way],
        linestyle="none",
        elinewidth=0.8,
        zorder=2,
    )
    axis.annotate(
        short(point),
        (point.accuracy, height(point.mse)),
        xytext=(3, 4),
        textcoords="offset points",
        fontsize="xx-small",
        weight="bold" if point.front else "normal",
        annotation_clip=True,
    )
    return made
