"""`python -m fedpriv.simulations.deploy.probe host:port …`: whether every address is answered."""

import socket
import sys
from collections.abc import Iterable


def silent(addresses: Iterable[str], timeout: float = 5.0) -> list[str]:
    """The addresses nobody answers on."""
    found = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout).close()
        except OSError:
            found.append(address)
    return found


if __name__ == "__main__":
    quiet = silent(sys.argv[1:])
    sys.exit(f"nobody listens on {', '.join(quiet)}" if quiet else 0)
