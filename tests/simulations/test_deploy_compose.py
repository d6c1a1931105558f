"""docker-compose.yml as local processes: the same words with other folders and ports."""

import re
import shutil
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from fedpriv.simulations.deploy.compose import read_compose
from fedpriv.simulations.deploy.local import Here, assigned, held, names_of, numbers
from fedpriv.simulations.deploy.variables import BadCompose, interpolated

FILE = Path(__file__).parents[2] / "docker-compose.yml"


def written(tmp_path, services):
    path = tmp_path / "docker-compose.yml"
    path.write_text(yaml.safe_dump({"services": services}))
    return path


def here(services, tmp_path):
    return Here(tmp_path / "d", tmp_path / "p", numbers(assigned(services)), names_of(services))


@pytest.mark.parametrize("profile", ["secure", "insecure", "gpu"])
def test_every_profile_is_a_federation_of_three_clients(profile):
    services = read_compose(FILE, {"COMPOSE_PROFILES": profile})
    commands = [" ".join(service.command) for service in services]
    assert sum("flower-supernode" in command for command in commands) == 3
    assert sum("fedpriv.clients.protection.executor" in command for command in commands) == 3
    assert sum("fedpriv.simulations.deploy.superlink" in command for command in commands) == 1
    assert sum("fedpriv.clients.protection.template" in command for command in commands) == 3


def test_each_gpu_client_reserves_the_gpu_that_was_named_for_it():
    tables = yaml.safe_load(FILE.read_text())["services"]
    for number in range(3):
        reserved = tables[f"gpu-client-{number}"]["deploy"]["resources"]["reservations"]
        [device] = reserved["devices"]
        assert device["capabilities"] == ["gpu"] and "count" not in device
        assert interpolated(device["device_ids"][0], {f"GPU_{number}": "7"}, "gpu") == "7"
        assert interpolated(device["device_ids"][0], {}, "gpu") == "0"  # all share one


def test_security_is_the_default():
    services = {service.name: service for service in read_compose(FILE, {})}
    assert "--enable-supernode-auth" in services["superlink"].command
    assert not any("--insecure" in service.command for service in services.values())


def test_the_control_port_is_published_on_the_loopback_only():
    tables = yaml.safe_load(FILE.read_text())["services"]
    for service in tables.values():
        for port in service.get("ports", []):
            assert not port.endswith(":8000") or port.startswith("127.0.0.1:")


def users(volume):
    services = read_compose(FILE, {})
    return {s.name for s in services if any(m.source == volume for m in s.mounts)} - {"keys"}


@pytest.mark.parametrize("number", range(3))
def test_each_private_volume_is_seen_by_those_who_need_it(number):
    client, node = f"client-{number}", f"supernode-{number}"
    assert users(f"{client}-key") == {node}
    assert users(f"{client}-hop") == {node, client}
    assert users(f"{client}-state") == {client, f"{client}-terms"}


def test_the_servers_code_sees_no_key_of_the_superlink():
    assert users("superlink-keys") == {"superlink"}
    assert users("serverapp-secret") == {"superlink", "serverapp"}
    assert users("authority") == set()


def test_a_client_and_its_supernode_know_each_other():
    services = {service.name: service for service in read_compose(FILE, {})}
    for number in range(3):
        node, client = services[f"supernode-{number}"].command, services[f"client-{number}"].command
        for command in (node, client):
            assert "--superexec-auth-secret-file=/hop/executor.secret" in command
        assert "--ssl-certfile=/hop/supernode.crt" in node
        assert "--root-certificates=/hop/supernode.crt" in client


def test_every_service_has_limits_and_those_that_work_have_more():
    tables = yaml.safe_load(FILE.read_text())["services"]
    for table in tables.values():
        assert {"mem_limit", "cpus", "pids_limit"} <= set(table)
    memory = {name: tables[name]["mem_limit"] for name in ("keys", "superlink", "client-1")}
    assert memory["keys"] == "1g"
    assert "2g" in memory["superlink"] and "4g" in memory["client-1"]


def test_the_image_begins_with_a_digest():
    first = (FILE.parent / "Dockerfile").read_text()
    assert re.search(r"^ARG BASE=python:\S+@sha256:[0-9a-f]{64}$", first, re.MULTILINE)


@pytest.mark.slow
def test_the_package_is_built_of_what_the_image_copies(tmp_path):
    """`setup.py` says which folders belong to it; without that file nothing can be installed."""
    root, admitted = FILE.parent, (FILE.parent / ".dockerignore").read_text().split()
    for line in re.findall(r"^COPY (.*) \S+$", (root / "Dockerfile").read_text(), re.MULTILINE):
        for name in line.split():
            if name.startswith("requirements") or "$" in name:
                continue
            assert f"!{name}" in admitted
            if (root / name).is_dir():
                shutil.copytree(root / name, tmp_path / name)
            else:
                shutil.copy(root / name, tmp_path / name)
    build = "from setuptools.build_meta import build_wheel; build_wheel('out')"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = (tmp_path / "out").glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    for part in ("fedpriv", "clients", "strategies", "attacks", "simulations"):
        below = "" if part == "fedpriv" else "fedpriv/"
        own = {f"{below}{file.relative_to(root)}" for file in (root / part).rglob("*.py")}
        assert own and own <= inside


def test_every_folder_that_is_mounted_belongs_to_the_user_of_the_image():
    made = (FILE.parent / "Dockerfile").read_text().split("for folder in")[1].split(";")[0].split()
    for profile in ("secure", "gpu", "insecure"):
        for service in read_compose(FILE, {"COMPOSE_PROFILES": profile}):
            assert {mount.target.strip("/") for mount in service.mounts} <= set(made)


def test_a_held_port_is_nobody_elses_and_its_services_to_listen_on():
    (mine,) = held(1)
    address = mine.getsockname()
    with pytest.raises(OSError, match="in use"), socket.socket() as stranger:
        stranger.bind(address)
    for _ in range(2):  # a service that is restarted finds it free again
        with socket.create_server(address), socket.create_connection(address):
            pass


def test_services_come_after_those_they_need():
    services = read_compose(FILE, {})
    order = [service.name for service in services]
    for service in services:
        assert all(order.index(other) < order.index(service.name) for other in service.after)


def test_local_processes_get_their_own_ports_and_folders(tmp_path):
    services = read_compose(FILE, {})
    place = here(services, tmp_path)
    local = {service.name: place.localised(service) for service in services}
    ports = [place.ports[f"supernode-{i}:9094"] for i in range(3)]
    assert len(set(ports)) == 3
    for number, port in enumerate(ports):
        assert f"--port={port}" in local[f"supernode-{number}"].command
        assert f"--runtime-api-address=127.0.0.1:{port}" in local[f"client-{number}"].command
    words = [word for service in local.values() for word in service.command]
    assert not any("0.0.0.0" in word for word in words)
    assert local["client-1"].environment["FEDPRIV_STATE"] == str(
        tmp_path / "d" / "volumes" / "client-1-state"
    )
    assert not any(word.partition("=")[2].startswith("/trust") for word in words)


def test_a_folder_is_replaced_once_even_below_tmp(tmp_path):
    path = written(
        tmp_path, {"a": {"command": ["x", "--in=/tmp/a", "/state"], "volumes": ["v:/state"]}}
    )
    services = read_compose(path, {})
    local = here(services, tmp_path).localised(services[0])
    assert local.command[1] == f"--in={tmp_path / 'd' / 'scratch' / 'a'}/a"
    assert local.command[2] == str(tmp_path / "d" / "volumes" / "v")


def test_an_alias_means_the_service_behind_it(tmp_path):
    services = read_compose(FILE, {"COMPOSE_PROFILES": "insecure"})
    place = here(services, tmp_path)
    address = place.address("superlink", 9092)
    local = place.localised(next(s for s in services if s.name == "insecure-supernode-0"))
    assert f"--superlink={address}" in local.command


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"command": ["x"], "comand": ["y"]}, "service 'a': key 'comand'.*Did you mean 'command'"),
        ({"command": "one text"}, "service 'a': command must be a list"),
        ({"command": ["x"], "volumes": ["/only-one"]}, "service 'a': volumes"),
        ({"command": ["x"], "ports": ["lots"]}, "service 'a': ports"),
        ({"command": ["x"], "restart": False}, "service 'a': restart.*write \"no\""),
        ({"command": ["x"], "depends_on": ["b"]}, "service 'a': depends_on names 'b'"),
        ({"command": ["x"], "stop_grace_period": "soon"}, "service 'a': stop_grace_period"),
        (
            {"command": ["x", "${NOBODY:?say it}"]},
            "service 'a', command: NOBODY must be set. say it",
        ),
    ],
)
def test_a_mistake_is_reported_by_service_and_key(tmp_path, table, says):
    with pytest.raises(BadCompose, match=says):
        read_compose(written(tmp_path, {"a": table}), {})


def test_a_circle_is_found(tmp_path):
    services = {
        "a": {"command": ["x"], "depends_on": ["b"]},
        "b": {"command": ["x"], "depends_on": ["a"]},
    }
    with pytest.raises(BadCompose, match="circle: a, b"):
        read_compose(written(tmp_path, services), {})


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("${A}", "1"),
        ("$A", "1"),
        ("$$A", "$A"),
        ("${B:-2}", "2"),
        ("${EMPTY:-2}", "2"),
        ("${EMPTY-2}", ""),
        ("x${A:-9}y${B-z}", "x1yz"),
    ],
)
def test_variables_are_read_as_compose_reads_them(text, becomes):
    assert interpolated(text, {"A": "1", "EMPTY": ""}, "here") == becomes
