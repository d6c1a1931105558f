"""Whoever finds nothing must be shown to find something where nothing is defended."""

import math
from dataclasses import replace

import pytest
from worlds import UPDATES

from fedpriv.metrics.gates import parsed
from fedpriv.progress import Told
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.simulations.audit.battery import Method, Raced
from fedpriv.simulations.audit.cells import Cell
from fedpriv.simulations.audit.controls import controlled, undefended
from fedpriv.simulations.audit.fairness import of_fairness
from fedpriv.simulations.audit.probe import Found, Means
from fedpriv.simulations.audit.stage import Final, battery, exposed_cell, few, plan
from fedpriv.simulations.audit.tasks import one_by_one
from fedpriv.simulations.audit.trials import Trial
from fedpriv.simulations.audit.work import units_of
from fedpriv.simulations.federation.exposure import Starts

GATE = (parsed("psnr>20"),)
FOUR = from_tables(merged(UPDATES, {"training": {"batch-size": 4}}))
LOUD = from_tables(merged(FOUR.plain(), {"plugins": [{"name": "noise", "scale": 10.0}]}))


def means_in(folder):
    def carry(tasks, deadline):
        return one_by_one(tasks, deadline, Told())

    return Means(Starts(folder / "starts"), carry, math.inf, gates=GATE)


def rows(values, attack="dlg", run="own"):
    about = {"run": run, "attack": attack, "by": "curious server", "round": 1}
    return [
        {**about, "node": i, "victim": i, "psnr": value, "psnr-blind": 10.0}
        for i, value in enumerate(values)
    ]


BLIND = rows([10.0] * 30, "dlg-shrunk")  # drawn all the way to the public mean
WORKS, FAILS = rows([15.0, 16.0, 17.0]), rows([9.0, 10.0, 11.0])


def test_as_good_as_blind_is_a_doubt_without_a_control():
    (doubt,) = of_fairness(GATE, BLIND, [])
    assert "no better than a blind guess and no control shows that it works here" in doubt


def test_a_control_on_which_the_same_attack_works_ends_the_doubt():
    assert of_fairness(GATE, BLIND, WORKS) == []
    assert of_fairness(GATE, BLIND, FAILS)
    assert of_fairness(GATE, BLIND, WORKS[:1])  # one sample shows nothing
    assert of_fairness(GATE, BLIND, rows([15.0, 16.0, 17.0], "idlg"))  # another attack
    assert of_fairness(GATE, BLIND, rows([15.0, 16.0, 17.0], run="other"))  # another cell


def test_who_beats_the_blind_guess_on_victims_needs_no_control():
    assert of_fairness(GATE, rows([12.0, 13.0] * 15), []) == []


def test_every_cell_is_looked_at():
    fair, bad = rows([12.0, 13.0] * 15, run="early"), rows([5.0] * 30, run="late")
    (doubt,) = of_fairness(GATE, fair + bad, [])
    assert doubt.startswith("late: it was attacked badly")


def test_a_control_has_no_defence_and_one_sample_where_batches_are_the_defence():
    plain, cell = undefended(LOUD, Cell(2))
    assert plain.plugins == () and cell == Cell(2)
    summed = replace(FOUR, federation=replace(FOUR.federation, secagg=True))
    assert undefended(summed, Cell(2)) == (FOUR, Cell(2))
    assert undefended(FOUR, Cell(2)) == (FOUR, Cell(2, 1))


@pytest.mark.parametrize(("steps", "works"), [(300, True), (1, False)])
def test_a_search_is_shown_to_work_on_planted_clients_and_a_weak_one_is_not(tmp_path, steps, works):
    method = Method("adam+cosine", {"steps": steps})
    cell, blind = Cell(1), rows([10.0] * 30, "adam+cosine-shrunk", "round-1-batch-own")
    found = Found(rows=blind, methods={cell: (method,)})
    noise = {"plugins": [{"name": "noise", "scale": 10.0}]}
    single = from_tables(merged(UPDATES, noise))
    found = controlled(found, single, RunFolder(tmp_path / "cells"), means_in(tmp_path))
    assert {row["attack"] for row in found.controls} == {"adam+cosine"}
    assert len(found.controls) == 6  # planted clients, a sample each
    assert (of_fairness(GATE, blind, found.controls) == []) is works


def test_fewer_steps_fewer_victims_and_no_planted_client_are_missing(tmp_path):
    means = means_in(tmp_path)
    probe = exposed_cell(FOUR, Cell(1), RunFolder(tmp_path / "cell"), means)
    race = Raced([["quick", 20.0, 60]], ["idlg"])

    def missing(units):
        found = Found()
        plan(probe, battery(probe, race, means, 1), race, Final(), units, found)
        return {one["attack"]: one["why"] for one in found.missing}

    assert set(missing(10**9)) == {"idlg"}  # for which the race had no room
    cut = missing(60_000)
    assert "of its 200 steps" in cut["quick"] and "of its 1620 steps" in cut["strongest"]
    found = Found()
    few(replace(probe, planted=()), found, [])
    assert [one["why"].split()[0] for one in found.missing] == ["0", "no"]


def test_a_cell_with_victims_and_planted_clients_enough_lacks_nothing(tmp_path):
    means = means_in(tmp_path)
    probe = exposed_cell(FOUR, Cell(1), RunFolder(tmp_path / "cell"), means)
    found = Found(rows=rows([12.0] * 32, run=probe.cell.name))
    few(probe, found, [])
    assert found.missing == []


def test_answers_about_membership_do_not_count_as_samples_that_were_attacked(tmp_path):
    probe = exposed_cell(FOUR, Cell(1), RunFolder(tmp_path / "cell"), means_in(tmp_path))
    drawn = rows([12.0] * 8, run=probe.cell.name)
    others = [{**row, "victim": 100 + i, "psnr": None} for i, row in enumerate(4 * drawn)]
    found = Found(rows=[*drawn, *others])
    few(probe, found, [])
    assert [one["why"] for one in found.missing] == ["8 clients were attacked, 29 are needed"]


BLINDLY = (10.0, 11.0, 12.0)


def trial(gain, blind=BLINDLY, **more):
    values = tuple(value + gain + 0.1 * i for i, value in enumerate(blind))
    return Trial(all_steps=1000, steps=1000, whole=values, taken=values, blind=blind, **more)


@pytest.mark.parametrize(
    ("racer", "finalist", "needed"),
    [
        (5.0, 5.2, False),  # strongest finds as much
        (5.0, 7.0, True),
        (-3.0, 5.0, True),  # the racer that runs anyway finds nothing
        (-3.0, -3.0, False),  # the finalist has won nothing
        (5.0, None, True),  # there was no room for its trial
    ],
)
def test_a_finalist_runs_unless_strongest_stands_for_it(tmp_path, racer, finalist, needed):
    means = means_in(tmp_path)
    probe = exposed_cell(FOUR, Cell(1), RunFolder(tmp_path / "cell"), means)
    race = Raced([["adam+l1", 20.0, 60]], [])
    trials = {"strongest": trial(racer)}
    trials |= {} if finalist is None else {"adam+l1": trial(finalist)}
    found, methods = Found(), battery(probe, race, means, 1)
    room = units_of(Method("strongest"), FOUR, 29 + 4, 4) + 1000
    plan(probe, methods, race, Final(trials), room, found)
    assert any(one["attack"] == "adam+l1" for one in found.missing) is needed
    assert ("adam+l1" in found.races.get(probe.cell.name, {}).get("spare", {})) is not needed
    rich = Found()
    plan(probe, methods, race, Final(trials), 10**9, rich)  # who is not needed runs where it can
    assert rich.attacks[probe.cell.name] == ["strongest", "adam+l1"] and not rich.missing


def test_a_plan_counts_the_steps_that_attacks_really_take(tmp_path):
    probe = exposed_cell(FOUR, Cell(1), RunFolder(tmp_path / "cell"), means_in(tmp_path))
    room = units_of(Method("strongest"), FOUR, 29 + 4, 4) // 2 + 1000
    for part, cut in ((1.0, True), (0.5, False)):
        found = Found()
        plan(
            probe,
            [Method("strongest")],
            None,
            Final({"strongest": trial(5, ran=part)}),
            room,
            found,
        )
        assert bool(found.missing) is cut
