"""What a sweep ends in: results.csv, cap.csv, cap.md and ppc.png (SPN eq. 1, tables 1 and 7-10, fig. 5)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedpriv.files import write_text
from fedpriv.metrics.tradeoff import cap, region
from fedpriv.report.figures import save_ppc

Row = dict[str, Any]
DISTANCES = {"reconstruction": "rmse", "membership": "membership", "tracing": "tracing"}
STRONGEST = "strongest"  # of every value the attack that came nearest


def averaged(rows: Sequence[Row]) -> pd.DataFrame:
    """Cells that succeeded, seeds averaged: one line for defence, value, attack and batch size."""
    frame = pd.DataFrame(rows)
    if frame.empty or "rmse" not in frame or "accuracy" not in frame:
        return pd.DataFrame()
    frame = frame.dropna(subset=["rmse", "accuracy"])
    frame["value"] = frame["value"].map(lambda value: "" if value is None else str(value))
    keys = ["defence", "value", "attack", "informed", "batch-size"]
    numbers = ["accuracy", "m", *DISTANCES.values()]
    return frame.groupby(keys, sort=False)[numbers].mean().reset_index()


def caps(rows: Sequence[Row]) -> list[Row]:
    """CAP of every defence against every attack, and against the strongest one for each value."""
    frame = averaged(rows)
    if frame.empty:
        return []
    found = [
        {
            **dict(zip(("defence", "batch-size", "attack", "informed"), keys, strict=True)),
            **line(part),
        }
        for keys, part in frame.groupby(["defence", "batch-size", "attack", "informed"], sort=False)
    ]
    for (defence, batch), part in frame.groupby(["defence", "batch-size"], sort=False):
        nearest = part.groupby("value", sort=False)[["accuracy", *DISTANCES.values()]].min()
        known = {"attack": STRONGEST, "informed": bool(part["informed"].any())}
        found.append({"defence": defence, "batch-size": batch, **known, **line(nearest)})
    return found


def line(part: pd.DataFrame) -> Row:
    """Mean accuracy and the CAPs of one group of values."""
    accuracies = part["accuracy"].tolist()
    return {
        "values": len(part),
        "accuracy": sum(accuracies) / len(part),
        **{
            f"cap-{name}": cap(accuracies, part[column].tolist())
            for name, column in DISTANCES.items()
        },
    }


def write_tables(folder: Path, rows: Sequence[Row]) -> list[Row]:
    """Write what the rows give so far; the CAP table."""
    frame = pd.DataFrame(rows)
    if not frame.empty and "m" in frame:
        frame["region"] = frame["m"].map(lambda m: region(m) if pd.notna(m) else "")
    write_text(folder / "results.csv", frame.to_csv(index=False))
    table = caps(rows)
    if table:
        write_text(folder / "cap.csv", pd.DataFrame(table).to_csv(index=False, float_format="%.4f"))
        write_text(folder / "cap.md", markdown(table))
        save_ppc(folder / "ppc.png", averaged(rows))
    return table


def markdown(table: Sequence[Row]) -> str:
    """The CAP table as SPN table 1 has it: defences down, attacks and batch sizes across."""
    lines = []
    for name in DISTANCES:
        columns = list(dict.fromkeys((row["attack"], row["batch-size"]) for row in table))
        lines += [f"## CAP, {name} (higher is better)", ""]
        lines.append("| defence | " + " | ".join(f"{a}, batch {b}" for a, b in columns) + " |")
        lines.append("|---|" + "---|" * len(columns))
        for defence in dict.fromkeys(row["defence"] for row in table):
            own = {
                (row["attack"], row["batch-size"]): row[f"cap-{name}"]
                for row in table
                if row["defence"] == defence
            }
            cells = [f"{own[key]:.3f}" if key in own else "" for key in columns]
            lines.append(f"| {defence} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)
