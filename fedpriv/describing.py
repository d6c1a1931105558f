"""What the options of a part mean, read from where they are defined: signatures and docstrings."""

import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from fedpriv.scenario.binding import hints_of, parameters
from fedpriv.scenario.types import as_toml, type_words, typeable

NEEDED = inspect.Parameter.empty  # the default of an option that must be given
_ENTRY = re.compile(r"(\w+)(?: \(([^)]+)\))?: (.*)")
_EXAMPLE = re.compile(r"\s*Example: `([^`]+)`\.?$")


@dataclass(frozen=True)
class Option:
    """An option or a key: what people type, what it may be, and what it means."""

    name: str
    hint: Any
    default: Any
    meaning: str = ""
    unit: str = ""
    example: str = ""

    @property
    def type(self) -> str:
        return type_words(self.hint)

    @property
    def shown_default(self) -> str:
        """The default as a TOML file would have it; '–' where none stands for something else."""
        return "needed" if self.default is NEEDED else as_toml(self.default)


def options_of(build: Callable[..., Any], given: Collection[str] = ()) -> list[Option]:
    """The options that people type for `build`, each with what its docstring says of it.

    Arguments that the program gives, and those that no file can hold, are left out.
    """
    hints, said = hints_of(build), arguments(build)
    found = []
    for name, parameter in parameters(build, given).items():
        hint = hints.get(parameter.name, parameter.annotation)
        if typeable(hint):
            meaning, unit, example = said.get(parameter.name, ("", "", ""))
            found.append(Option(name, hint, default_of(parameter), meaning, unit, example))
    return found


def default_of(parameter: inspect.Parameter) -> Any:
    """The default; empty for what a dataclass makes anew each time."""
    return {} if repr(parameter.default) == "<factory>" else parameter.default


def arguments(thing: Any) -> dict[str, tuple[str, str, str]]:
    """Meaning, unit and example of every argument that the docstring's `Args:` names.

    A class also has what its bases say. The form is `name (unit): Meaning. Example: `value`.`
    """
    while hasattr(thing, "func"):  # a functools.partial
        thing = thing.func
    sources = reversed(thing.__mro__) if inspect.isclass(thing) else [thing]
    found: dict[str, tuple[str, str, str]] = {}
    for source in sources:
        for entry in _entries(inspect.cleandoc(vars_doc(source))):
            if match := _ENTRY.fullmatch(entry):
                name, unit, text = match[1], match[2] or "", match[3]
                example = _EXAMPLE.search(text)
                meaning = _EXAMPLE.sub("", text)
                found[name] = (meaning, unit, example[1] if example else "")
    return found


def vars_doc(thing: Any) -> str:
    """The docstring that a class or function has itself."""
    return (vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__) or ""


def _entries(doc: str) -> list[str]:
    """The entries below `Args:`, each on one line."""
    _, _, below = doc.partition("Args:\n")
    entries: list[str] = []
    for line in below.splitlines():
        if line.strip() and not line.startswith("    "):
            break
        if line.startswith("     ") and entries:
            entries[-1] += f" {line.strip()}"
        elif line.strip():
            entries.append(line.strip())
    return entries
