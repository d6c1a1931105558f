"""Keys and certificates on disk: made on first use, renewed in time, read for their expiry."""

import ipaddress
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedpriv.errors import BadFolder
from fedpriv.files import write_bytes

AUTHORITY_DAYS, LEAF_DAYS = 730, 90
RENEW_DAYS = 30  # a certificate with less life than this is renewed at the next start
Key = ec.EllipticCurvePrivateKey
PKCS8, OPENSSH = serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.OpenSSH


def private_key(path: Path, kind: serialization.PrivateFormat = PKCS8) -> Key:
    """The key in `path`, made on first use and readable by its owner only."""
    if not path.exists():
        return new_key(path, kind)
    load = (
        serialization.load_ssh_private_key
        if kind is OPENSSH
        else serialization.load_pem_private_key
    )
    try:
        key = load(path.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise BadFolder(f"The key '{path}' cannot be read: {error}.") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadFolder(f"The key '{path}' is not an elliptic-curve key; move it away.")
    return key


def new_key(path: Path, kind: serialization.PrivateFormat = PKCS8) -> Key:
    """A new key, in place of one that may be there."""
    key = ec.generate_private_key(ec.SECP384R1())
    pem = key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption())
    write_bytes(path, pem, mode=0o600)
    return key


def authority_certificate(key: Key) -> x509.Certificate:
    """A certificate that vouches for others."""
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
    return (
        dated(name, name, AUTHORITY_DAYS)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(uses, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )


def server_certificate(
    key: Key, hosts: Sequence[str], signer: Key, issuer: x509.Certificate | None = None
) -> x509.Certificate:
    """A server's certificate for its names and addresses; without an issuer it is its own."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        dated(name, issuer.subject if issuer else name, LEAF_DAYS)
        .public_key(key.public_key())
        .add_extension(x509.SubjectAlternativeName(map(general_name, hosts)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(above, critical=False)
        .sign(signer, hashes.SHA384())
    )


def dated(subject: x509.Name, issuer: x509.Name, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
    )


def general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def write_certificates(path: Path, certificates: Iterable[x509.Certificate]) -> None:
    pem = (one.public_bytes(serialization.Encoding.PEM) for one in certificates)
    write_bytes(path, b"".join(pem), mode=0o644)


def read_certificates(path: Path) -> list[x509.Certificate]:
    """The certificates in a file, none when there is no file."""
    if not path.exists():
        return []
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadFolder(f"The certificate '{path}' cannot be read: {error}.") from error


def days_left(certificate: x509.Certificate) -> float:
    """Days until a certificate expires; negative when it has."""
    return (certificate.not_valid_after_utc - datetime.now(UTC)) / timedelta(days=1)


def of_key(certificate: x509.Certificate, key: Key) -> bool:
    return certificate.public_key() == key.public_key()


def fresh(path: Path, key: Key, signer: Key) -> bool:
    """Whether the certificate in a file is this key's, of this signer, and will live a while."""
    found = read_certificates(path)
    if len(found) != 1 or not of_key(found[0], key) or days_left(found[0]) <= RENEW_DAYS:
        return False
    above = found[0].extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    return above == x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
