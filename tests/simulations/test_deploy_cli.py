"""`fedpriv deploy`: what is wrong is one message, before anything starts."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedpriv.errors import BadInput
from fedpriv.simulations.cli.deploy import app
from fedpriv.simulations.deploy.processes import Processes

FILE = Path(__file__).parents[2] / "docker-compose.yml"


def deploy(tmp_path, *words):
    where = ["--file", str(FILE), "--folder", str(tmp_path / "d"), "--engine", "local"]
    return CliRunner().invoke(app, [*words, *where])


@pytest.mark.parametrize("patience", ["nan", "inf", "-inf", "0", "-1"])
def test_patience_is_a_number_of_seconds(tmp_path, patience):
    done = deploy(tmp_path, "up", f"--patience={patience}")
    assert isinstance(done.exception, BadInput) and "--patience" in str(done.exception)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("clients", ["0", "-3", "100000"])
def test_the_number_of_clients_has_bounds(tmp_path, clients):
    done = deploy(tmp_path, "up", f"--clients={clients}")
    assert isinstance(done.exception, BadInput) and "--clients" in str(done.exception)
    assert not (tmp_path / "d").exists()


def test_an_authority_and_clients_keys_are_two_steps(tmp_path):
    done = deploy(tmp_path, "rotate", "--authority", "--client-keys")
    assert isinstance(done.exception, BadInput) and "rotate twice" in str(done.exception)


def test_a_federation_that_is_down_rotates_its_files(tmp_path):
    folder = Processes(FILE, tmp_path / "d")
    folder.once("keys")
    key = tmp_path / "d" / "volumes" / "superlink-keys" / "superlink.key"
    before = key.read_bytes()
    done = deploy(tmp_path, "rotate")
    assert done.exit_code == 0, done.output
    assert key.read_bytes() != before


def test_clients_keys_need_a_superlink_that_forgets_the_old_ones(tmp_path):
    done = deploy(tmp_path, "rotate", "--client-keys")
    assert isinstance(done.exception, BadInput) and "running federation" in str(done.exception)


def test_a_federation_without_keys_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPOSE_PROFILES", "insecure")
    done = deploy(tmp_path, "rotate")
    assert isinstance(done.exception, BadInput) and "no service 'keys'" in str(done.exception)
