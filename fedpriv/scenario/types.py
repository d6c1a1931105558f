"""The types of options: what a file can hold, and how people say it."""

import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

# Every number that people type is finite, but for options of this type, where inf has a meaning.
OrInfinite = Annotated[float, "or infinite"]
_WORDS = {float: "number", int: "whole number", bool: "true or false", str: "text"}


def typeable(hint: Any) -> bool:
    """Whether a TOML file can hold a value of this type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return typeable(inner[0])
    if origin is Literal:
        return True
    if origin in (Union, types.UnionType, tuple, list, Sequence, Mapping, dict):
        return all(typeable(one) for one in inner if one is not type(None) and one is not ...)
    return hint in (*_WORDS, Any, inspect.Parameter.empty, tuple, list, dict)


def type_words(hint: Any) -> str:
    """A type in plain words: `tuple[int, ...]` is a list of whole numbers."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint == OrInfinite:
        return "number or inf"
    if origin is Annotated:
        return type_words(inner[0])
    if origin is Literal:
        return " or ".join(as_toml(choice) for choice in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(type_words(one) for one in inner if one is not type(None))
    if origin in (tuple, list, Sequence):
        each = type_words(inner[0])
        return "list of tables" if each == "table" else f"list of {_plural(each)}"
    if origin in (Mapping, dict) or hint is dict:
        return "table"
    return _WORDS.get(hint, "anything")


def _plural(words: str) -> str:
    return words if words in ("text", "anything") else f"{words}s"


def as_toml(value: Any) -> str:
    """A value as TOML writes it; '–' for none."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key} = {as_toml(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(as_toml, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def wanted(hint: Any) -> str:
    """What a value must be, for an error: "a whole number", "one of …"."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(hint))
    words = type_words(hint)
    bare = words.startswith(("text", "true or false", '"', "anything"))
    return words if bare else f"a {words}"
