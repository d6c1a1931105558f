"""Who is not let in: strange bundles, strange keys, strange certificates, strange settings."""

import subprocess
from pathlib import Path

import pytest
from federations import run, small
from flwr.cli.build import build_fab_from_files

from fedpriv.errors import WorkFailed
from fedpriv.simulations.deploy.control import Control
from fedpriv.simulations.deploy.keys import Places, make_keys
from fedpriv.simulations.deploy.local import program

FOREIGN = """
[project]
name = "foreign"
version = "1.0.0"
[tool.flwr.app]
publisher = "somebody"
[tool.flwr.app.components]
serverapp = "fedpriv.strategies.app:app"
clientapp = "foreign:app"
[tool.flwr.app.config]
scenario = "quickstart"
set = ""
out = ""
resume = false
"""
SPY = b"""
from pathlib import Path
from flwr.clientapp import ClientApp
Path("%s").touch()
app = ClientApp()
"""


@pytest.mark.hostile
def test_a_foreign_bundle_is_refused_and_its_code_never_runs(federation, tmp_path):
    trace = tmp_path / "it-ran"
    files = {"pyproject.toml": FOREIGN.encode(), "foreign.py": SPY % str(trace).encode()}
    control = federation.control()
    run_config = {"scenario": small().text(), "out": str(tmp_path / "run")}
    status = control.wait(control.start(build_fab_from_files(files)[0], run_config))
    assert status.outcome == "failed"
    assert not trace.exists()
    assert "is not one this client trusts" in federation.log("client-0").read_text()


def supernode(federation, tmp_path, ca, key):
    """What a SuperNode with these credentials says before it gives up."""
    found = federation.running()
    words = [
        "flower-supernode",
        f"--superlink=127.0.0.1:{found.ports['superlink:9092']}",
        f"--root-certificates={ca}",
        f"--auth-supernode-private-key={key}",
        "--isolation=process",
        "--max-retries=1",
        "--max-wait-time=10",
        "--port=0",
    ]
    done = subprocess.run(program(words), capture_output=True, text=True, timeout=300, cwd=tmp_path)
    return done.returncode, done.stdout + done.stderr


def strangers(folder):
    make_keys(
        Places(
            authority=folder / "ca",
            trust=folder / "trust",
            superlink=folder / "link",
            serverapp=folder / "secret",
            clients=[folder / "client"],
            hops=[folder / "hop"],
            hosts=["localhost"],
        )
    )
    return folder


@pytest.mark.hostile
def test_a_key_nobody_registered_is_refused(federation, tmp_path):
    ours = federation.folder / "volumes" / "trust" / "ca.crt"
    before = len(federation.control().nodes())
    code, text = supernode(
        federation, tmp_path, ours, strangers(tmp_path) / "client" / "client.key"
    )
    assert code != 0 and text
    assert len(federation.control().nodes()) == before


def test_a_server_of_another_authority_is_refused(federation, tmp_path):
    theirs = strangers(tmp_path) / "trust" / "ca.crt"
    key = federation.folder / "volumes" / "client-0-key" / "client.key"
    code, _ = supernode(federation, tmp_path, theirs, key)
    assert code != 0
    with pytest.raises(WorkFailed, match="does not answer"):
        Control(federation.control().address, Path(theirs)).runs()


def test_a_scenario_cannot_call_functions_on_clients(federation, tmp_path):
    trace = tmp_path / "it-ran"
    scenario = small(plugins=[{"name": "os:system", "command": f"touch {trace}"}])
    with pytest.raises(WorkFailed, match="'os:system'"):
        run(federation, scenario, tmp_path / "run")
    assert not trace.exists()


def refused(processes, out, words, /, **sections):
    """A run that every client refuses, and that has seen nothing in the end."""
    with pytest.raises(WorkFailed, match=words):
        run(processes, small(**sections), out)
    assert not list(out.glob("observations/*"))


@pytest.mark.hostile
def test_raw_samples_are_given_to_nobody(federation, tmp_path):
    refused(
        federation,
        tmp_path / "run",
        "No party shared usable codes",
        federation={"clients": 3, "rounds": 1, "strategy": "representation"},
        representation={"layer": "input"},
    )
    for number in range(3):
        said = federation.log(f"client-{number}").read_text()
        assert "refused: This client does not answer messages of the kind 'query.codes'" in said


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        pytest.param(
            {"training": {"local-steps": 10**6}},
            "training steps that this client's terms allow",
            id="work without end",
        ),
        pytest.param(
            {"seed": 4, "data": {"name": "synthetic", "limit": 400}},
            "another division of its data",
            id="another division",
        ),
    ],
)
def test_what_the_owners_do_not_allow_is_refused_by_every_client(
    federation, tmp_path, sections, words
):
    run(federation, small(), tmp_path / "honest")
    refused(federation, tmp_path / "run", words, **sections)


def test_a_run_that_fails_is_reported_as_failed(federation, tmp_path):
    scenario = small(model={"name": "no-such-model"})
    with pytest.raises(WorkFailed, match="ended as finished:failed after 0 of 2 rounds"):
        run(federation, scenario, tmp_path / "run")
