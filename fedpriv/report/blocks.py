"""The parts of a page: sections of charts, tables, pictures and blocks of text."""

from collections.abc import Mapping, Sequence
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


def environment_blocks(environment: Mapping[str, Any], name: str = "") -> list[Block]:
    """The command and the versions of a run or a sweep, where they are known."""
    of = f" of {name}" if name else ""
    command, versions = environment.get("command"), environment.get("packages", {})
    listed = "\n".join(f"{package} {version}" for package, version in versions.items())
    found = [Block(f"The command{of}", command or ""), Block(f"The versions{of}", listed)]
    return [block for block in found if block.text]


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
