"""Keys: private ones are their owner's, certificates name their server, nothing is lost."""

import stat
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from fedpriv.errors import BadFolder
from fedpriv.simulations.deploy import certificates
from fedpriv.simulations.deploy.enrol import key_in
from fedpriv.simulations.deploy.keys import Places, make_keys, next_authority, rotate


def places(folder):
    return Places(
        authority=folder / "authority",
        trust=folder / "trust",
        superlink=folder / "superlink",
        serverapp=folder / "serverapp",
        clients=[folder / "c0", folder / "c1"],
        hops=[folder / "hop0", folder / "hop1"],
        hosts=["superlink", "127.0.0.1"],
    )


def made(folder):
    make_keys(places(folder))
    return folder


def certificate(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def vouches(folder):
    """Which certificates of the bundle vouch for the SuperLink's."""
    server = certificate(folder / "superlink" / "superlink.crt")
    found = []
    for number, one in enumerate(
        x509.load_pem_x509_certificates((folder / "trust" / "ca.crt").read_bytes())
    ):
        try:
            server.verify_directly_issued_by(one)
        except InvalidSignature:
            continue
        found.append(number)
    return found


def test_private_files_are_for_their_owner_only(tmp_path):
    made(tmp_path)
    private = [*tmp_path.rglob("*.key"), *tmp_path.rglob("*.secret")]
    assert len(private) == 9
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in private)
    assert not any((tmp_path / "trust").rglob("*.key"))


def test_a_folder_that_is_shared_holds_only_what_both_need(tmp_path):
    made(tmp_path)
    assert {path.name for path in (tmp_path / "serverapp").iterdir()} == {"superexec.secret"}
    assert {p.name for p in (tmp_path / "hop0").iterdir()} == {"supernode.crt", "executor.secret"}
    secrets = {path.read_bytes() for path in tmp_path.rglob("*.secret")}
    assert len(secrets) == 3 and all(len(secret) == 64 for secret in secrets)


@pytest.mark.parametrize(
    ("place", "names"), [("superlink/superlink", ["superlink"]), ("hop1/supernode", None)]
)
def test_a_certificate_names_its_server(tmp_path, place, names):
    made(tmp_path)
    server = certificate(tmp_path / f"{place}.crt")
    found = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found.get_values_for_type(x509.DNSName) == (names or ["supernode-1", "localhost"])
    assert [str(a) for a in found.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_the_federations_authority_cannot_stand_between_a_client_and_its_executor(tmp_path):
    made(tmp_path)
    hop, ca = certificate(tmp_path / "hop0/supernode.crt"), certificate(tmp_path / "trust/ca.crt")
    with pytest.raises((InvalidSignature, ValueError)):
        hop.verify_directly_issued_by(ca)
    hop.verify_directly_issued_by(hop)


def test_another_authority_does_not_vouch_for_it(tmp_path):
    one, other = made(tmp_path / "one"), made(tmp_path / "other")
    server = certificate(one / "superlink" / "superlink.crt")
    with pytest.raises(InvalidSignature):
        server.verify_directly_issued_by(certificate(other / "trust" / "ca.crt"))


def test_no_certificate_lives_for_long(tmp_path):
    made(tmp_path)
    limits = {"ca.crt": 731, "superlink.crt": 91, "supernode.crt": 91}
    found = list(tmp_path.rglob("*.crt"))
    assert {path.name for path in found} == set(limits)
    for path in found:
        one = certificate(path)
        life = one.not_valid_after_utc - one.not_valid_before_utc
        assert life < timedelta(days=limits[path.name])


def test_what_exists_is_kept(tmp_path):
    made(tmp_path)
    before = files(tmp_path)
    made(tmp_path)
    assert files(tmp_path) == before


def test_a_certificate_that_ends_soon_is_renewed_and_nothing_else_is(tmp_path, monkeypatch):
    monkeypatch.setattr(certificates, "LEAF_DAYS", certificates.RENEW_DAYS - 1)
    before = files(made(tmp_path))
    monkeypatch.undo()
    after = files(made(tmp_path))
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"superlink/superlink.crt", "hop0/supernode.crt", "hop1/supernode.crt"}
    assert vouches(tmp_path) == [0]


def test_a_rotation_that_was_cut_short_is_made_good(tmp_path):
    made(tmp_path)
    certificates.new_key(tmp_path / "superlink" / "superlink.key")
    made(tmp_path)
    key = certificates.private_key(tmp_path / "superlink" / "superlink.key")
    assert certificates.of_key(certificate(tmp_path / "superlink" / "superlink.crt"), key)


def test_rotation_changes_keys_and_secrets_but_not_who_is_registered(tmp_path):
    before = files(made(tmp_path))
    rotate(places(tmp_path))
    after = files(tmp_path)
    kept = {name for name in before if before[name] == after[name]}
    assert kept == {
        "authority/ca.key",
        "trust/ca.crt",
        *(f"c{n}/client.key" for n in range(2)),
        *(f"trust/client-{n}.pub" for n in range(2)),
    }
    assert vouches(tmp_path) == [0]


def test_clients_get_new_keys_when_asked(tmp_path):
    before = files(made(tmp_path))
    rotate(places(tmp_path), client_keys=True)
    after = files(tmp_path)
    for number in range(2):
        for name in (f"c{number}/client.key", f"trust/client-{number}.pub"):
            assert before[name] != after[name]


def test_an_authority_changes_in_two_steps_with_both_trusted_between(tmp_path):
    made(tmp_path)
    old = certificate(tmp_path / "trust" / "ca.crt")
    next_authority(places(tmp_path))
    made(tmp_path)  # a restart between the steps changes nothing
    assert len(x509.load_pem_x509_certificates((tmp_path / "trust/ca.crt").read_bytes())) == 2
    assert vouches(tmp_path) == [0]
    rotate(places(tmp_path))
    assert certificate(tmp_path / "trust" / "ca.crt") != old
    assert vouches(tmp_path) == [0]
    assert not (tmp_path / "authority" / "next.key").exists()


def test_the_public_half_is_that_of_the_private_key(tmp_path):
    made(tmp_path)
    private = load_ssh_private_key((tmp_path / "c1" / "client.key").read_bytes(), None)
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    assert key_in(tmp_path / "trust" / "client-1.pub") == public_key_to_bytes(private.public_key())


def test_a_damaged_key_is_one_clear_error(tmp_path):
    made(tmp_path)
    (tmp_path / "authority" / "ca.key").write_text("not a key")
    with pytest.raises(BadFolder, match=r"ca\.key' cannot be read"):
        made(tmp_path)
