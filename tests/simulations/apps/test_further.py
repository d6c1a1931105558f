"""The command that would decide an app's audit."""

import shlex
from dataclasses import replace

import pytest

from fedpriv.simulations.apps.further import command_of, deciding
from fedpriv.simulations.apps.handing import Handed
from fedpriv.simulations.apps.launching import Job
from fedpriv.simulations.judging.outcome import Outcome

JOB = Job("my-app", "out", 4.0, None, ("lr=0.1",), ("hub/data=cifar10",))
CONFIG = {"num-server-rounds": 3, "local-epochs": 2, "lr": 0.1}


def sample(clients):
    return Outcome("sample", "psnr", 20.0, "undecided", 32 * clients, clients, 0, 0.0, 0.3, 0.1)


def asked(clients, places, found=(), alone=None, whole=True, config=CONFIG):
    return deciding(JOB, config, clients, places, found, alone, whole)


def everybody(rounds, clients):
    return [(r, n) for r in range(1, rounds + 1) for n in range(clients)]


def options(step):
    words = shlex.split(step["command"])
    return {one: words[place + 1] for place, one in enumerate(words) if one.startswith("--")}


def test_an_audit_is_repeated_with_all_its_options():
    assert command_of(JOB) == (
        "fedpriv audit --app my-app --run-config lr=0.1 --data hub/data=cifar10 --minutes 4"
    )


@pytest.mark.parametrize("direct", [True, False])
def test_ten_clients_that_all_took_part_are_told_of_thirty(direct):
    own = {"found": [sample(10)]} if direct else {"alone": Handed(sample(10), 32)}
    step = asked(10, everybody(3, 10), **own)
    assert options(step)["--clients"] == "30"
    assert "10 clients are too few" in step["what"] and "29" in step["what"]


def test_a_large_federation_that_asks_few_clients_is_told_of_more_rounds():
    places = [(r, 10 * (r - 1) + k) for r in (1, 2) for k in range(10)]
    step = asked(100, places, [sample(20)])
    key, _, rounds = step["command"].partition("num-server-rounds=")[2].partition(" ")
    assert key == "5" and not rounds.startswith("--clients")  # 100 (1 - 0.9^5) = 41 clients


def test_without_a_setting_for_rounds_more_clients_are_simulated():
    places = [(r, 10 * (r - 1) + k) for r in (1, 2) for k in range(10)]
    assert options(asked(100, places, [sample(20)], config={}))["--clients"] == "182"


@pytest.mark.parametrize(("hits", "told"), [(3, True), (14, True), (15, False), (60, False)])
def test_a_few_samples_are_told_of_clients_that_leave_room_for_them(hits, told):
    drawn = replace(sample(30), victims=480, hits=hits, clients_hit=hits)
    step = asked(30, everybody(3, 30), alone=Handed(drawn, 16), config={})
    assert (step is not None) == told
    assert not told or options(step)["--clients"] == "40"


def test_where_the_first_few_clients_leak_too_much_more_of_them_are_no_help():
    drawn = replace(sample(8), victims=128, hits=60, clients_hit=8)
    assert asked(30, everybody(3, 30), alone=Handed(drawn, 16), config={}) is None


def test_an_audit_whose_time_was_up_is_told_of_more():
    late = Handed(sample(8), 32, late=True)
    assert options(asked(30, everybody(3, 30), alone=late))["--minutes"] == "8"
    assert options(asked(30, everybody(1, 30), whole=False))["--minutes"] == "8"


def test_several_epochs_are_told_that_one_would_decide():
    unsure = Handed(sample(8), 32, open="samples enter twice")
    assert "local-epochs=1" in asked(30, everybody(3, 30), alone=unsure)["command"]


def test_what_no_option_decides_is_told_nothing():
    many = Outcome("sample", "psnr", 20.0, "undecided", 960, 30, 90, 0.0, 0.2, 0.1, most=0.2)
    assert asked(30, everybody(3, 30), alone=Handed(many, 32)) is None
