"""Faults: whatever breaks, the run ends with all its rounds, and the log names who was missing."""

import os
import signal
import socket
import threading

import pytest
import yaml
from federations import FILE, InBackground, run, small, until

from fedpriv.errors import WorkFailed
from fedpriv.simulations.deploy.local import held

LONG = {"clients": 3, "rounds": 4, "timeout": 45.0}


def pid_of(processes, service):
    return processes.running().services[service].pid


def whole(results, rounds=4):
    assert [record["round"] for record in results["rounds"]] == list(range(1, rounds + 1))
    return {failure["client"] for record in results["rounds"] for failure in record["failed"]}


def test_a_supernode_killed_in_a_round_comes_back(breakable, tmp_path):
    processes = breakable()
    going = InBackground(processes, small(federation=LONG), tmp_path / "run")
    going.after_round(1)
    before = pid_of(processes, "supernode-1")
    os.kill(before, signal.SIGKILL)
    until(lambda: pid_of(processes, "supernode-1") not in (None, before))
    results = going.done()
    assert whole(results) <= {1}
    assert results["rounds"][-1]["clients"] >= 2


def test_a_client_that_never_answers_is_left_out_and_named(breakable, tmp_path):
    processes = breakable()
    silent = pid_of(processes, "client-2")
    os.kill(silent, signal.SIGSTOP)
    try:
        scenario = small(federation={"clients": 3, "rounds": 2, "timeout": 30.0})
        results = run(processes, scenario, tmp_path / "run")
    finally:
        os.kill(silent, signal.SIGCONT)
    whole(results, rounds=2)
    assert all(record["clients"] == 2 for record in results["rounds"])


def test_the_superlink_restarts_with_its_database(breakable, tmp_path):
    processes = breakable()
    going = InBackground(processes, small(federation=LONG), tmp_path / "run")
    going.after_round(1)
    os.kill(pid_of(processes, "superlink"), signal.SIGTERM)
    whole(going.done())


def test_a_killed_serverapp_goes_on_from_its_checkpoint(breakable, tmp_path):
    processes = breakable()
    scenario = small(federation=LONG)
    going = InBackground(processes, scenario, tmp_path / "run")
    going.after_round(2)
    os.killpg(pid_of(processes, "serverapp"), signal.SIGKILL)
    going.join(900)
    assert isinstance(going.error, WorkFailed) and going.error.exit_code == 3
    assert "ended as" in str(going.error) and "Traceback" not in str(going.error)
    done = len(going.folder.rounds())
    kept = going.folder.rounds()
    results = run(processes, scenario, tmp_path / "run", resume=True)
    whole(results)
    assert 2 <= done <= 4 and results["rounds"][:2] == kept[:2]


@pytest.mark.parametrize(
    ("plugin", "says"),
    [("NotANumber", "NaN"), ("WrongShape", "shape"), ("Garbage", "bytes")],
)
def test_a_client_that_sends_rubbish_is_left_out_and_named(federation, tmp_path, plugin, says):
    name = f"misbehaving:{plugin}"
    terms = federation.folder / "volumes" / "client-1-state" / "terms.toml"
    before = terms.read_text()
    try:
        terms.write_text(f'{before}imports = ["{name}"]\n[[plugins]]\nname = "{name}"\n')
        results = run(federation, small(), tmp_path / "run")
    finally:
        terms.write_text(before)
    assert whole(results, rounds=2) == {1}
    assert all(says in record["failed"][0]["why"] for record in results["rounds"])
    assert all(record["clients"] == 2 for record in results["rounds"])


class Wire:
    """A relay on the loopback that can be cut and mended."""

    def __init__(self):
        (self.held,) = held(1)
        self.port = self.held.getsockname()[1]
        self.target, self.whole, self.ends = None, True, []
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            if not self.whole or self.target is None:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            self.ends += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.copy, args=(source, sink), daemon=True).start()

    def copy(self, source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            end.close()

    def cut(self):
        self.whole = False
        for end in self.ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self.ends = []


def test_a_cut_between_one_supernode_and_the_superlink_heals(breakable, tmp_path):
    wire = Wire()
    tables = yaml.safe_load(FILE.read_text())
    words = tables["services"]["supernode-2"]["command"]
    tables["services"]["supernode-2"]["command"] = [
        f"--superlink=127.0.0.1:{wire.port}" if word.startswith("--superlink=") else word
        for word in words
    ]
    path = tmp_path / "docker-compose.yml"
    path.write_text(yaml.safe_dump(tables))
    (tmp_path / ".env").write_text((FILE.parent / ".env").read_text())

    def connect():
        from fedpriv.simulations.deploy.state import deployment_in

        def known():
            found = deployment_in(tmp_path / "deployment")
            return found is not None and found.ports.get("superlink:9092")

        until(known)
        wire.target = known()

    threading.Thread(target=connect, daemon=True).start()
    processes = breakable(file=path)
    going = InBackground(processes, small(federation=LONG), tmp_path / "run")
    going.after_round(1)
    wire.cut()
    threading.Timer(20.0, lambda: setattr(wire, "whole", True)).start()
    results = going.done()
    assert whole(results) <= {2}
