"""Every attack of the catalogue on an accelerator: the claims of the CPU, made on the device."""

import pretend
import pytest
import torch
from there import claims_on

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.device import CPU, moved
from fedpriv.simulations.judging import attacking
from fedpriv.simulations.judging.conditions import row_of
from fedpriv.simulations.judging.findings import examined
from fedpriv.simulations.judging.recordings import of_run


@pytest.fixture
def calls(monkeypatch) -> list[pretend.Ran]:
    """What each call of an attack computed, and where."""
    found: list[pretend.Ran] = []

    plain = attacking.attacked

    def attacked(call, method, *rest):
        def watched(evidence, progress):
            with pretend.counted() as ran:
                found.append(ran)
                return method(evidence, progress)

        return plain(call, watched, *rest)

    monkeypatch.setattr(attacking, "attacked", attacked)
    return found


def folder_for(name, request):
    row = row_of(name)
    if row.sees != "codes":
        return request.getfixturevalue("updates")
    if {"own-decoder", "own-classifier"} & {*row.needs}:
        return request.getfixturevalue("game")
    return request.getfixturevalue("inputs" if "input-layer" in row.needs else "codes")


@pytest.mark.parametrize("name", list(ATTACKS))
def test_an_attack_claims_the_same_there(name, there, calls, request):
    folder = folder_for(name, request)
    here = claims_on(CPU, name, folder)
    calls.clear()
    found = claims_on(there, name, folder)
    assert len(found) == len(here) > 0
    for one, other in zip(found, here, strict=True):
        assert one.tensors().keys() == other.tensors().keys()
        for key, value in one.tensors().items():
            wanted = other.tensors()[key]
            torch.testing.assert_close(value, wanted, equal_nan=True, msg=f"{name}: {key}")
    for ran in calls:
        assert ran.made_there and ran.share > 0.5, f"on the CPU: {ran.cpu.most_common(5)}"


def test_preflight_finds_the_same_there(updates, there):
    recording = of_run(updates)
    here = examined(recording.updates, updates.truth_of)
    moved_there = moved(recording.updates, there)
    with pretend.counted() as ran:
        found = examined(moved_there, updates.truth_of, there)
    for one, other in zip(found, here, strict=True):
        assert one.findings == other.findings
        assert one.layers == pytest.approx(other.layers, abs=1e-6)
    assert ran.share > 0.5
