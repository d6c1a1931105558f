"""The sections of a page that tell of sweeps: PPC curves, CAP and Pareto tables, who knew what."""

import math
from collections.abc import Sequence

import pandas as pd

from fedpriv.report.about_summaries import shown as shown_as
from fedpriv.report.blocks import Block, Section, Table
from fedpriv.report.charts import Chart, percent, ppc_curves, trade_off
from fedpriv.report.leakage import CEILING, Measure, measure
from fedpriv.report.marks import is_true, knows, marked, with_front
from fedpriv.report.reading import Grid
from fedpriv.report.verdict import Light, Verdict

CELLS = 400  # rows of the longest table
SHOWN = (
    *("defence", "value", "seed", "batch_size", "attack", "informed", "accuracy", "m", "region"),
    *("psnr", "psnr_best", "ssim", "rmse", "membership", "tracing", "seconds", "error"),
)


def sweep_sections(grid: Grid, several: bool) -> list[Section]:
    """Every section that has something to show, in reading order."""
    prefix, suffix = (f"{grid.name}-", f": {grid.name}") if several else ("", "")
    done, what = finished(grid), measure("psnr")
    sections = [
        Section("settings-compared", "Defences compared", *_compared(done, what)),
        Section("ppc", "Privacy-preserving characteristics", _PPC, charts=_curves(done)),
        Section("cap", "Calibrated averaged performance", _CAP, tables=_caps(grid)),
        Section("informed", "Attackers who know the defence", _KNOWS, tables=_informed(done, what)),
        Section("cells", "Every cell", tables=_cells(grid)),
        Section("settings", "Settings", blocks=list(_blocks(grid))),
    ]
    return [
        Section(**{**vars(s), "name": prefix + s.name, "title": s.title + suffix})
        for s in sections
        if s
    ]


_PPC = (
    "Distance of the reconstruction (solid) and accuracy (dotted, right) against how small the added "
    "gradient is. Green: it is longer than the clean one, and linear reconstruction must fail. Red: "
    "it is ten times shorter or less, and pixels are disclosed (SPN figure 5)."
)
_CAP = "The mean over a mechanism's settings of accuracy × distance (SPN equation 1). Higher is better."
_KNOWS = "A defence that only holds against attackers who do not know of it does not hold."


def finished(grid: Grid) -> pd.DataFrame:
    """The cells that succeeded, with `setting`, `leak` (the best reconstruction's PSNR) and `knows`."""
    frame = grid.results
    if frame.empty or "accuracy" not in frame or "psnr" not in frame:
        return pd.DataFrame()
    frame = frame.dropna(subset=["accuracy", "psnr"]).copy()
    value = frame["value"].map(lambda v: "" if pd.isna(v) else f" {v}") if "value" in frame else ""
    frame["setting"] = frame["defence"].astype(str) + value
    best = frame["psnr_best"] if "psnr_best" in frame else frame["psnr"]
    frame["leak"] = best.clip(-CEILING, CEILING)
    frame["psnr"] = frame["psnr"].clip(-CEILING, CEILING)
    frame["knows"] = frame["informed"].map(is_true) if "informed" in frame else False
    return frame


def _settings(done: pd.DataFrame) -> pd.DataFrame:
    """One line a setting: its accuracy, the worst leak of all attacks, and of those that do not know."""
    rows = []
    for name, part in done.groupby("setting", sort=False):
        blind = part[~part["knows"]]
        rows.append(
            {
                "name": name,
                "defence": part["defence"].iloc[0],
                "accuracy": part["accuracy"].mean(),
                "leak": part["leak"].max(),
                "blind": blind["leak"].max() if len(blind) else math.nan,
                "tested": bool(part["knows"].any()),
            }
        )
    return pd.DataFrame(rows)


def _compared(done: pd.DataFrame, what: Measure) -> tuple[str, Sequence[Chart], Sequence[Table]]:
    if done.empty:
        return "", (), ()
    points = with_front(_settings(done), what)
    words = (
        "Every setting by its accuracy and by the best reconstruction that any attack got from it. "
        "On the Pareto front no other setting is more accurate and leaks less."
    )
    rows = [
        (
            row["name"],
            percent(row["accuracy"]),
            marked(row["blind"], what),
            marked(row["leak"], what) if row["tested"] else "not tried",
            "yes" if row["front"] else "",
        )
        for _, row in points.sort_values("leak", kind="stable").iterrows()
    ]
    columns = (
        "setting",
        "accuracy",
        "best PSNR, does not know",
        "knows the defence",
        "on the front",
    )
    table = Table("Settings, least leakage first", columns, rows, frozenset({1, 2, 3}))
    return words, [trade_off(points, what)], [table]


def _curves(done: pd.DataFrame) -> list[Chart]:
    needed = {"m", "rmse", "attack"}
    if done.empty or not needed <= set(done.columns):
        return []
    finite = done[done["m"].map(lambda m: pd.notna(m) and math.isfinite(m))]
    batches = sorted(finite["batch_size"].unique()) if "batch_size" in finite else []
    return [
        ppc_curves(finite[finite["batch_size"] == batch], "rmse", f"batch size {batch}")
        for batch in batches
    ]


def _caps(grid: Grid) -> list[Table]:
    frame = grid.cap
    if frame.empty:
        return []
    shown = [name for name in frame.columns if name.startswith("cap_")]
    keys = [name for name in ("defence", "attack", "informed", "batch_size") if name in frame]
    rows = [
        (
            *(knows(row[key]) if key == "informed" else row[key] for key in keys),
            percent(row["accuracy"]),
            *(f"{row[name]:.3f}" for name in shown),
        )
        for _, row in frame.iterrows()
    ]
    columns = (*(k.replace("_", " ") for k in keys), "accuracy", *(n[4:] for n in shown))
    numbers = frozenset(range(len(keys), len(columns)))
    return [Table("CAP by defence and attack", columns, rows, numbers)]


def _informed(done: pd.DataFrame, what: Measure) -> list[Table]:
    if done.empty or not done["knows"].any():
        return []
    rows = []
    for defence, part in done.groupby("defence", sort=False):
        if part["knows"].any():
            sides = [part[part["knows"] == side] for side in (False, True)]
            cells = [
                cell
                for side in sides
                for cell in (
                    ", ".join(sorted(side["attack"].unique())),
                    marked(side["leak"].max(), what),
                )
            ]
            rows.append((defence, *cells))
    columns = ("defence", "does not know", "best PSNR", "knows", "best PSNR")
    return [Table("The best reconstruction over all values", columns, rows, frozenset({2, 4}))]


def _cells(grid: Grid) -> list[Table]:
    frame = grid.results
    shown = [name for name in SHOWN if name in frame]
    rows = [tuple(shown_as(row[name]) for name in shown) for _, row in frame.head(CELLS).iterrows()]
    caption = f"{len(rows)} of {len(frame)} cells"
    words = [name.replace("_", " ") for name in shown]
    return [Table(caption, words, rows)] if rows else []


def _blocks(grid: Grid) -> list[Block]:
    blocks = []
    if grid.environment.get("command"):
        blocks.append(Block("The command", grid.environment["command"]))
    versions = grid.environment.get("packages", {})
    if versions:
        listed = "\n".join(f"{name} {version}" for name, version in versions.items())
        blocks.append(Block("Versions", listed))
    if grid.scenario_text:
        blocks.append(Block("The scenario", grid.scenario_text))
    return blocks


def verdict_of_sweep(grid: Grid) -> Verdict:
    """Whether some defence holds, against whom, and at what price."""
    done, what = finished(grid), measure("psnr")
    if done.empty:
        return Verdict("grey", ("No cell of this sweep has finished yet.",))
    settings = _settings(done)
    bare = settings[settings["defence"] == "none"]
    defended = settings[settings["defence"] != "none"]
    if defended.empty:
        best = what.shown(bare["leak"].max())
        return Verdict("grey", (f"No defence was tried; without one an attack reached {best}.",))
    holds = defended[~defended["leak"].map(what.crosses)]
    blind = defended[~defended["blind"].map(what.crosses)]
    sure = holds[holds["tested"]]
    light: Light = "green" if len(sure) else "amber" if len(holds) else "red"
    first = (
        f"Of {len(defended)} defended settings, {len(blind)} keep every reconstruction of attackers who "
        f"do not know the defence at or below {what.shown(what.bound)}, and {len(sure)} those of "
        "attackers who do."
    )
    worst = done.sort_values("leak", ascending=False, kind="stable").iloc[0]
    second = (
        f"The best reconstruction, {what.shown(worst['leak'])}, came from {worst['setting']} with the "
        f"attack {worst['attack']}"
        + (f"; without a defence it was {what.shown(bare['leak'].max())}." if len(bare) else ".")
    )
    return Verdict(light, (first, second, _price(sure if len(sure) else holds, bare)))


def _price(holds: pd.DataFrame, bare: pd.DataFrame) -> str:
    if holds.empty:
        return "No setting holds, so there is no price to name."
    best = holds.sort_values("accuracy", ascending=False, kind="stable").iloc[0]
    text = f"The setting that holds and costs least is {best['name']} with {best['accuracy']:.1%} accuracy"
    return text + (f", {bare['accuracy'].mean():.1%} without a defence." if len(bare) else ".")
