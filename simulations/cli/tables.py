"""What leaked, for a terminal."""

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from rich.table import Table


def scores_table(title: str, rows: Sequence[dict[str, Any]]) -> Table:
    """One line an attack: how many guesses, the median and the worst of them, labels and owners hit."""
    table = Table(title=title)
    table.add_column("attack")
    columns = ("guesses", "median PSNR", "best PSNR", "median rMSE", "labels hit", "traced", "s")
    for column in columns:
        table.add_column(column, justify="right")
    for attack in dict.fromkeys(row["attack"] for row in rows):
        own = [row for row in rows if row["attack"] == attack]
        psnr = [row["psnr"] for row in own if "psnr" in row]
        hits = [row["label-hit"] for row in own]
        traced = [row["traced-hit"] for row in own if "traced-hit" in row]
        seconds = {(row["round"], row["node"]): row["seconds"] for row in own}
        table.add_row(
            attack,
            str(len(own)),
            f"{median(psnr):.1f} dB" if psnr else "",
            f"{max(psnr):.1f} dB" if psnr else "",
            f"{median(row['rmse'] for row in own):.3f}",
            f"{sum(hits) / len(hits):.0%}",
            f"{sum(traced) / len(traced):.0%}" if traced else "",
            f"{sum(seconds.values()):.1f}",
        )
    return table


def finite(value: Any) -> Any:
    """The same for JSON, which has no infinity: null in its place."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
