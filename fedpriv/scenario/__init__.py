"""What was asked for: TOML and --set in, typed sections out, parts built once per process."""

from fedpriv.scenario.reading import builtin, merged, parsed_setting, read, tables_of
from fedpriv.scenario.scenario import Scenario, from_tables

__all__ = [
    "Scenario",
    "builtin",
    "from_tables",
    "merged",
    "parsed_setting",
    "read",
    "tables_of",
]
