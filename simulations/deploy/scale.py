"""A compose file with another number of clients: what is written for the last one, repeated.

A client's things carry its number: services and volumes that end in it, `partition-id=2`, and lines
about it in services that serve all clients. A file with three clients becomes one with thirty-two
when what is written for client 2 is written for 3 to 31 as well.
"""

import re
from typing import Any

from fedpriv.simulations.deploy.variables import BadCompose

MOST = 256  # beyond it, ports and processes of one machine run short
NUMBERED = re.compile(r"(?:client|supernode)-(\d+)\b")


def scaled(tables: dict[str, Any], clients: int) -> dict[str, Any]:
    """The tables of a compose file for `clients` clients."""
    if not 1 <= clients <= MOST:
        raise BadCompose(f"--clients must be between 1 and {MOST}, got {clients}.")
    services = tables["services"]
    own = {name: number_of(name) for name in services}
    known = sorted({number for number in own.values() if number is not None})
    if not known or known != list(range(len(known))):
        raise BadCompose(
            "--clients needs services named client-0, client-1, … without a gap; the file has "
            f"the numbers {known}."
        )
    last = known[-1]
    scaled_services: dict[str, Any] = {}
    for name, table in services.items():
        mine = own[name]
        if mine is None:
            scaled_services[name] = repeated(table, last, clients)
        elif mine < clients:
            scaled_services[name] = table
        if mine == last:
            for number in range(last + 1, clients):
                scaled_services[renumbered(name, last, number)] = renumbered(table, last, number)
    return {**tables, "services": scaled_services}


def number_of(text: str) -> int | None:
    """The number of the client that a name or a word is about, None if it is about all."""
    found = NUMBERED.search(text)
    return int(found[1]) if found else None


def repeated(value: Any, last: int, clients: int) -> Any:
    """Lists in which every line about the last client is followed by the same for the others."""
    if isinstance(value, dict):
        return {key: repeated(item, last, clients) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    lines: list[Any] = []
    for item in value:
        number = number_of(item) if isinstance(item, str) else None
        if number is None or number < clients:
            lines.append(item)
        if number == last:
            lines += [renumbered(item, last, other) for other in range(last + 1, clients)]
    return lines


def renumbered(value: Any, old: int, new: int) -> Any:
    """Every word about client `old` as a word about client `new`."""
    if isinstance(value, dict):
        return {
            renumbered(key, old, new): renumbered(item, old, new) for key, item in value.items()
        }
    if isinstance(value, list):
        return [renumbered(item, old, new) for item in value]
    if not isinstance(value, str):
        return value
    return re.sub(rf"\b(client-|supernode-|partition-id=){old}\b", rf"\g<1>{new}", value)
