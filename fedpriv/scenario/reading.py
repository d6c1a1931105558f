"""Scenario files: a built-in name or TOML, with `extends`, profiles and --set, to a Scenario."""

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedpriv.errors import BadScenario
from fedpriv.scenario.binding import nearest
from fedpriv.scenario.scenario import Scenario, Table, from_tables

# Keys of a file that the Scenario made of it no longer has: type, meaning, example.
FILE_KEYS = {
    "extends": (
        "text",
        "Another scenario, by name or file, whose keys count unless this file has its own.",
        'extends = "quickstart"',
    ),
    "profiles": (
        "tables",
        "Sets of keys by name. `--profile small` lays those of `[profiles.small]` over the file.",
        "[profiles.small.data]",
    ),
}
DEEPEST = 20  # scenarios, each extending the next


def builtin() -> dict[str, Path]:
    """The scenario files that ship with fedpriv, by name."""
    folder = files("fedpriv.simulations") / "scenarios"
    return {path.stem: path for path in sorted(Path(str(folder)).glob("*.toml"))}


def read(name: str, settings: Iterable[str] = (), profile: str | None = None) -> Scenario:
    """The scenario in a TOML file or of a built-in name, with overrides applied last.

    Args:
        name: A built-in name (`fedpriv scenarios`) or the path of a TOML file.
        settings: Overrides as after `--set`: `training.lr=0.1`.
        profile: One of the scenario's profiles.

    Example:
        >>> from fedpriv import read
        >>> read("quickstart", ["federation.rounds=3"]).federation.rounds
        3
    """
    tables = tables_of(name)
    profiles = tables.pop("profiles", {})
    if profile is not None:
        if not isinstance(profiles, dict) or profile not in profiles:
            raise BadScenario(
                f"Scenario '{name}' has no profile '{profile}'.{nearest(profile, profiles)} "
                f"It has: {', '.join(profiles) or 'none'}."
            )
        tables = merged(tables, profiles[profile])
    for setting in settings:
        tables = merged(tables, parsed_setting(setting))
    return from_tables(tables)


def tables_of(name: str, above: tuple[str, ...] = ()) -> Table:
    """The TOML tables of a file or built-in name, with what they extend underneath.

    `above` are the scenarios that extend this one.
    """
    known = builtin()
    path = known.get(name, Path(name))
    if name not in known and path.suffix != ".toml":
        raise BadScenario(
            f"No scenario is named '{name}'.{nearest(name, known)} Give a .toml file or one of: "
            f"{', '.join(known)}."
        )
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadScenario(f"Scenario file '{path}' is not valid TOML: {error}.") from error
    except (OSError, ValueError) as error:
        raise BadScenario(f"Scenario file '{path}' cannot be read: {error}.") from error
    base = tables.pop("extends", None)
    if base is None:
        return tables
    if not isinstance(base, str):
        raise BadScenario(f"Scenario '{name}': extends must name another scenario, got {base!r}.")
    chain = (*above, name)
    if base in chain or len(chain) > DEEPEST:
        raise BadScenario(
            f"Scenario '{name}': extends goes round in a circle or too deep: "
            f"{' -> '.join((*chain, base)[:DEEPEST])}."
        )
    return merged(tables_of(base, chain), tables)


def merged(below: Mapping[str, Any], above: Any) -> Table:
    """Tables merged key by key; lists and values of `above` replace those `below`."""
    if not isinstance(above, Mapping):
        raise BadScenario(f"A section must be a table, got {above!r}.")
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        if not isinstance(value, Mapping) or not isinstance(under, Mapping):
            result[key] = value
            continue
        renamed = key == "model" and value.get("name", under.get("name")) != under.get("name")
        result[key] = value if renamed else merged(under, value)
    return result


def parsed_setting(setting: str) -> Table:
    """`training.lr=0.1` as nested tables; the value is TOML, or text when it is not."""
    key, equals, value = setting.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise BadScenario(f"--set takes section.key=value, got '{setting}'.")
    try:
        parsed = tomllib.loads(f"value = {value.strip()}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        parsed = value.strip()
    for part in reversed(key.split(".")):
        parsed = {part.strip(): parsed}
    found: Table = parsed
    return found
