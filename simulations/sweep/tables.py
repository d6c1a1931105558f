"""What a sweep ends in: results.csv, cap.csv, cap.md and ppc.png.

They are SPN's eq. 1, tables 1 and 7-10, and figure 5.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fedpriv.metrics.distances import distances
from fedpriv.metrics.tradeoff import cap, cap_between, region
from fedpriv.report.figures import save_ppc
from fedpriv.sweepfolder import SweepFolder
from fedpriv.tables import Row

DISTANCES = {distance.kind: distance.column for distance in distances()}
MAIN = next(iter(DISTANCES))  # the reconstruction of samples
STRONGEST = "strongest"  # stands for the best attack on each value of a defence
EQUAL_M = f"cap-{MAIN}-at-equal-m"


def averaged(rows: Sequence[Row]) -> pd.DataFrame:
    """Cells that succeeded, seeds averaged: one line for defence, value, attack and batch size."""
    frame = pd.DataFrame(rows)
    needed = [DISTANCES[MAIN], "accuracy"]
    if frame.empty or not {*needed} <= {*frame.columns}:
        return pd.DataFrame()
    frame = frame.dropna(subset=needed)
    frame["value"] = frame["value"].map(lambda value: "" if value is None else str(value))
    keys = ["defence", "value", "attack", "knows", "batch"]
    frame = frame.reindex(columns=list(dict.fromkeys([*frame.columns, "m", *DISTANCES.values()])))
    numbers = ["accuracy", "m", *DISTANCES.values()]
    return frame.groupby(keys, sort=False)[numbers].mean().reset_index()


def caps(rows: Sequence[Row]) -> list[Row]:
    """CAP of every defence against every attack, and against the strongest one for each value."""
    frame = averaged(rows)
    if frame.empty:
        return []
    between = common(frame)
    found = [
        {
            **dict(zip(("defence", "batch", "attack", "knows"), keys, strict=True)),
            **line(part, between),
        }
        for keys, part in frame.groupby(["defence", "batch", "attack", "knows"], sort=False)
    ]
    for (defence, batch), part in frame.groupby(["defence", "batch"], sort=False):
        nearest = part.groupby("value", sort=False)[["accuracy", "m", *DISTANCES.values()]].min()
        known = {"attack": STRONGEST, "knows": max(part["knows"])}
        found.append({"defence": defence, "batch": batch, **known, **line(nearest, between)})
    return found


def common(frame: pd.DataFrame) -> tuple[float, float] | None:
    """The range of m that all defences with a range of their own cover; None when there is none."""
    finite = frame[np.isfinite(frame["m"])]
    ranges = finite.groupby("defence")["m"].agg(["min", "max"])
    ranges = ranges[ranges["min"] < ranges["max"]]
    low, high = float(ranges["min"].max()), float(ranges["max"].min())
    return (low, high) if len(ranges) > 1 and low < high else None


def line(part: pd.DataFrame, between: tuple[float, float] | None) -> Row:
    """Mean accuracy and the CAPs of one group of values."""
    accuracies = part["accuracy"].tolist()
    found = {
        "values": len(part),
        "accuracy": sum(accuracies) / len(part),
        **{
            f"cap-{name}": cap(accuracies, part[column].tolist())
            for name, column in DISTANCES.items()
        },
    }
    if between and np.isfinite(part["m"]).sum() > 1:
        found[EQUAL_M] = cap_between(
            *between, part["m"].tolist(), accuracies, part[DISTANCES[MAIN]].tolist()
        )
    return found


def write_tables(folder: SweepFolder, rows: Sequence[Row]) -> list[Row]:
    """Write what the rows give so far; the CAP table."""
    folder.write_results(
        [{**row, "region": region(row["m"])} if "m" in row else row for row in rows]
    )
    table = caps(rows)
    if table:
        folder.write_cap(table, markdown(table))
        save_ppc(folder.ppc_picture, averaged(rows))
    return table


def markdown(table: Sequence[Row]) -> str:
    """The CAP table as SPN table 1 has it: defences down, attacks and batch sizes across."""
    titles = {f"cap-{name}": f"CAP, {name}" for name in DISTANCES}
    titles[EQUAL_M] = f"CAP, {MAIN}, averaged over the m that all defences cover"
    columns = list(dict.fromkeys((row["attack"], row["batch"]) for row in table))
    lines = []
    for name, title in titles.items():
        if not any(name in row for row in table):
            continue
        lines += [f"## {title} (higher is better)", ""]
        lines.append("| defence | " + " | ".join(f"{a}, batch {b}" for a, b in columns) + " |")
        lines.append("|---|" + "---|" * len(columns))
        for defence in dict.fromkeys(row["defence"] for row in table):
            own = {
                (row["attack"], row["batch"]): row[name]
                for row in table
                if row["defence"] == defence and name in row
            }
            cells = [f"{own[key]:.3f}" if key in own else "" for key in columns]
            lines.append(f"| {defence} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)
