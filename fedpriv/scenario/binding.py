"""Options that people type, bound to what takes them. Names and types are checked here."""

import difflib
import inspect
import math
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fedpriv.errors import BadOption
from fedpriv.scenario.types import OrInfinite
from fedpriv.scenario.types import wanted as wanted_type

T = TypeVar("T")


def nearest(name: str, choices: Iterable[str]) -> str:
    """' Did you mean …?' for a name close to a choice, else nothing."""
    close = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.6)
    return f" Did you mean '{close[0]}'?" if close else ""


def kebab(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def parameters(
    build: Callable[..., Any], given: Collection[str] = ()
) -> dict[str, inspect.Parameter]:
    """The options that `build` takes, by the name people type; `given` ones they cannot type."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = inspect.signature(build).parameters.values()
    return {kebab(p.name): p for p in found if p.kind in kinds and p.name not in given}


def hints_of(build: Callable[..., Any]) -> dict[str, Any]:
    inner = getattr(build, "func", build)
    target = inner.__init__ if inspect.isclass(inner) else inner
    try:
        return get_type_hints(target, include_extras=True)
    except (TypeError, NameError):
        return {}


def _fits(value: Any, hint: Any) -> tuple[bool, Any]:
    """Whether `value` is of the type `hint`, and the value as that type."""
    origin = get_origin(hint)
    if hint == OrInfinite:
        return _is_number(value) and not math.isnan(value), value
    if origin is Annotated:
        return _fits(value, get_args(hint)[0])
    if hint is Any:  # what it is a value of, such as a swept option, has a type of its own
        return value == value, value
    if hint is inspect.Parameter.empty or isinstance(hint, TypeVar):
        return not isinstance(value, float) or is_finite(value), value
    if origin in (Union, types.UnionType):
        for choice in get_args(hint):
            fits, converted = _fits(value, choice)
            if fits:
                return True, converted
        return False, value
    if origin is Literal:
        return value in get_args(hint), value
    if hint is type(None):
        return value is None, value
    if hint is float:
        good = _is_number(value) and is_finite(value)
        return good, float(value) if good else value
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    if hint in (bool, str):
        return isinstance(value, hint), value
    if origin in (tuple, list):
        if not isinstance(value, list | tuple):
            return False, value
        item = (get_args(hint) or (Any,))[0]
        pairs = [_fits(element, item) for element in value]
        return all(fits for fits, _ in pairs), origin(converted for _, converted in pairs)
    if hint in (tuple, list):
        return isinstance(value, list | tuple), hint(value) if isinstance(value, list) else value
    if origin in (dict, Mapping) or hint is dict:
        return isinstance(value, Mapping), value
    return True, value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def bound(
    build: Callable[..., T], options: Mapping[str, Any], what: str, given: Collection[str] = ()
) -> dict[str, Any]:
    """The keyword arguments for `build` from options as typed; BadOption names what is wrong."""
    arguments = fitted(build, options, what, given)
    missing = [
        key
        for key, parameter in parameters(build, given).items()
        if parameter.default is inspect.Parameter.empty and parameter.name not in arguments
    ]
    if missing:
        raise BadOption(f"{what} needs {', '.join(repr(key) for key in missing)}.")
    return arguments


def fitted(
    build: Callable[..., T], options: Mapping[str, Any], what: str, given: Collection[str] = ()
) -> dict[str, Any]:
    """As `bound`, of those options that are there."""
    takes, hints = parameters(build, given), hints_of(build)
    arguments = {}
    for typed, value in options.items():
        key = kebab(typed)
        if key not in takes:
            known = ", ".join(takes) or "none"
            raise BadOption(
                f"{what} has no option '{typed}'.{nearest(key, takes)} It takes: {known}."
            )
        name = takes[key].name
        hint = hints.get(name, takes[key].annotation)
        fits, converted = _fits(value, hint)
        if not fits:
            odd = isinstance(value, float) and not is_finite(value)
            wanted = "a finite number" if odd and hint != OrInfinite else wanted_type(hint)
            raise BadOption(f"{what}: '{typed}' must be {wanted}, got {value!r}.")
        arguments[name] = converted
    return arguments


def call(build: Callable[..., T], options: Mapping[str, Any], what: str) -> T:
    """`build` called with options as typed."""
    return build(**bound(build, options, what))
