"""Over gRPC: a server asks a client again, under other names, and in other runs."""

import json

import pytest
from federations import small
from hostile_server import FOUND, INSISTING, NO_ROUNDS, OTHER_KINDS, VICTIM

from fedpriv.simulations.deploy.submission import submitted

pytestmark = pytest.mark.hostile
DP = '[[plugins]]\nname = "dp"\nnoise-multiplier = 1.0\nbudget = 3.4\n'


def told(processes, out):
    """What the client told the server that insists: the question, and why it was refused."""
    training = {"lr": 0.1, "batch-size": 8, "local-steps": 5, "holdout": 0.5}
    federation = {"clients": 3, "rounds": 12}
    scenario = small(name=INSISTING, training=training, federation=federation)
    control = processes.control()
    status = control.wait(submitted(processes, scenario, out))
    assert status.good, "".join(control.log(status.run))[-2000:]
    return json.loads((out / FOUND).read_text())


def test_a_round_is_answered_once_and_a_budget_is_spent_once(besieged, tmp_path):
    terms = besieged.folder / "volumes" / f"client-{VICTIM}-state" / "terms.toml"
    before = terms.read_text()
    try:
        terms.write_text(before + DP)
        first, again, *rest = told(besieged, tmp_path / "first")
        later = told(besieged, tmp_path / "second")
    finally:
        terms.write_text(before)
    assert first[1] is None
    assert "round 1" in again[1]
    odd, rest = rest[: len(NO_ROUNDS)], rest[len(NO_ROUNDS) :]
    kinds, rounds = rest[: len(OTHER_KINDS)], rest[len(OTHER_KINDS) :]
    assert all("server-round" in why for _, why in odd), odd
    assert all(why for _, why in kinds), kinds
    assert "budget" in rounds[-1][1], rounds
    assert all(why for _, why in later), later
