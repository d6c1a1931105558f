"""The section of a page that shows the tables and pictures a scenario itself ends in."""

import math
from collections.abc import Mapping
from typing import Any

from fedpriv.catalogue import METRICS
from fedpriv.columns import BLIND, PARETO, SUMMARY
from fedpriv.report.blocks import Section, Table, Tile
from fedpriv.report.gallery import file_uri
from fedpriv.report.reading import Material

ROWS = 200
WIDE = 9  # columns that a page has room for


def summary_section(material: Material) -> Section:
    tables = []
    for name, frame in material.summaries:
        rows = [tuple(map(shown, row)) for row in frame.head(ROWS).itertuples(index=False)]
        words = [str(column).replace("_", " ") for column in frame.columns]
        numbers = [i for i, column in enumerate(frame) if frame[column].dtype.kind in "if"]
        if len(words) > WIDE and len(rows) < WIDE:  # columns become lines, so that all are seen
            known = PARETO if name.endswith("pareto") else SUMMARY
            told = [meaning(column, known) for column in frame.columns[1:]]
            down = zip(words[1:], *(row[1:] for row in rows), told, strict=True)
            head = [words[0], *(row[0] for row in rows), "what it is"]
            tables.append(Table(name, head, list(down), frozenset(range(1, len(head) - 1))))
        else:
            tables.append(Table(name, words, rows, frozenset(numbers)))
    tiles = [Tile("", ((path.stem, file_uri(path)),)) for path in material.pictures]
    return Section("summary", "Summary", tables=tables, tiles=tiles)


def meaning(column: str, known: Mapping[str, str]) -> str:
    """What a column holds, in words; "" for one that nobody explains."""
    bare = column.removesuffix(BLIND)
    if column in known:
        return known[column]
    if bare not in METRICS:
        return ""
    same = "the same for a guess made without evidence"
    return METRICS[bare].summary if bare == column else same


def shown(value: Any) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.4g}"
    return str(value)
