"""`python -m fedpriv.simulations.deploy.keys`: who needs which key of a federation.

    authority   ca.key: signs the SuperLink's certificate
    trust       ca.crt and the clients' public keys: what everybody may read
    superlink   superlink.key and superlink.crt
    serverapp   superexec.secret: between the SuperLink and the executor of ServerApps
    client      client.key of a SuperNode, and the key of its own small server
    hop         supernode.crt and executor.secret: between a SuperNode and its executor

A hop's certificate is signed by itself: no authority, not even the federation's, can stand between
a client's SuperNode and its executor. What exists is kept, so that a federation can be stopped and
started; a SuperLink's or hop's certificate that ends within 30 days is renewed. Private files are
0600.
"""

import argparse
import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from fedpriv.errors import FedprivError
from fedpriv.files import write_bytes
from fedpriv.simulations.deploy.certificates import (
    OPENSSH,
    Key,
    authority_certificate,
    days_left,
    fresh,
    new_key,
    of_key,
    private_key,
    read_certificates,
    server_certificate,
    write_certificates,
)

CA, NEXT, SERVER, SECRET = "ca", "next", "superlink", "superexec.secret"
CLIENT, HOP, HOP_SECRET = "client", "supernode", "executor.secret"


@dataclass(frozen=True)
class Places:
    """The folders of a federation's keys."""

    authority: Path
    trust: Path
    superlink: Path
    serverapp: Path
    clients: Sequence[Path]
    hops: Sequence[Path]
    hosts: Sequence[str]  # the SuperLink's names and addresses

    @property
    def bundle(self) -> Path:
        return self.trust / f"{CA}.crt"


def make_keys(places: Places) -> None:
    """Everything a federation needs that is not there yet, or ends soon."""
    ca_key, ca = authority(places)
    key = private_key(places.superlink / f"{SERVER}.key")
    if not fresh(places.superlink / f"{SERVER}.crt", key, ca_key):
        certify(places, ca_key, ca)
    secret(places.serverapp / SECRET)
    for number, (folder, hop) in enumerate(zip(places.clients, places.hops, strict=True)):
        client_key(folder, places.trust / f"{CLIENT}-{number}.pub")
        key = private_key(folder / f"{HOP}.key")
        if not fresh(hop / f"{HOP}.crt", key, key):
            connect(folder, hop, number)
        secret(hop / HOP_SECRET)


def rotate(places: Places, *, client_keys: bool = False) -> None:
    """New keys, certificates and secrets below the authority; the next authority if there is one.

    Clients keep their registered keys unless `client_keys`.
    """
    following = places.authority / f"{NEXT}.key"
    if following.exists():
        following.replace(places.authority / f"{CA}.key")
    ca_key, ca = authority(places)
    write_certificates(places.bundle, [ca])
    new_key(places.superlink / f"{SERVER}.key")
    certify(places, ca_key, ca)
    secret(places.serverapp / SECRET, new=True)
    for number, (folder, hop) in enumerate(zip(places.clients, places.hops, strict=True)):
        if client_keys:
            new_key(folder / f"{CLIENT}.key", OPENSSH)
            client_key(folder, places.trust / f"{CLIENT}-{number}.pub")
        new_key(folder / f"{HOP}.key")
        connect(folder, hop, number)
        secret(hop / HOP_SECRET, new=True)


def next_authority(places: Places) -> None:
    """A second authority that everybody trusts; the first one still signs until the next `rotate`.

    Between the two steps clients on other machines get the new ca.crt.
    """
    _, first = authority(places)
    key = new_key(places.authority / f"{NEXT}.key")
    write_certificates(places.bundle, [first, authority_certificate(key)])


def authority(places: Places) -> tuple[Key, x509.Certificate]:
    """The authority's key, and that one of the certificates in the bundle that is of this key."""
    key = private_key(places.authority / f"{CA}.key")
    found = [one for one in read_certificates(places.bundle) if of_key(one, key)]
    if not found:
        found = [authority_certificate(key)]
        write_certificates(places.bundle, found)
    if days_left(found[0]) < 0:
        print("the authority has expired: fedpriv deploy rotate --authority, then deploy rotate")
    return key, found[0]


def certify(places: Places, ca_key: Key, ca: x509.Certificate) -> None:
    """A certificate for the SuperLink, signed by the authority."""
    key = private_key(places.superlink / f"{SERVER}.key")
    certificate = server_certificate(key, places.hosts, ca_key, ca)
    write_certificates(places.superlink / f"{SERVER}.crt", [certificate])


def connect(folder: Path, hop: Path, number: int) -> None:
    """A certificate of its own for a SuperNode's small server, which its executor knows."""
    key = private_key(folder / f"{HOP}.key")
    hosts = [f"{HOP}-{number}", "localhost", "127.0.0.1"]
    write_certificates(hop / f"{HOP}.crt", [server_certificate(key, hosts, key)])


def secret(path: Path, *, new: bool = False) -> None:
    """A secret of 256 bits, kept when it is there."""
    if new or not path.exists():
        write_bytes(path, secrets.token_hex(32).encode(), mode=0o600)


def client_key(folder: Path, public: Path) -> None:
    """A client's key, and beside the certificates its public half."""
    key = private_key(folder / f"{CLIENT}.key", OPENSSH)
    ssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    write_bytes(public, key.public_key().public_bytes(*ssh) + b"\n", mode=0o644)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("authority", "trust", "superlink", "serverapp"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--client", type=Path, action="append", required=True)
    parser.add_argument("--hop", type=Path, action="append", required=True)
    parser.add_argument("--host", action="append", required=True)
    parser.add_argument("--rotate", choices=["leaves", "clients", "authority"])
    given = parser.parse_args()
    os.umask(0o022)
    places = Places(
        authority=given.authority,
        trust=given.trust,
        superlink=given.superlink,
        serverapp=given.serverapp,
        clients=given.client,
        hops=given.hop,
        hosts=given.host,
    )
    try:
        if given.rotate == "authority":
            next_authority(places)
        elif given.rotate:
            rotate(places, client_keys=given.rotate == "clients")
        else:
            make_keys(places)
    except FedprivError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
