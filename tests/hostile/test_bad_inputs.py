"""Bad command lines, scenarios, run folders and evidence: one message, the right code, no hang."""

import subprocess
import sys

import fuzzing
import pytest
from kills import all_kills, killed, unlike, whole

from fedpriv.errors import BadInput, BadOption
from fedpriv.evidence.claims import load_claim
from fedpriv.evidence.truth import Truth
from fedpriv.scenario import from_tables
from fedpriv.scenario.binding import bound
from fedpriv.scenario.types import OrInfinite
from fedpriv.simulations.cli.values import within


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("count", "seed"), [(60, 7), pytest.param(500, 0, marks=pytest.mark.thorough)]
)
def test_bad_inputs_are_one_message_each(count, seed):
    """In a process of its own: forks of this one would have its threads' locks, and its memory."""
    command = [sys.executable, fuzzing.__file__, str(count), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"0 of {count} ended wrongly" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_search_goes_on_to_the_same_bytes(tmp_path):
    reference, seconds = whole("search", tmp_path / "whole")
    assert unlike(reference, killed("search", tmp_path / "cut", 0.7 * seconds)) == []


@pytest.mark.thorough
@pytest.mark.timeout(7200)
def test_twenty_kills_leave_what_a_whole_run_leaves(tmp_path):
    assert all_kills(20, 0, tmp_path) == 0


@pytest.mark.parametrize("load", [load_claim, Truth.load])
def test_an_empty_claim_or_truth_is_bad_input(load, tmp_path):
    (tmp_path / "1-0.npz").write_bytes(b"")
    with pytest.raises(BadInput, match="1-0.npz"):
        load(tmp_path / "1-0.npz")


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf"), 10**400])
@pytest.mark.parametrize(
    "tables",
    [
        lambda odd: {"training": {"lr": odd}},
        lambda odd: {"federation": {"timeout": odd}},
        lambda odd: {"gate": {"psnr": odd}},
        lambda odd: {"representation": {"lr": odd}},
        lambda odd: {"sweep": {"at": odd}},
    ],
)
def test_every_number_of_a_scenario_is_finite(odd, tables):
    with pytest.raises(BadInput, match="finite|must be"):
        from_tables(tables(odd))


def test_infinity_is_taken_only_where_it_is_documented():
    def build(norm: OrInfinite = 1.0, rate: float = 1.0, free=None):
        return norm

    assert bound(build, {"norm": float("inf")}, "it") == {"norm": float("inf")}
    for name, value in [("norm", float("nan")), ("rate", float("inf")), ("free", float("inf"))]:
        with pytest.raises(BadOption, match="must be"):
            bound(build, {name: value}, "it")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_numbers_of_the_command_line_are_within_bounds(value):
    with pytest.raises(BadOption, match="between 0 and 64"):
        within("--gpus-per-worker", value, 0, 64)
