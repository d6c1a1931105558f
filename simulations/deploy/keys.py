"""Certificates and keys of a federation: an authority, the SuperLink's certificate, a key per
client.

What exists is kept, so that a federation can be stopped and started. Private keys are 0600, each in
the folder of the one who uses it; only certificates and public keys are in the folder that all can
read.
"""

import argparse
import ipaddress
import os
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedpriv.files import write_bytes

DAYS = 825  # the longest life that clients accept of a server's certificate
CA, SERVER, SECRET, CLIENT = "ca", "superlink", "superexec.secret", "client"
Key = ec.EllipticCurvePrivateKey


def private_key(path: Path, kind: serialization.PrivateFormat) -> Key:
    """The key in `path`, made on first use and readable by its owner only."""
    if path.exists():
        data = path.read_bytes()
        openssh = kind is serialization.PrivateFormat.OpenSSH
        load = serialization.load_ssh_private_key if openssh else serialization.load_pem_private_key
        key = load(data, password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key
    key = ec.generate_private_key(ec.SECP384R1())
    pem = key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption())
    write_bytes(path, pem, mode=0o600)
    return key


def authority(folder: Path, trust: Path) -> tuple[Key, x509.Certificate]:
    """The authority's key and certificate; the certificate is public."""
    key = private_key(folder / f"{CA}.key", serialization.PrivateFormat.PKCS8)
    public = trust / f"{CA}.crt"
    if public.exists():
        return key, x509.load_pem_x509_certificate(public.read_bytes())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedpriv federation authority")])
    uses = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        dated(x509.CertificateBuilder().subject_name(name).issuer_name(name), 10 * 365)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(uses, critical=True)
        .add_extension(own, critical=False)
        .sign(key, hashes.SHA384())
    )
    write_bytes(public, certificate.public_bytes(serialization.Encoding.PEM))
    return key, certificate


def dated(builder: x509.CertificateBuilder, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
    )


def server_certificate(
    folder: Path, hosts: Iterable[str], ca_key: Key, ca: x509.Certificate
) -> None:
    """The SuperLink's certificate for its names and addresses, and a secret for its executor."""
    key = private_key(folder / f"{SERVER}.key", serialization.PrivateFormat.PKCS8)
    if not (folder / SECRET).exists():
        write_bytes(folder / SECRET, secrets.token_hex(32).encode(), mode=0o600)
    if (folder / f"{SERVER}.crt").exists():
        return
    hosts = list(hosts)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    certificate = (
        dated(x509.CertificateBuilder().subject_name(name).issuer_name(ca.subject), DAYS)
        .public_key(key.public_key())
        .add_extension(x509.SubjectAlternativeName(map(general_name, hosts)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(above, critical=False)
        .sign(ca_key, hashes.SHA384())
    )
    write_bytes(folder / f"{SERVER}.crt", certificate.public_bytes(serialization.Encoding.PEM))


def general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def client_key(folder: Path, public: Path) -> None:
    """A client's key, and beside the certificates its public half."""
    key = private_key(folder / f"{CLIENT}.key", serialization.PrivateFormat.OpenSSH)
    ssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    write_bytes(public, key.public_key().public_bytes(*ssh) + b"\n")


def make_keys(
    *, ca: Path, trust: Path, superlink: Path, clients: Iterable[Path], hosts: Iterable[str]
) -> None:
    """Everything a federation needs, into the folders of those who need it."""
    ca_key, certificate = authority(ca, trust)
    server_certificate(superlink, hosts, ca_key, certificate)
    for number, folder in enumerate(clients):
        client_key(folder, trust / f"{CLIENT}-{number}.pub")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--authority", type=Path, required=True)
    parser.add_argument("--trust", type=Path, required=True)
    parser.add_argument("--superlink", type=Path, required=True)
    parser.add_argument("--client", type=Path, action="append", required=True)
    parser.add_argument("--host", action="append", required=True)
    given = parser.parse_args()
    os.umask(0o022)
    make_keys(
        ca=given.authority,
        trust=given.trust,
        superlink=given.superlink,
        clients=given.client,
        hosts=given.host,
    )


if __name__ == "__main__":
    main()
