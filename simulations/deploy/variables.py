"""Variables of a compose file: `.env`, and `${NAME:-default}` in every text."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedpriv.errors import BadInput

VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?:(:?[-?])([^}]*))?\}|(\w+))")


class BadCompose(BadInput):
    """The compose file is wrong: the service and the key are named."""


def dotenv(path: Path) -> dict[str, str]:
    """The NAME=value lines of a .env file."""
    if not path.exists():
        return {}
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def interpolated(value: Any, known: Mapping[str, str], where: str) -> Any:
    """`${NAME:-default}` replaced in every text, as Compose does it."""
    if isinstance(value, dict):
        return {key: interpolated(item, known, f"{where}, {key}") for key, item in value.items()}
    if isinstance(value, list):
        return [interpolated(item, known, where) for item in value]
    if not isinstance(value, str):
        return value

    def replaced(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name, how, other = match[1] or match[4], match[2] or "", match[3] or ""
        found = known.get(name)
        if found is not None and not (how.startswith(":") and not found):
            return found
        if how.endswith("?"):
            raise BadCompose(f"{where}: {name} must be set. {other}".strip())
        return other

    return VARIABLE.sub(replaced, value)
