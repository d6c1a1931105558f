"""What is left behind, how long keys live, and what a fork of the shared parent has of others."""

import json
import os
import re
import signal
import sqlite3
import time
from pathlib import Path

import pytest
from federations import run, small, until
from typer.testing import CliRunner

from fedpriv.runfolder import RunFolder
from fedpriv.simulations.cli.deploy import app


@pytest.mark.hostile
def test_no_array_is_left_in_the_superlinks_database(federation, tmp_path):
    once = {"clients": 3, "rounds": 1, "timeout": 60.0}
    run(federation, small(federation=once), tmp_path / "run")
    weights = RunFolder(tmp_path / "run").model_file.read_bytes()[-256:]
    state = federation.folder / "volumes" / "superlink-state"

    def left():
        return [path.name for path in state.glob("*") if weights in path.read_bytes()]

    def objects():
        rows = sqlite3.connect(f"file:{state / 'superlink.db'}?mode=ro", uri=True)
        return rows.execute("SELECT count(*) FROM objects").fetchone()[0]

    until(lambda: not left() and not objects(), 60)


@pytest.mark.hostile
def test_a_fork_has_nothing_of_another_client(federation):
    services = federation.running().services
    volumes = federation.folder / "volumes"
    for number in range(3):
        for name in (f"client-{number}", f"supernode-{number}"):
            process = Path(f"/proc/{services[name].pid}")
            links = [
                str(path.readlink()) for path in (process / "fd").iterdir() if path.is_symlink()
            ]
            others = re.compile(rf"client-(?!{number}\b)\d+-(key|hop|state)")
            assert not [link for link in links if others.search(link)]
            assert not [link for link in links if str(volumes) in link and "lock" not in link]
            assert not others.search((process / "environ").read_text("utf-8", "replace"))


def test_a_killed_fork_comes_back_from_the_same_parent(federation, tmp_path):
    before = federation.running()
    killed = {name: before.services[name].pid for name in ("client-1", "supernode-2")}
    for pid in killed.values():
        os.kill(pid, signal.SIGKILL)
    until(
        lambda: all(
            federation.running().services[name].pid not in (None, pid)
            for name, pid in killed.items()
        ),
        60,
    )
    assert federation.running().pid == before.pid
    until(lambda: federation.statuses()["supernode-2"] == "healthy", 60)
    results = run(federation, small(), tmp_path / "run")
    assert len(results["rounds"]) == 2


def test_keys_rotate_while_the_federation_is_up(federation, tmp_path):
    runner = CliRunner()
    where = ["--folder", str(federation.folder), "--file", str(federation.file)]
    where += ["--engine", "local"]
    volumes = federation.folder / "volumes"

    def contents(pattern):
        return {path: path.read_bytes() for path in volumes.glob(pattern)}

    def certificates():
        shown = runner.invoke(app, ["status", "--json", *where])
        assert shown.exit_code == 0, shown.output
        return json.loads(shown.stdout)["certificates"]

    names = {one["certificate"] for one in certificates()}
    assert {"authority", "superlink", "client-0's own"} <= names
    assert all(one["days"] < 91 for one in certificates() if one["certificate"] != "authority")
    nodes = {key for _, _, key in federation.control().nodes()}
    for words, changed, kept in (
        (["--authority"], "trust/ca.crt", "client-*-key/client.key"),
        ([], "superlink-keys/*", "client-*-key/client.key"),
        (["--client-keys"], "client-*-key/client.key", "trust/ca.crt"),
    ):
        before, stays = contents(changed), contents(kept)
        done = runner.invoke(app, ["rotate", *words, *where])
        assert done.exit_code == 0, done.output
        after = contents(changed)
        assert before and all(before[path] != after[path] for path in before)
        assert contents(kept) == stays
    until(lambda: sum(how == "online" for _, how, _ in federation.control().nodes()) == 3, 120)
    time.sleep(1)
    online = {key for _, how, key in federation.control().nodes() if how == "online"}
    assert not online & nodes
    results = run(federation, small(), tmp_path / "run")
    assert [record["clients"] for record in results["rounds"]] == [3, 3]
