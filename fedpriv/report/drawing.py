"""Charts as SVG: there without a script, on paper too, and in the colours of the page."""

import io
import re
from collections.abc import Mapping
from typing import Any

from fedpriv.report.charts import Chart

# Okabe and Ito's colours: told apart by people who see colours differently, on white and on black.
PALETTE = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    *("#e69f00", "#56b4e9", "#8f7cc3", "#888888"),
)
MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "x": "x",
    "star": "*",
    "cross": "P",
    "hexagon": "h",
}
DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
INK, LINE = "#010203", "#040506"  # stand for colours that the page decides
SIZE = (9.2, 3.8)  # inches
ROOM = 20  # names along a side of a heatmap that can be read
HOVERED = 14  # points across within which a mark shows its words
LEGEND = 24  # names; a chart with more lines has them in its table only


def svg(chart: Chart) -> str:
    """The chart drawn. Ink and grid take the page's colours, also in the dark."""
    import matplotlib
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": chart.name,  # charts of one page must not share the names of their parts
        "font.family": "sans-serif",
        "font.size": 9,
        "text.color": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.edgecolor": LINE,
        "grid.color": LINE,
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=SIZE, layout="constrained")
        words = _panel(figure.add_subplot(), chart)
        if chart.layout.get("showlegend") and len(chart.data) <= LEGEND:
            figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
    return _inline(stream.getvalue(), chart, words)


def _panel(axes: Any, chart: Chart) -> dict[str, str]:
    """Draws all lines; what is said of single marks, by their names."""
    layout = chart.layout
    right = axes.twinx() if "yaxis2" in layout else None
    for shape in layout.get("shapes", ()):
        if shape["type"] == "rect":
            axes.axvspan(shape["x0"], shape["x1"], color=shape["fillcolor"], alpha=0.15, lw=0)
        else:
            axes.axhline(shape["y0"], color=shape["line"]["color"], lw=1.5, ls="--")
            axes.annotate(
                shape["label"]["text"],
                (1, shape["y0"]),
                xycoords=("axes fraction", "data"),
                xytext=(-2, 3),
                textcoords="offset points",
                ha="right",
                color=shape["line"]["color"],
            )
    said: dict[str, str] = {}
    for number, line in enumerate(chart.figure["data"]):
        if line["type"] == "heatmap":
            _heatmap(axes, line)
            continue
        _line(right if line.get("yaxis") == "y2" and right is not None else axes, line)
        if "hovertext" in line:
            names = _hovered(axes, line, chart.name, number)
            said |= dict(zip(names, line["hovertext"], strict=True))
    if all(line["type"] != "heatmap" for line in chart.data):
        axes.grid(visible=True, lw=0.5)
    for side, name in ((axes, "xaxis"), (axes, "yaxis"), (right, "yaxis2")):
        if side is not None and name in layout:
            _axis(side, name, layout[name])
    return said


def _line(axes: Any, line: dict[str, Any]) -> None:
    number, drawn = line.get("meta", 0), line.get("line", {})
    points = [(x, y) for x, y in zip(line["x"], line["y"], strict=True) if y is not None]
    how: dict[str, Any] = {
        "color": PALETTE[number % len(PALETTE)],
        "marker": MARKERS[line["marker"]["symbol"]] if "markers" in line["mode"] else "",
        "ms": 0.75 * line["marker"]["size"],
        "ls": DASHES[drawn.get("dash", "solid")] if "lines" in line["mode"] else "",
        "lw": 0.8 * drawn.get("width", 2),
        "alpha": line.get("opacity", 1.0),
        "label": line["name"],
    }
    x, y = [point[0] for point in points], [point[1] for point in points]
    if "error_y" in line and len(points) == len(line["y"]):
        error = [[v or 0 for v in line["error_y"][key]] for key in ("arrayminus", "array")]
        axes.errorbar(x, y, yerr=error, elinewidth=0.8, capsize=2, **how)
    else:
        axes.plot(x, y, **how)
    if "text" in line["mode"]:
        for text, *place in zip(line["text"], line["x"], line["y"], strict=True):
            if None not in place:
                axes.annotate(
                    text, place, xytext=(0, 5), textcoords="offset points", ha="center", fontsize=8
                )


def _hovered(axes: Any, line: dict[str, Any], chart: str, number: int) -> list[str]:
    """Marks that nobody sees over the points of a line, each with a name for its words."""
    names = []
    for place, (x, y) in enumerate(zip(line["x"], line["y"], strict=True)):
        names.append(f"hover-{chart}-{number}-{place}")
        if x is not None and y is not None:
            axes.plot([x], [y], "o", ms=HOVERED, alpha=0, gid=names[-1])
    return names


def _heatmap(axes: Any, table: dict[str, Any]) -> None:
    """A square for every pair, the darker the more; each has its number where there is room."""
    z = table["z"]
    most = max((value for row in z for value in row), default=0) or 1
    axes.imshow(z, cmap=table["colorscale"], vmin=0, vmax=most, aspect="auto")
    steps = [max(1, len(names) // ROOM) for names in (table["x"], table["y"])]
    axes.set_xticks(range(0, len(table["x"]), steps[0]), table["x"][:: steps[0]])
    axes.set_yticks(range(0, len(table["y"]), steps[1]), table["y"][:: steps[1]])
    if len(table["x"]) > ROOM or len(table["y"]) > ROOM:
        return
    for j, row in enumerate(z):
        for i, value in enumerate(row):
            ink = "#ffffff" if value > most / 2 else "#1d2733"
            axes.text(i, j, value, ha="center", va="center", color=ink, fontsize=8)


def _axis(axes: Any, name: str, settings: dict[str, Any]) -> None:
    from matplotlib.ticker import MultipleLocator, PercentFormatter

    which = "x" if name == "xaxis" else "y"
    axis = getattr(axes, name[:5])
    axis.set_label_text(settings["title"]["text"])
    if "range" in settings:
        getattr(axes, f"set_{which}lim")(*settings["range"])
    if settings.get("type") == "log":
        getattr(axes, f"set_{which}scale")("log")
    if "dtick" in settings:
        axis.set_major_locator(MultipleLocator(settings["dtick"]))
    if "tickformat" in settings:
        axis.set_major_formatter(PercentFormatter(1))


def _inline(text: str, chart: Chart, said: Mapping[str, str]) -> str:
    """The picture as a part of a page: no header, and its colours are the page's.

    A browser shows what is `said` of a mark while the pointer is on it, without a script.
    """
    from html import escape

    body = text[text.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = body.replace(INK, "currentColor").replace(LINE, "var(--line)")
    body = re.sub(r'\b(width|height)="[\d.]+pt" ?', "", body, count=2)
    for name, words in said.items():
        body = body.replace(f'<g id="{name}">', f'<g id="{name}"><title>{escape(words)}</title>')
    label = f'<svg role="img" aria-label="{escape(chart.title, quote=True)}" '
    return body.replace("<svg ", label, 1)
