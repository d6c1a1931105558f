"""Names that people type: a table of builders, open to entry points and import paths."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from fedpriv.binding import bound, nearest
from fedpriv.errors import BadOption

T = TypeVar("T")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One row: what builds the thing, what it is in one line, and the paper it comes from."""

    build: Callable[..., T]
    summary: str
    paper: str = ""


def imported(path: str, what: str) -> Any:
    """The object at `pkg.module:Name`."""
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadOption(f"{what} '{path}' cannot be imported: {error}.") from error


class Registry(Mapping[str, Entry[T]]):
    """Rows by name; also entry points of the group `fedpriv.<kind>` and `pkg.module:Name`."""

    def __init__(self, kind: str, rows: Mapping[str, Entry[T]]) -> None:
        self.kind = kind
        self._rows = dict(rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, name: str) -> Entry[T]:
        if name in self._rows:
            return self._rows[name]
        if ":" in name:
            build = imported(name, self.kind)
            return Entry(build, (build.__doc__ or name).splitlines()[0])
        for point in entry_points(group=f"fedpriv.{self.kind}", name=name):
            build = point.load()
            return Entry(build, (build.__doc__ or name).splitlines()[0])
        choices = ", ".join(self._rows)
        raise BadOption(
            f"No {self.kind} is named '{name}'.{nearest(name, self._rows)} Choose from: {choices}."
        )

    def build(self, name: str, options: Mapping[str, Any] | None = None, **given: Any) -> T:
        """The thing called `name`, from options as typed; `given` are arguments people do not type."""
        row = self[name]
        arguments = bound(row.build, options or {}, f"{self.kind} '{name}'", given)
        return row.build(**given, **arguments)
