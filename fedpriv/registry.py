"""Registry: the names that people type, one row each, open to entry points and import paths."""

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from fedpriv.errors import BadOption, FedprivError
from fedpriv.scenario.binding import bound, nearest

T = TypeVar("T")
FOREIGN = (Exception, SystemExit)  # whatever somebody else's code may raise, a sys.exit too


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One row: what builds the thing, what it is in one line, and the paper it comes from.

    A registry whose parts have more to say has a row class of its own with more fields, all with
    defaults. Somebody else's part says the same as attributes of its class or function:
    `knows = "rounding"` in the class body is the field `knows` of its row.

    Args:
        build: A class or function; its parameters are the options that people type.
        summary: What it is, in one line.
        paper: Where it comes from.

    Example:
        >>> from fedpriv import Entry
        >>> Entry(dict, "an empty table").build(rows=3)
        {'rows': 3}
    """

    build: Callable[..., T]
    summary: str
    paper: str = ""


def imported(path: str, what: str) -> Any:
    """The object at `pkg.module:Name`."""
    module, _, name = path.partition(":")
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found
    except FOREIGN as error:
        raise BadOption(f"{what} '{path}' cannot be imported: {said(error)}.") from error


def said(error: BaseException) -> str:
    """What somebody else's code raised, in a line: a class of Python's own needs its name."""
    text = " ".join(str(error).split())
    plain = isinstance(error, FedprivError | ImportError | AttributeError)
    return text if plain and text else f"{type(error).__name__}: {text}".removesuffix(": ")


def accepted(build: Callable[..., Any], names: Iterable[str]) -> set[str]:
    """Those of the names that are parameters of `build`; all of them when it takes any keyword."""
    takes = inspect.signature(build).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values()):
        return set(names)
    return set(names) & takes.keys()


class Registry(Mapping[str, Entry[T]]):
    """Rows by name: our own, those of entry points in `group`, and any `pkg.module:Name`.

    Iterating gives our own names and those of entry points. `group` is `fedpriv.<plural>`, the word
    that `fedpriv list` takes. What is built is a `gives`, when that is known. The arguments `given`
    come from the program, and nobody types them.
    """

    def __init__(
        self,
        kind: str,
        plural: str,
        rows: Mapping[str, Entry[T]],
        row: type[Entry[T]] = Entry,
        gives: type[T] | None = None,
        given: Iterable[str] = (),
    ) -> None:
        self.kind, self.plural, self.row, self.gives = kind, plural, row, gives
        self.given = frozenset(given)
        self._rows = dict(rows)

    @property
    def group(self) -> str:
        return f"fedpriv.{self.plural}"

    @cached_property
    def _points(self) -> dict[str, EntryPoint]:
        """Entry points by name; one of ours is never replaced."""
        found = entry_points(group=self.group)
        return {point.name: point for point in found if point.name not in self._rows}

    def __iter__(self) -> Iterator[str]:
        return iter((*self._rows, *self._points))

    def __len__(self) -> int:
        return len(self._rows) + len(self._points)

    def __getitem__(self, name: str) -> Entry[T]:
        if name in self._rows:
            return self._rows[name]
        if ":" in name:
            return self._row_of(imported(name, self.kind), name)
        if name in self._points:
            try:
                return self._row_of(self._points[name].load(), name)
            except FOREIGN as error:
                raise BadOption(
                    f"{self.kind} '{name}' is an entry point that cannot be loaded: {said(error)}."
                ) from error
        raise BadOption(
            f"No {self.kind} is named '{name}'.{nearest(name, self)} Choose from: "
            f"{', '.join(self)}."
        )

    def ours(self, name: str) -> bool:
        """Whether a name is of our own table, not of an entry point or an import path."""
        return name in self._rows

    def __contains__(self, name: object) -> bool:
        return name in self._rows or name in self._points

    def _row_of(self, build: Any, name: str) -> Entry[T]:
        """The row of somebody else's part, from what its class or function says about itself."""
        if not callable(build):
            raise BadOption(
                f"{self.kind} '{name}' must be a class or a function, got {build!r:.100}."
            )
        said_first = (getattr(build, "__doc__", None) or name).strip().partition("\n\n")[0]
        known = [f.name for f in fields(self.row) if f.name not in ("build", "summary")]
        said = {key: getattr(build, key) for key in known if hasattr(build, key)}
        return self.row(build, " ".join(said_first.split()), **said)

    def build(self, name: str, options: Mapping[str, Any] | None = None, **given: Any) -> T:
        """The thing called `name`, from options as typed; nobody types the arguments `given`."""
        row = self[name]
        for key in given.keys() - accepted(row.build, given):
            raise BadOption(
                f"{self.kind} '{name}' must take the parameter '{key}', which it is given."
            )
        arguments = bound(row.build, options or {}, f"{self.kind} '{name}'", given)
        try:
            built = row.build(**given, **arguments)
        except FedprivError:
            raise
        except FOREIGN as error:
            raise BadOption(f"{self.kind} '{name}' cannot be built: {said(error)}.") from error
        if self.gives is not None and not isinstance(built, self.gives):
            raise BadOption(
                f"{self.kind} '{name}' must give a {self.gives.__name__}, got {built!r:.100}."
            )
        return built
