"""Keys: private ones are their owner's, certificates name the SuperLink, nothing is lost."""

import stat

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from fedpriv.simulations.deploy.enrol import key_in
from fedpriv.simulations.deploy.keys import make_keys


def made(folder):
    make_keys(
        ca=folder / "authority",
        trust=folder / "trust",
        superlink=folder / "superlink",
        clients=[folder / "c0", folder / "c1"],
        hosts=["superlink", "127.0.0.1"],
    )
    return folder


def certificate(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_private_files_are_for_their_owner_only(tmp_path):
    made(tmp_path)
    private = [*tmp_path.rglob("*.key"), *tmp_path.rglob("*.secret")]
    assert len(private) == 5
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in private)
    assert not any((tmp_path / "trust").rglob("*.key"))


def test_the_certificate_is_the_authoritys_and_names_the_superlink(tmp_path):
    made(tmp_path)
    server = certificate(tmp_path / "superlink" / "superlink.crt")
    server.verify_directly_issued_by(certificate(tmp_path / "trust" / "ca.crt"))
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["superlink"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_another_authority_does_not_vouch_for_it(tmp_path):
    one, other = made(tmp_path / "one"), made(tmp_path / "other")
    server = certificate(one / "superlink" / "superlink.crt")
    with pytest.raises(InvalidSignature):
        server.verify_directly_issued_by(certificate(other / "trust" / "ca.crt"))


def test_what_exists_is_kept(tmp_path):
    made(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    made(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_public_half_is_that_of_the_private_key(tmp_path):
    made(tmp_path)
    private = load_ssh_private_key((tmp_path / "c1" / "client.key").read_bytes(), None)
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    assert key_in(tmp_path / "trust" / "client-1.pub") == public_key_to_bytes(private.public_key())
