"""`python -m fedpriv.clients.protection.template FOLDER`: write a commented terms.toml.

A file that is there is left alone: it is the owner's.
"""

import json
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedpriv.clients.catalogue import PLUGINS, row_of
from fedpriv.clients.protection.terms import FILE, keys
from fedpriv.files import whole
from fedpriv.scenario.binding import kebab

HEAD = """\
# What this client answers, whatever a server asks for. A real client refuses the rest.
# Every key may be left out; the value is then the one that a comment calls the default.
"""
PLUGIN = """\
[[plugins]]
name = "guard"      # looks at every model before it trains on it
action = "refuse"

# [[plugins]]       # differential privacy: an ε for everything that leaves, and a budget
# name = "dp"
# epsilon = 2.0
# budget = 8.0
# evaluation-noise = 20.0   # allows `evaluate`, if it is among `messages`: each one spends ε too
"""


def terms_template(tasks: Iterable[str] = ("mnist-5k",)) -> str:
    """A terms.toml for clients that train on these data sets with the plugins of updates."""
    given = {
        "tasks": list(tasks),
        "extra_plugins": [name for name in PLUGINS if "update" in row_of(name).protects],
    }
    parts = [HEAD]
    for one in keys():
        why = "\n".join(textwrap.wrap(one.metadata["why"], 96, initial_indent="# "))
        why = why.replace("\n", "\n# ")
        if one.name == "plugins":
            parts.append(f"{why}\n{PLUGIN}")
            continue
        value = given.get(one.name, one.default)
        default = f"  # default: {written(one.default)}" if one.name in given else ""
        parts.append(f"{why}\n{kebab(one.name)} = {written(value)}{default}\n")
    return "\n".join(parts)


def written(value: Any) -> str:
    """A default as TOML writes it; JSON's spelling is TOML's for lists, texts and numbers."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: python -m fedpriv.clients.protection.template FOLDER [DATA …]")
    path, tasks = Path(sys.argv[1]) / FILE, sys.argv[2:]
    if path.exists():
        print(f"{path} is there and is left as it is.")
        return
    with whole(path, mode=0o600) as beside:
        beside.write_text(terms_template(tasks) if tasks else terms_template(), encoding="utf-8")
    print(f"{path} written.")


if __name__ == "__main__":
    main()
