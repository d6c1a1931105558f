"""`python -m fedpriv.simulations.deploy.enrol`: register clients' keys with a SuperLink."""

import argparse
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from fedpriv.errors import BadInput, FedprivError
from fedpriv.flower import public_key_to_bytes
from fedpriv.simulations.deploy.control import Control


def key_in(path: Path) -> bytes:
    """The public key in an OpenSSH file as Flower writes keys."""
    try:
        key = load_ssh_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadInput(f"'{path}' is no OpenSSH public key: {error}.") from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise BadInput(f"'{path}' must be an elliptic-curve key: ssh-keygen -t ecdsa -b 384.")
    return public_key_to_bytes(key)


def enrol(control: Control, keys: list[Path]) -> None:
    """Register the keys that are not registered yet."""
    known = {key for _, _, key in control.nodes()}
    for path in keys:
        key = key_in(path)
        if key not in known:
            print(f"{path.name}: node {control.register(key)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--superlink", required=True)
    parser.add_argument("--root-certificates", type=Path)
    parser.add_argument("keys", nargs="+", type=Path)
    given = parser.parse_args()
    try:
        enrol(Control(given.superlink, given.root_certificates), given.keys)
    except FedprivError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
