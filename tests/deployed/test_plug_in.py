"""A running federation trains over gRPC with TLS and keys, and attackers are plugged into it."""

import socket
import stat
from pathlib import Path

import pytest
from federations import InBackground, run, small

from fedpriv.clients.protection.ledger import read_ledger
from fedpriv.scenario import from_tables, read
from fedpriv.wire import MEMORY

DIGITS = {"seed": 7, "data": {"name": "mnist-5k"}}


def connections(port):
    """How many established connections go to a port of the loopback."""
    tables = [Path(f"/proc/net/{kind}").read_text() for kind in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def test_quickstart_trains_over_grpc(federation, tmp_path):
    scenario = read("quickstart", ["federation.clients=3", "federation.rounds=2"])
    training = InBackground(federation, scenario, tmp_path / "run")
    training.after_round(1)
    found = federation.running()
    assert connections(found.ports["superlink:9092"]) >= 3
    results = training.done()
    assert [record["clients"] for record in results["rounds"]] == [3, 3]
    assert results["rounds"][-1]["accuracy"] > 0.7
    log = federation.log("superlink").read_text()
    assert log.count("[Fleet.ActivateNode] Activated") >= 3


def test_a_curious_run_beside_a_training_one_sees_the_digits(federation, tmp_path):
    honest = read("quickstart", ["federation.clients=3", "federation.rounds=4"])
    curious = from_tables(
        {
            **DIGITS,
            "name": "curious",
            "model": {"name": "dlnet"},
            "training": {"lr": 0.1, "batch-size": 1, "local-steps": 1},
            "federation": {"clients": 3, "rounds": 1},
            "attacks": [{"name": "dlg", "victims": 1}],
        }
    )
    training = InBackground(federation, honest, tmp_path / "honest")
    results = run(federation, curious, tmp_path / "curious")
    assert max(row["psnr"] for row in results["scores"]) > 20
    assert len(training.done()["rounds"]) == 4


def imprint():
    return from_tables(
        {
            **DIGITS,
            "name": "imprint",
            "model": {"name": "mlp"},
            "training": {"lr": 0.1, "batch-size": 16, "local-steps": 1},
            "federation": {"clients": 3, "rounds": 2},
            "malicious": {"name": "imprint", "from-round": 2, "victims": [0]},
            "attacks": [{"name": "read-bins", "rounds": [2], "victims": 1}],
        }
    )


def test_an_imprint_run_reads_a_batch_and_a_guard_refuses_it(federation, tmp_path):
    results = run(federation, imprint(), tmp_path / "open")
    values = [row["psnr"] for row in results["scores"]]
    assert len(values) == 16 and sum(value > 30 for value in values) >= 8
    terms = federation.folder / "volumes" / "client-0-state" / "terms.toml"
    before = terms.read_text()
    try:
        terms.write_text(before + '[[plugins]]\nname = "guard"\n')
        results = run(federation, imprint(), tmp_path / "guarded")
    finally:
        terms.write_text(before)
    first, second = results["rounds"]
    assert first["failed"] == []
    assert [failure["client"] for failure in second["failed"]] == [0]
    assert "guard" in second["failed"][0]["why"]


def test_secure_aggregation_over_grpc(federation, tmp_path):
    scenario = small(federation={"clients": 3, "rounds": 1, "secagg": True})
    results = run(federation, scenario, tmp_path / "run")
    assert results["rounds"][0]["clients"] == 3


def test_secrets_are_in_no_log_and_state_is_the_owners(federation, tmp_path):
    scenario = small(plugins=[{"name": "spn"}, {"name": "dp", "noise-multiplier": 1.0}])
    run(federation, scenario, tmp_path / "run")
    volumes = federation.folder / "volumes"
    secrets = [path.read_text() for path in volumes.rglob("*.secret")]
    secrets += [path.read_text().splitlines()[1] for path in volumes.rglob("*.key")]
    for state in volumes.glob("client-*-state"):
        for path in state.glob("*.bin"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        ledger = read_ledger(state / "ledger.bin")
        keys = ledger.config_records[f"{MEMORY}secret"]["keys"]
        secrets += [written for key in keys for written in (key.hex(), repr(key))]
        assert keys and f"{MEMORY}dp" in ledger.config_records
    written = "".join(
        path.read_text("utf-8", "replace") for path in federation.folder.glob("logs/*")
    )
    written += "".join(path.read_text("utf-8", "replace") for path in tmp_path.rglob("*.json*"))
    assert len(secrets) >= 12 and written
    assert not [secret for secret in secrets if secret in written]


@pytest.mark.hostile
def test_only_the_loopback_listens(federation):
    ports = federation.running().ports.values()
    outside = socket.gethostbyname(socket.gethostname())
    if outside.startswith("127."):
        pytest.skip("this machine has no other address")
    for port in ports:
        with pytest.raises(OSError):
            socket.create_connection((outside, port), 2).close()
