"""docker-compose.yml as local processes: the same words with other folders and ports."""

from pathlib import Path

import pytest
import yaml

from fedpriv.simulations.deploy.compose import read_compose
from fedpriv.simulations.deploy.local import Here, assigned, names_of
from fedpriv.simulations.deploy.variables import BadCompose, interpolated

FILE = Path(__file__).parents[2] / "docker-compose.yml"


def written(tmp_path, services):
    path = tmp_path / "docker-compose.yml"
    path.write_text(yaml.safe_dump({"services": services}))
    return path


def here(services, tmp_path):
    return Here(tmp_path / "d", tmp_path / "p", assigned(services), names_of(services))


@pytest.mark.parametrize("profile", ["secure", "insecure", "gpu"])
def test_every_profile_is_a_federation_of_three_clients(profile):
    services = read_compose(FILE, {"COMPOSE_PROFILES": profile})
    commands = [" ".join(service.command) for service in services]
    assert sum("flower-supernode" in command for command in commands) == 3
    assert sum("fedpriv.clients.protection.executor" in command for command in commands) == 3
    assert sum("flower-superlink" in command for command in commands) == 1


def test_security_is_the_default():
    services = {service.name: service for service in read_compose(FILE, {})}
    assert "--enable-supernode-auth" in services["superlink"].command
    assert not any(
        "--insecure" in services[name].command for name in services if "client" not in name
    )


def test_the_control_port_is_published_on_the_loopback_only():
    tables = yaml.safe_load(FILE.read_text())["services"]
    for service in tables.values():
        for port in service.get("ports", []):
            assert not port.endswith(":8000") or port.startswith("127.0.0.1:")


def test_each_private_volume_has_one_owner():
    services = read_compose(FILE, {})
    for number in range(3):
        for kind, owner in (("key", f"supernode-{number}"), ("state", f"client-{number}")):
            volume = f"client-{number}-{kind}"
            users = {s.name for s in services if any(m.source == volume for m in s.mounts)}
            assert users - {"keys"} == {owner}


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
