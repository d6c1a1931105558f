"""The sections of a page that tell of sweeps: PPC curves, CAP and Pareto tables, who knew what."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from fedpriv.metrics.distances import SAID, distances
from fedpriv.report.about_summaries import shown as shown_as
from fedpriv.report.blocks import Block, Section, Table, Tile, environment_blocks
from fedpriv.report.charts import Chart, percent, ppc_curves, trade_off
from fedpriv.report.gallery import tiles
from fedpriv.report.leakage import Measure, deciding
from fedpriv.report.marks import knows, marked, with_front
from fedpriv.report.reading import Grid
from fedpriv.report.value_sheets import by_value

CELLS, GALLERY = 400, 24  # rows of the longest table, pictures


def sweep_sections(grid: Grid, several: bool) -> list[Section]:
    """Every section that has something to show, in reading order."""
    prefix, suffix = (f"{grid.name}-", f": {grid.name}") if several else ("", "")
    what = measure_of(grid)
    done = finished(grid, what) if what else pd.DataFrame()
    sections = [
        Section("settings-compared", "Defences compared", *_compared(done, what)),
        Section("ppc", "Privacy-preserving characteristics", _PPC, charts=_curves(done)),
        Section("cap", "Calibrated averaged performance", _CAP, tables=_caps(grid)),
        Section("informed", "Attackers who know the defence", _KNOWS, tables=_informed(done, what)),
        Section(
            "by-value", "The same samples under every value", _SHEETS, tiles=_sheets(grid, what)
        ),
        Section("gallery", "What the server could see", tiles=_gallery(grid, what)),
        Section("cells", "Every cell", tables=_cells(grid)),
        Section("settings", "Settings", blocks=_blocks(grid)),
    ]
    return [
        Section(**{**vars(s), "name": prefix + s.name, "title": s.title + suffix})
        for s in sections
        if s
    ]


_PPC = (
    "Distance of the reconstruction (solid) and accuracy (dotted, right) against how small the "
    "added gradient is. Green: it is longer than the clean one, and linear reconstruction must "
    "fail. Red: it is ten times shorter or less, and pixels are disclosed (SPN figure 5)."
)
_CAP = (
    "The mean over a mechanism's settings of accuracy × distance (SPN equation 1). "
    "Higher is better."
)
_SHEETS = (
    "A row for every setting: a sample of each client, and beside it the best that any attack drew "
    "of it."
)
_KNOWS = "A defence that only holds against attackers who do not know of it does not hold."


def measure_of(grid: Grid) -> Measure | None:
    """The metric that decides: the first gate that was measured, else the first with a bound."""
    found = deciding(grid.results, grid.gates)
    return next((what for what in found if what.measured(grid.results)), None)


def finished(grid: Grid, what: Measure) -> pd.DataFrame:
    """The cells that succeeded, with `setting`, `leak` (the worst victim's value) and `knows`."""
    frame = grid.results
    if frame.empty or "accuracy" not in frame or what.name not in frame:
        return pd.DataFrame()
    frame = frame.dropna(subset=["accuracy", what.name]).copy()
    frame["setting"] = setting_names(frame)
    worst = f"{what.name}-worst"
    frame["leak"] = frame[worst] if worst in frame else frame[what.name]
    frame["blind"] = frame.get(what.blind, math.nan)
    frame["informed"] = frame["knows"] != "" if "knows" in frame else False
    frame["defended"] = (frame["plugins" if "plugins" in frame else "defence"] != "none").values
    return frame


def setting_names(frame: pd.DataFrame) -> pd.Series:
    """A setting's defence and value."""
    value = frame["value"].map(_written) if "value" in frame else ""
    return frame["defence"].astype(str) + value


def _written(value: Any) -> str:
    """A swept value behind its defence. pandas makes 4.0 of a 4 beside settings without a value."""
    if isinstance(value, float) and value.is_integer():
        return f" {value:.0f}"
    return "" if pd.isna(value) else f" {value}"


def worst_in(values: pd.Series, what: Measure) -> float:
    return float(values.max() if what.high else values.min())


def _sheets(grid: Grid, what: Measure | None) -> list[Tile]:
    return list(by_value(grid.folder, grid.scores, what)) if what else []


def _gallery(grid: Grid, what: Measure | None) -> list[Tile]:
    return tiles(grid.folder, grid.scores, what, GALLERY) if what else []


def settings_in(done: pd.DataFrame, what: Measure) -> pd.DataFrame:
    """One line a setting: accuracy, worst leak to all attackers, and to those who do not know."""
    rows = []
    for name, part in done.groupby("setting", sort=False):
        unaware = part[~part["informed"]]
        rows.append(
            {
                "name": name,
                "defended": bool(part["defended"].any()),
                "accuracy": part["accuracy"].mean(),
                "leak": worst_in(part["leak"], what),
                "unaware": worst_in(unaware["leak"], what) if len(unaware) else math.nan,
                "blind": part["blind"].median(),
                "tested": bool(part["informed"].any()),
                "victims": int(part["victims"].max()) if "victims" in part else 0,
            }
        )
    return pd.DataFrame(rows)


def _compared(
    done: pd.DataFrame, what: Measure | None
) -> tuple[str, Sequence[Chart], Sequence[Table]]:
    if done.empty or what is None:
        return "", (), ()
    points = with_front(settings_in(done, what), what)
    words = (
        "Every setting by its accuracy and by the best reconstruction that any attack got from it. "
        "On the Pareto front no other setting is more accurate and leaks less. A blind guess is "
        "made without evidence; an attack that is no better has found nothing."
    )
    rows = [
        (
            row["name"],
            percent(row["accuracy"]),
            marked(row["unaware"], what),
            marked(row["leak"], what) if row["tested"] else "not tried",
            what.shown(row["blind"]),
            "yes" if row["front"] else "",
        )
        for _, row in points.sort_values("leak", ascending=what.high, kind="stable").iterrows()
    ]
    columns = (
        "setting",
        "accuracy",
        f"worst {what.word}, does not know",
        "knows the defence",
        "blind guess",
        "on the front",
    )
    table = Table("Settings, least leakage first", columns, rows, frozenset({1, 2, 3, 4}))
    return words, [trade_off(points, what)], [table]


def _curves(done: pd.DataFrame) -> list[Chart]:
    distance = distances()[0].column
    needed = {"m", distance, "attack"}
    if done.empty or not needed <= set(done.columns):
        return []
    finite = done[done["m"].map(lambda m: pd.notna(m) and math.isfinite(m))]
    batches = sorted(finite["batch"].unique()) if "batch" in finite else []
    return [
        ppc_curves(finite[finite["batch"] == batch], distance, f"batch size {batch}")
        for batch in batches
    ]


def _caps(grid: Grid) -> list[Table]:
    frame = grid.cap
    if frame.empty:
        return []
    shown = [name for name in frame.columns if name.startswith("cap-")]
    keys = [name for name in ("defence", "attack", "knows", "batch") if name in frame]
    rows = [
        (
            *(knows(row[key]) if key == "knows" else row[key] for key in keys),
            percent(row["accuracy"]),
            *(f"{row[name]:.3f}" for name in shown),
        )
        for _, row in frame.iterrows()
    ]
    columns = (*keys, "accuracy", *(SAID.get(name[4:], name[4:]) for name in shown))
    numbers = frozenset(range(len(keys), len(columns)))
    return [Table("CAP by defence and attack", columns, rows, numbers)]


def _informed(done: pd.DataFrame, what: Measure | None) -> list[Table]:
    if done.empty or what is None or not done["informed"].any():
        return []
    rows = []
    for defence, part in done.groupby("defence", sort=False):
        if part["informed"].any():
            sides = [part[part["informed"] == side] for side in (False, True)]
            cells = [
                cell
                for side in sides
                for cell in (
                    ", ".join(sorted(side["attack"].unique())),
                    marked(worst_in(side["leak"], what), what),
                )
            ]
            rows.append((defence, *cells, what.shown(part["blind"].median())))
    worst = f"worst {what.word}"
    columns = ("defence", "does not know", worst, "knows", worst, "blind guess")
    return [Table("The worst victim over all values", columns, rows, frozenset({2, 4, 5}))]


def _cells(grid: Grid) -> list[Table]:
    frame = grid.results
    names = map(str, frame.columns)
    shown = [name for name in names if name != "parameter"]
    rows = [tuple(shown_as(row[name]) for name in shown) for _, row in frame.head(CELLS).iterrows()]
    caption = f"{len(rows)} of {len(frame)} cells"
    return [Table(caption, shown, rows)] if rows else []


def _blocks(grid: Grid) -> list[Block]:
    text = [Block("The scenario", grid.scenario_text)] if grid.scenario_text else []
    return environment_blocks(grid.environment) + text
