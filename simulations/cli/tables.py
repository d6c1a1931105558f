"""The table of what leaked, as the terminal shows it."""

import math
from collections.abc import Iterator, Sequence
from statistics import mean, median
from typing import Any

from rich.table import Table

from fedpriv.catalogue import METRICS
from fedpriv.tables import Row

LEAKS_MOST = "highest and lowest: the sample that leaked most, which can differ by column"
FEW = 2  # metrics with a bound that a terminal has room for; scores.csv has all of them


def scores_tables(title: str, rows: Sequence[Row]) -> Iterator[Table]:
    """A table for each kind of claim, so that no attack has a row of blanks."""
    kinds = list(dict.fromkeys(str(row.get("claim") or "sample") for row in rows))
    for kind in kinds:
        own = [row for row in rows if str(row.get("claim") or "sample") == kind]
        yield scores_table(f"{title}: what leaked ({kind}s)", own)


def scores_table(title: str, rows: Sequence[Row]) -> Table:
    """One line an attack: how many scores, the median of each metric, the end that leaks most.

    Of a metric that is 0 or 1 it is the share: a median would say 0 or 1 again.
    """
    names = [name for name in METRICS if any(name in row for row in rows)]
    bounded = [name for name in names if METRICS.build(name).bound is not None]
    hits = {METRICS.build(name).of: name for name in names if METRICS.build(name).margin}
    shown = [*bounded[:FEW], *hits.values()] or names[: FEW + 1]
    several = any(METRICS.build(name).bound for name in shown)
    table = Table(title=title, caption=LEAKS_MOST if several else None, caption_justify="left")
    table.add_column("attack", overflow="fold")
    columns = ["scores"]
    for name in shown:
        metric = METRICS.build(name)
        said = metric.said or name
        end = "highest" if metric.leaks == "high" else "lowest"
        columns += [f"median {said}", f"{end} {said}"] if metric.bound else [said]
    for column in (*columns, "s"):
        table.add_column(column, justify="right")
    for attack in dict.fromkeys(row["attack"] for row in rows):
        own = [row for row in rows if row["attack"] == attack]
        seconds = {(row["round"], row["node"]): float(row["seconds"]) for row in own}
        cells = [cell for name in shown for cell in figures(name, own)]
        table.add_row(attack, str(len(own)), *cells, f"{sum(seconds.values()):.1f}")
    return table


def figures(name: str, rows: Sequence[Row]) -> list[str]:
    """The median of a metric, and the end that leaks most where it has a bound.

    Where all are hits or none it is the share of hits.
    """
    metric = METRICS.build(name)
    values = [float(row[name]) for row in rows if name in row]
    if not values:
        return ["", ""] if metric.bound else [""]
    usual = mean(values) if set(values) <= {0.0, 1.0} else median(values)
    found = [metric.shown(usual)]
    if metric.bound:
        found.append(metric.shown(max(values) if metric.leaks == "high" else min(values)))
    return found


def finite(value: Any) -> Any:
    """The same for JSON, which has no infinity: null in its place."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
