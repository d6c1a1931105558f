"""Charts as plain data and layout; `drawing` makes pictures of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedpriv.metrics.tradeoff import ppc
from fedpriv.report.leakage import Measure, grouped, measure
from fedpriv.report.reading import Run

MARKS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross", "hexagon")
DASHES = ("solid", "dash", "dot", "dashdot")
PERCENT = ".3~p"  # 90 %, and 7.95 % where an axis spans little


@dataclass(frozen=True)
class Chart:
    """A figure, what it shows in words, and its numbers as a table for readers without scripts."""

    name: str
    title: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    @property
    def figure(self) -> dict[str, Any]:
        return {"data": _finite(self.data), "layout": self.layout}

    @property
    def numbers(self) -> set[int]:
        """The columns that hold figures: all but the first."""
        return set(range(1, len(self.columns)))


def accuracy_by_round(runs: Sequence[Run]) -> Chart:
    """Test accuracy of the public model after each round."""
    data, rows = [], []
    for index, run in enumerate(runs):
        rounds = [record["round"] for record in run.rounds]
        values = [record.get("accuracy") for record in run.rounds]
        data.append(_line(run.name, rounds, values, index))
        rows += [(run.name, *pair) for pair in zip(rounds, map(percent, values), strict=True)]
    layout = {
        "xaxis": _round_axis(max((max(line["x"], default=1) for line in data), default=1)),
        "yaxis": {"title": {"text": "accuracy"}, "tickformat": PERCENT, "range": [0, 1.02]},
        "showlegend": len(data) > 1,
    }
    return Chart("accuracy", "Accuracy by round", data, layout, ("run", "round", "accuracy"), rows)


def leakage_by_round(scores: pd.DataFrame, what: Measure, several: bool) -> Chart:
    """Median leakage of each attack in each round, with its bootstrap interval and the bound."""
    keys = [*(["run"] if several else []), "attack", "round"]
    if "batch" in scores.columns:
        keys.insert(-1, "batch")
    series: dict[str, list[tuple[Any, Any]]] = {}
    for found, numbers in grouped(scores, keys, what):
        named = zip(keys[:-1], found[:-1], strict=True)
        name = " · ".join(
            f"batch {value}" if key == "batch" else str(value) for key, value in named
        )
        series.setdefault(name, []).append((found[-1], numbers))
    data, rows = [], []
    for index, (name, points) in enumerate(series.items()):
        line = _line(name, [p[0] for p in points], [p[1].median for p in points], index)
        line["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [n.high - n.median for _, n in points],
            "arrayminus": [n.median - n.low for _, n in points],
            "thickness": 1,
        }
        data.append(line)
        rows += [
            (name, at, n.count, what.shown(n.median), interval(n.low, n.high), what.shown(n.worst))
            for at, n in points
        ]
    layout: dict[str, Any] = {
        "xaxis": _round_axis(max((max(line["x"], default=1) for line in data), default=1)),
        "yaxis": {"title": {"text": _axis(what)}},
        "showlegend": True,
    }
    if what.bound is not None:
        layout["shapes"] = [_bound_line(what.bound)]
    columns = ("attack", "round", "victims", f"median {what.word}", "95 % interval", "worst")
    return Chart("leakage", "Leakage by round and attack", data, layout, columns, rows)


def ppc_curves(cells: pd.DataFrame, metric: str, about: str) -> Chart:
    """Distance and accuracy against m, over the regions of SPN fig. 5.

    `cells` has defence, attack, m and accuracy, m finite; cells of the same m are averaged.
    """
    data: list[dict[str, Any]] = []
    rows: list[tuple[Any, ...]] = []
    settings = ["value"] if "value" in cells.columns else ["m"]  # seeds of one setting are averaged
    figures = list(dict.fromkeys(["m", metric, "accuracy"]))
    for colour, (defence, own) in enumerate(cells.groupby("defence", sort=True)):
        for turn, (attack, points) in enumerate(own.groupby("attack", sort=True)):
            means = points.groupby(settings)[figures].mean().sort_values("m")
            name = f"{defence} · {attack}"
            line = _line(name, means["m"].tolist(), means[metric].tolist(), colour)
            line["marker"] = {"symbol": MARKS[turn % len(MARKS)], "size": 8}
            line["line"] = {"dash": DASHES[turn % len(DASHES)], "width": 2}
            data.append(line)
            rows += [
                (name, f"{row['m']:.2f}", f"{row[metric]:.3f}", percent(row["accuracy"]))
                for _, row in means.iterrows()
            ]
        means = own.groupby(settings)[["m", "accuracy"]].mean().sort_values("m")
        x, y = means["m"].tolist(), means["accuracy"].tolist()
        faint = {"yaxis": "y2", "line": {"dash": "dot", "width": 1.5}, "opacity": 0.7}
        data.append(_line(f"{defence} · accuracy", x, y, colour) | faint)
    top = 1.05 * float(cells["m"].max()) if len(cells) else 3.0
    layout = {
        "xaxis": {"title": {"text": "m = log₁₀(‖B‖/‖E‖ + 1)"}, "range": [0, top]},
        "yaxis": {"title": {"text": f"distance ({measure(metric).word})"}},
        "yaxis2": {
            "title": {"text": "accuracy"},
            "overlaying": "y",
            "tickmode": "auto",
            "side": "right",
            "tickformat": PERCENT,
            "showgrid": False,
        },
        "shapes": _regions(top),
        "showlegend": True,
    }
    title = f"Privacy-preserving characteristics, {about}"
    name = "ppc-" + about.replace(" ", "-")
    return Chart(name, title, data, layout, ("mechanism", "m", metric, "accuracy"), rows)


def trade_off(points: pd.DataFrame, what: Measure) -> Chart:
    """Accuracy against leakage, a point a setting; `points` has name, accuracy, leak and front."""
    data = []
    for front, rows in points.groupby("front", sort=True):
        data.append(
            {
                "type": "scatter",
                "mode": "markers+text" if front and len(points) < 15 else "markers",
                "name": "on the Pareto front" if front else "beaten by another",
                "x": rows["leak"].tolist(),
                "y": rows["accuracy"].tolist(),
                "text": rows["name"].tolist(),
                "textposition": "top center",
                "marker": {"symbol": "star" if front else "circle", "size": 11 if front else 8},
                "meta": 2 if front else 7,
                "hovertext": [
                    f"{row['name']}: accuracy {percent(row['accuracy'])}, {what.word} "
                    f"{what.shown(row['leak'])}"
                    for _, row in rows.iterrows()
                ],
            }
        )
    layout = {
        "xaxis": {"title": {"text": _axis(what)}},
        "yaxis": {"title": {"text": "accuracy"}, "tickformat": PERCENT},
        "showlegend": True,
    }
    table = [
        (row["name"], percent(row["accuracy"]), what.shown(row["leak"]), _yes(row["front"]))
        for _, row in points.iterrows()
    ]
    columns = ("setting", "accuracy", what.word, "on the front")
    return Chart("trade-off", "Accuracy against leakage", data, layout, columns, table)


def roc_curves(curves: Sequence[tuple[str, np.ndarray, np.ndarray, int]]) -> Chart:
    """ROC curves on logarithmic axes: name, false- and true-positive rates, held-out samples.

    A rate of 0 has no place on such an axis: it is drawn at half of one held-out sample.
    """
    data, rows = [], []
    for index, (name, false_rates, true_rates, others) in enumerate(curves):
        shown = np.unique(np.geomspace(1, len(false_rates), 200).astype(int)) - 1
        x = np.maximum(false_rates, 0.5 / others)[shown]
        line = _line(name, x.round(6).tolist(), true_rates[shown].round(6).tolist(), index)
        data.append(line | {"mode": "lines"})
        for rate in (rate for rate in (0.001, 0.01, 0.1) if rate * others >= 1):
            rows.append((name, rate, percent(float((false_rates <= rate).mean()))))
    low = min((min(line["x"]) for line in data), default=1e-3)
    chance = _line("blind guess", [low, 1.0], [low, 1.0], len(data)) | {"mode": "lines"}
    data.append(chance | {"line": {"dash": "dot", "width": 1}})
    layout = {
        "xaxis": {"title": {"text": "false-positive rate"}, "type": "log"},
        "yaxis": {"title": {"text": "true-positive rate"}, "type": "log"},
        "showlegend": True,
    }
    columns = ("attack", "false-positive rate", "true-positive rate")
    return Chart("roc", "ROC curves on logarithmic axes", data, layout, columns, rows)


def confusion_of_owners(guess: np.ndarray, truth: np.ndarray, name: str) -> Chart:
    """How many samples of each client (down) are said to be of each client (across)."""
    clients = sorted({*guess.tolist(), *truth.tolist()})
    counts = [[int(((truth == t) & (guess == g)).sum()) for g in clients] for t in clients]
    labels = [str(client) for client in clients]
    data = [{"type": "heatmap", "z": counts, "x": labels, "y": labels, "colorscale": "Blues"}]
    layout = {
        "xaxis": {"title": {"text": "said to be of client"}, "type": "category"},
        "yaxis": {"title": {"text": "of client"}, "type": "category", "autorange": "reversed"},
    }
    rows = [(str(t), *row) for t, row in zip(labels, counts, strict=True)]
    slug = "".join(letter if letter.isalnum() else "-" for letter in name)
    columns = ("of client", *(f"said: {label}" for label in labels))
    return Chart(f"confusion-{slug}", f"Owners by {name}", data, layout, columns, rows)


def interval(low: float, high: float, digits: int = 1) -> str:
    return f"{low:.{digits}f} to {high:.{digits}f}"


def _line(name: str, x: Sequence[Any], y: Sequence[Any], index: int) -> dict[str, Any]:
    """A line; `meta` is its colour in the page's palette, the same in light and dark."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(x),
        "y": list(y),
        "marker": {"symbol": MARKS[index % len(MARKS)], "size": 7},
        "line": {"dash": DASHES[index // 8 % len(DASHES)], "width": 2},
        "meta": index,
    }


def _axis(what: Measure) -> str:
    unit = f" ({what.unit})" if what.unit else ""
    return f"{what.word}{unit}, {'higher' if what.high else 'lower'} leaks more"


def _round_axis(last: int) -> dict[str, Any]:
    """Whole rounds, at most about ten marks."""
    return {"title": {"text": "round"}, "tick0": 0, "dtick": max(1, math.ceil(last / 10))}


def _bound_line(bound: float) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": bound,
        "y1": bound,
        "line": {"color": "#c0392b", "width": 2, "dash": "dash"},
        "label": {"text": "bound", "textposition": "end", "font": {"color": "#c0392b"}},
    }


def _regions(top: float) -> list[dict[str, Any]]:
    """The green and the red band: ‖E‖ > ‖B‖, and ratios of ten and more."""
    green, red = ppc(1, 1), ppc(10, 1)
    bands = [(0.0, min(green, top), "#2e8b57"), (red, max(red, top), "#c0392b")]
    return [
        {
            "type": "rect",
            "yref": "paper",
            "x0": low,
            "x1": high,
            "y0": 0,
            "y1": 1,
            "fillcolor": colour,
            "opacity": 0.13,
            "line": {"width": 0},
            "layer": "below",
        }
        for low, high, colour in bands
        if high > low
    ]


def percent(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.1%}"


def _yes(value: Any) -> str:
    return "yes" if value else ""


def _finite(value: Any) -> Any:
    """The same data with nothing that JSON cannot say: NaN and infinity become gaps."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
