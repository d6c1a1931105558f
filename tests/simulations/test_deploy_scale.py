"""A compose file for another number of clients."""

import re
from pathlib import Path

import pytest
import yaml

from fedpriv.simulations.deploy.compose import read_compose
from fedpriv.simulations.deploy.scale import scaled
from fedpriv.simulations.deploy.variables import BadCompose

FILE = Path(__file__).parents[2] / "docker-compose.yml"


@pytest.mark.parametrize("profile", ["secure", "insecure", "gpu"])
@pytest.mark.parametrize("clients", [1, 2, 3, 32])
def test_every_client_has_what_the_first_one_has(profile, clients):
    services = {
        service.name: service
        for service in read_compose(FILE, {"COMPOSE_PROFILES": profile}, clients)
    }
    numbered = [name for name in services if "-0" in name]
    assert len(numbered) == 3
    for name in numbered:
        for number in range(clients):
            text, first = str(services[name.replace("-0", f"-{number}")]), str(services[name])
            assert text == first.replace("-0", f"-{number}").replace("=0 num", f"={number} num")
    numbers = {int(found[1]) for name in services if (found := re.search(r"-(\d+)", name))}
    assert numbers == set(range(clients))
    assert f"num-partitions={clients}'" in str(services)


def test_those_who_serve_all_clients_know_all_of_them():
    services = {service.name: service for service in read_compose(FILE, {}, 32)}
    keys, enrol = services["keys"], services["enrol"]
    assert [word for word in keys.command if word.startswith("--client=")] == [
        f"--client=/client-{number}" for number in range(32)
    ]
    assert [word for word in keys.command if word.startswith("--hop=")] == [
        f"--hop=/client-{number}-hop" for number in range(32)
    ]
    assert {mount.source for mount in keys.mounts} >= {f"client-{n}-key" for n in range(32)}
    assert list(enrol.command[-32:]) == [f"/trust/client-{number}.pub" for number in range(32)]


def test_the_files_own_number_changes_nothing():
    tables = yaml.safe_load(FILE.read_text())
    assert scaled(tables, 3) == tables


@pytest.mark.parametrize("clients", [0, -1, 257])
def test_a_senseless_number_is_refused(clients):
    with pytest.raises(BadCompose, match=f"between 1 and 256, got {clients}"):
        read_compose(FILE, {}, clients)


def test_a_file_without_numbered_clients_is_refused():
    with pytest.raises(BadCompose, match="client-0, client-1"):
        scaled({"services": {"a": {"command": ["x"]}}}, 4)
