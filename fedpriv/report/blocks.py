"""The parts of a page: sections of charts, tables, pictures and blocks of text."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fedpriv.report.charts import Chart


@dataclass(frozen=True)
class Cell:
    """A cell with a mark: good, near or bad."""

    text: str
    mark: str = ""


@dataclass(frozen=True)
class Table:
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numbers: frozenset[int] = frozenset()  # the columns set to the right


@dataclass(frozen=True)
class Tile:
    """One entry of the gallery: pictures side by side, a word and a data URI each."""

    caption: str
    parts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Block:
    title: str
    text: str


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    words: str = ""
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    tiles: Sequence[Tile] = ()
    blocks: Sequence[Block] = field(default=())

    def __bool__(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.charts or self.tables or self.tiles or self.blocks)
