"""What a sweep ends in: results.csv, cap.csv, cap.md, cap.tex and ppc.png.

They are SPN's eq. 1, tables 1 and 7-10, and figure 5.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedpriv.columns import BLIND
from fedpriv.metrics.distances import distances
from fedpriv.metrics.tradeoff import cap, cap_between, region
from fedpriv.report.figures import save_ppc
from fedpriv.sweepfolder import SweepFolder
from fedpriv.tables import Row

DISTANCES = {distance.kind: distance.column for distance in distances()}
SAID = {distance.kind: distance.said for distance in distances()}
MAIN = next(iter(DISTANCES))  # the reconstruction of samples
STRONGEST = "best of these"  # stands for the best attack on each value of a defence
GUESS = "blind guess"  # stands for an attacker who saw no update
MISSING = "missing"  # cells without a result behind a line
MEANING = (
    "CAP is accuracy times the attacker's error, averaged over the values of a defence: 0 means "
    "that the attacker was always right. Reconstruction is about samples, labels about those of "
    "the batch (SPN calls it membership; who was in the training set is another question), tracing "
    f"about whose sample it is. '{STRONGEST}' takes the best attack for each value. '{GUESS}' saw "
    "no update: a figure above it is of an attack that does worse."
)
EQUAL_M = f"cap-{MAIN}-at-equal-m"
SPREAD = "-spread"  # the standard deviation over seeds
GUESSES = {column + BLIND: column for column in DISTANCES.values()}
NUMBERS = ["accuracy", "m", *DISTANCES.values(), *GUESSES]


def succeeded(rows: Sequence[Row]) -> pd.DataFrame:
    """Cells that succeeded, a line for each seed; values as text."""
    frame = pd.DataFrame(rows)
    needed = [DISTANCES[MAIN], "accuracy"]
    if frame.empty or not {*needed} <= {*frame.columns}:
        return pd.DataFrame()
    frame = frame.dropna(subset=needed)
    frame["value"] = frame["value"].map(lambda value: "" if value is None else str(value))
    return frame.reindex(columns=list(dict.fromkeys([*frame.columns, *NUMBERS])))


def averaged(rows: Sequence[Row]) -> pd.DataFrame:
    """Cells that succeeded, seeds averaged: one line for defence, value, attack and batch size."""
    frame, keys = succeeded(rows), ["defence", "value", "attack", "knows", "batch"]
    return frame if frame.empty else frame.groupby(keys, sort=False)[NUMBERS].mean().reset_index()


def caps(rows: Sequence[Row]) -> list[Row]:
    """CAP of every defence against every attack, with its spread where there are several seeds."""
    whole = caps_of(rows)
    seeds = list(dict.fromkeys(row.get("seed") for row in rows))
    each = [caps_of([row for row in rows if row.get("seed") == seed]) for seed in seeds]
    for one in whole:
        key = named(one)
        own = [found for table in each for found in table if named(found) == key]
        one["seeds"] = len(own)
        one[MISSING] = sum(lacks(row, one) for row in rows)
        for name in list(one) if len(own) > 1 else ():
            values = [found[name] for found in own if name in found]
            if name.startswith(("cap-", "accuracy")) and len(values) > 1:
                one[name + SPREAD] = float(np.std(values, ddof=1))
    return whole


def lacks(row: Row, one: Row) -> bool:
    """Whether a cell belongs to a line of the table and has no result."""
    belongs = one["attack"] in (row.get("attack"), STRONGEST, GUESS)
    same = (row.get("defence"), row.get("batch")) == (one["defence"], one["batch"])
    return belongs and same and bool(row.get("error"))


def named(row: Row) -> tuple[object, ...]:
    return row["defence"], row["attack"], row["batch"]


def caps_of(rows: Sequence[Row]) -> list[Row]:
    """CAP of every defence against every attack, the strongest one for each value, and none."""
    frame = averaged(rows)
    if frame.empty:
        return []
    between: dict[Any, tuple[float, float] | None] = {
        batch: common(part) for batch, part in frame.groupby("batch")
    }
    found = [
        {
            **dict(zip(("defence", "batch", "attack", "knows"), keys, strict=True)),
            **line(part, between[keys[1]]),
        }
        for keys, part in frame.groupby(["defence", "batch", "attack", "knows"], sort=False)
    ]
    for (defence, batch), part in frame.groupby(["defence", "batch"], sort=False):
        nearest = part.groupby("value", sort=False)[["accuracy", "m", *DISTANCES.values()]].min()
        known = {"attack": STRONGEST, "knows": max(part["knows"])}
        found.append({"defence": defence, "batch": batch, **known, **line(nearest, between[batch])})
        guessed = part.dropna(subset=list(GUESSES)).groupby("value", sort=False)[NUMBERS].first()
        if len(guessed):
            guessed = guessed[["accuracy", "m", *GUESSES]].rename(columns=GUESSES)
            known = {"attack": GUESS, "knows": "", **line(guessed, between[batch])}
            found.append({"defence": defence, "batch": batch, **known})
    return found


def common(frame: pd.DataFrame) -> tuple[float, float] | None:
    """The range of m that all defences with a range of their own cover; None when there is none.

    `frame` is of one batch size: larger batches have smaller gradients, and so another m.
    """
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
        folder.write_cap(table, markdown(table), latex(table))
        save_ppc(folder.ppc_picture, succeeded(rows))
    return table


def crossed(table: Sequence[Row]) -> dict[str, list[list[str]]]:
    """By title: defences down, attacks and batch sizes across, as SPN table 1 has it; a head first.

    Accuracy comes first: CAP is high for a model that learned nothing, too. A figure of several
    seeds has its standard deviation behind it.
    """
    titles = {f"cap-{name}": f"CAP, {SAID[name]}" for name in DISTANCES}
    titles[EQUAL_M] = f"CAP, {MAIN}, where all defences change updates as much (the same m)"
    columns = list(dict.fromkeys((row["attack"], row["batch"]) for row in table))
    found = accuracies(table)
    for name, title in titles.items():
        if not any(name in row for row in table):
            continue
        lines = [["defence", *(f"{a}, batch {b}" for a, b in columns)]]
        for defence in dict.fromkeys(row["defence"] for row in table):
            own = {
                (row["attack"], row["batch"]): spelled(row, name)
                for row in table
                if row["defence"] == defence and name in row
            }
            lines.append([str(defence), *(own.get(key, "") for key in columns)])
        found[title] = lines
    return found


def accuracies(table: Sequence[Row]) -> dict[str, list[list[str]]]:
    """What every defence learned, averaged over its values; batch sizes across."""
    batches = list(dict.fromkeys(row["batch"] for row in table))
    lines = [["defence", *(f"accuracy, batch {batch}" for batch in batches)]]
    for defence in dict.fromkeys(row["defence"] for row in table):
        own = {
            row["batch"]: spelled(row, "accuracy")
            for row in table
            if row["defence"] == defence and row["attack"] == STRONGEST
        }
        lines.append([str(defence), *(own.get(batch, "") for batch in batches)])
    return {"Accuracy (0 to 1)": lines}


def spelled(row: Row, name: str) -> str:
    """A figure, and its spread over seeds where it is known: `0.412 ± 0.013`.

    A dagger stands behind a figure of which cells are missing.
    """
    spread = f" ± {row[name + SPREAD]:.3f}" if name + SPREAD in row else ""
    return f"{row[name]:.3f}{spread}{' †' if row.get(MISSING) else ''}"


def notes(table: Sequence[Row]) -> list[str]:
    """What a reader has to know of the figures."""
    said = [MEANING]
    if any(row.get(MISSING) for row in table):
        said.append("† Cells are missing: the figure is of those that ended, and may change.")
    return said


def markdown(table: Sequence[Row]) -> str:
    """The CAP table as Markdown."""
    parts = []
    for title, (head, *lines) in crossed(table).items():
        parts += [f"## {title} (higher is better)", ""]
        parts += [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines)]
        parts.append("")
    return "\n".join([*parts, *(f"{note}\n" for note in notes(table))])


def latex(table: Sequence[Row]) -> str:
    """The CAP table as LaTeX: one `tabular` a kind of claim."""
    parts = []
    for title, (head, *lines) in crossed(table).items():
        places = "l" + "r" * (len(head) - 1)
        parts += [f"% {title} (higher is better)", rf"\begin{{tabular}}{{{places}}}"]
        parts += [r"\hline", latex_row(head), r"\hline", *map(latex_row, lines), r"\hline"]
        parts += [r"\end{tabular}", ""]
    return "\n".join([*parts, *(f"% {note}" for note in notes(table)), ""])


def latex_row(cells: Sequence[str]) -> str:
    escaped = (
        re.sub(r"([_%&#$])", r"\\\1", cell).replace("±", r"$\pm$").replace("†", r"$\dagger$")
        for cell in cells
    )
    return " & ".join(escaped) + r" \\"
