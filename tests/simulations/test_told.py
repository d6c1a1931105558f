"""A server that is told more stands for the real one only where it really sees more."""

import math
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from worlds import UPDATES

from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.metrics.gates import parsed
from fedpriv.progress import Told, go_on
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.scenario.built import shares_of
from fedpriv.simulations.audit.battery import Method, shortened
from fedpriv.simulations.audit.cells import Cell, cell_scenario
from fedpriv.simulations.audit.planted_series import EPOCHS, of_controls, planted
from fedpriv.simulations.audit.probe import Found, Means
from fedpriv.simulations.audit.series import SeriesTask, recorded
from fedpriv.simulations.audit.state import Audit, Clock
from fedpriv.simulations.audit.tasks import one_by_one
from fedpriv.simulations.audit.told import (
    about,
    drawn,
    holding,
    instead,
    silent,
    tellable,
    told_less,
)
from fedpriv.simulations.audit.told import merged as both
from fedpriv.simulations.audit.trials import lossless
from fedpriv.simulations.audit.updates import again, settled
from fedpriv.simulations.audit.work import units_of
from fedpriv.simulations.federation.exposure import Starts
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate

MANY = merged(
    UPDATES,
    {
        "data": {"options": {"train": 320}},
        "training": {"batch-size": 8, "local-epochs": 1},
    },
)
MANY["training"].pop("local-steps")
PSNR = [parsed("psnr>20")]


@dataclass(frozen=True)
class Keeps(PrivacyPlugin):
    """A plugin of somebody else that says of itself that it keeps nothing between steps."""

    protects = ("update",)
    in_steps = True


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, True),
        ({"training": {"momentum": 0.9}}, True),
        ({"training": {"local-steps": 16}}, True),
        ({"plugins": [{"name": "dp", "noise-multiplier": 1.0}]}, True),
        ({"plugins": [{"name": "noise", "scale": 0.1}]}, False),  # of an update, not of a step
        ({"plugins": [{"name": "pruning", "fraction": 0.1}]}, False),
        ({"plugins": [{"name": "spn"}]}, False),  # its head goes from step to step
        ({"plugins": [{"name": f"{__name__}:Keeps"}]}, False),  # not taken at its word
        ({"training": {"optimiser": "adam"}}, False),  # its averages go from step to step
        ({"training": {"local-epochs": 2}}, False),  # samples come again
        ({"training": {"local-steps": 40}}, False),  # likewise
        ({"training": {"local-steps": 4}}, False),  # few samples: the update itself is attacked
        ({"federation": {"secagg": True}}, False),
    ],
)
def test_who_is_told_more_sees_more_only_in_one_pass_of_sgd(changes, told):
    assert tellable(from_tables(merged(MANY, changes))) is told


def test_the_server_is_told_one_step_of_the_configured_batch():
    asked = cell_scenario(from_tables(MANY), Cell(1, told=1))
    assert (asked.training.batch_size, asked.training.local_steps) == (8, 1)
    assert asked.federation.clients == 29 + 1 and Cell(1, told=1).name.endswith("told")


def scores(psnr, label=0.1, run="told"):
    about = {"attack": "quick", "by": "curious server", "round": 1, "run": run, "claim": "sample"}
    return [
        {**about, "node": i, "victim": i, "psnr": psnr + i % 2, "psnr-blind": 10.0,
         "label-overlap": float(i < 40 * label), "label-overlap-blind": 0.1}
        for i in range(40)
    ]  # fmt: skip


def test_what_leaks_to_the_better_informed_server_is_left_open():
    assert holding(Found(rows=scores(12.0)), PSNR) == {"sample"}
    assert holding(Found(rows=scores(30.0)), PSNR) == set()
    assert holding(Found(rows=scores(12.0, label=1.0)), []) == {"sample"}  # not the labels
    cut = Found(rows=scores(12.0), missing=[{"cell": "a", "attack": "b", "why": "cut short"}])
    assert holding(cut, PSNR) == set()
    assert holding(Found(rows=scores(5.0)), PSNR) == set()  # attacked badly


def test_nothing_is_said_of_a_server_whose_answers_do_not_count():
    """It drew samples, so that the updates themselves are asked, about labels too."""
    rows = [{**row, "node": 40 * i + row["node"]} for i in range(10) for row in scores(30.0, 0.15)]
    told = Found(rows=rows)
    assert holding(told, []) == {"labels"}
    work = SimpleNamespace(gates=[], kinds=set())
    assert not settled(work, [], told) and work.kinds == set()


def test_only_kinds_that_hold_are_counted_for_the_federation():
    told, direct = Found(rows=scores(12.0, label=1.0)), Found(rows=scores(9.0, run="own"))
    rows = both(told, direct, {"sample"}).rows
    assert {row["run"] for row in rows if "psnr" in row} == {"told"}
    assert {row["run"] for row in rows if "label-overlap" in row} == {"own"}
    assert about(told.rows, {"sample", "labels"}) == told.rows
    leak = Found(rows=scores(30.0, run="own"))  # a sample in the updates themselves
    assert {row["run"] for row in both(told, leak, {"sample"}).rows if "psnr" in row} == {
        "told",
        "own",
    }


def test_steps_are_saved_only_where_nothing_is_lost():
    whole, blind = torch.tensor([12.0, 13.0, 18.0]), torch.tensor([10.0, 10.0, 10.0])
    assert lossless(whole, whole - 0.2, blind) and lossless(whole, whole + 3, blind)
    assert not lossless(whole, whole - 0.5, blind)  # on average
    assert not lossless(whole, torch.tensor([13.0, 14.0, 16.0]), blind)  # of the best sample
    assert not lossless(whole, whole - 0.2, whole - 1)  # a fifth of what was gained


def members(rank, attack="member-loss"):
    about = {"claim": "member", "attack": attack, "others": 100, "node": 0}
    draw = torch.Generator().manual_seed(1)
    ranks = (torch.rand(100, generator=draw) * 2 * rank).clamp(0, 1)
    return [{**about, "member-rank": float(r), "member-fpr": float(1 - r)} for r in ranks]


def test_silence_of_an_attack_that_never_worked_is_a_doubt():
    silent, works = members(0.5), members(0.9)
    (doubt,) = of_controls(silent, [])
    assert "no attack on the member beats a blind guess" in doubt
    assert of_controls(silent, silent) == [doubt]
    assert of_controls(silent, members(0.9, "rmia")) == [doubt]  # another attack
    assert of_controls(silent, works) == [] and of_controls(works, []) == []


def test_a_planted_federation_is_made_to_leak():
    private = from_tables(merged(MANY, {"plugins": [{"name": "dp", "noise-multiplier": 1.0}]}))
    made = planted(private)
    assert (
        not made.plugins
        and made.data.partition == "shards"
        and made.training.local_epochs == EPOCHS
    )
    assert made.data.reserve == 320 - 2 * 20


def test_a_client_that_leaks_is_asked_about_by_a_server_that_is_told_less():
    cell, less = Cell(1, told=1), Cell(1, told=2)
    assert less.name == "round-1-batch-own-told-2" and less.training() == {"local-steps": 2}
    rows = scores(12.0, run=cell.name)
    rows[3] = {**rows[3], "psnr": 30.0}
    told = Found(rows=rows)
    assert drawn(told, cell, PSNR) == {"3"} and holding(told, PSNR) == set()
    again = Found(rows=several(11.0, less.name))
    assert silent(again, PSNR, less, {"3"}) == {"3"}
    found = instead(told, cell, again, {"3"})
    assert len(found.rows) == 39 + 8 and {row["run"] for row in found.rows} == {cell.name}
    assert drawn(found, cell, PSNR) == set() and holding(found, PSNR) == {"sample"}


def several(psnr, run, node=3):
    """Scores of eight samples of one client, all near one value."""
    about = {"attack": "quick", "by": "curious server", "round": 1, "run": run, "claim": "sample"}
    return [
        {**about, "node": node, "victim": i, "psnr": psnr + 0.1 * i, "psnr-blind": 10.0}
        for i in range(8)
    ]


def test_the_silence_of_an_attack_that_fails_clears_nobody():
    """29 clients on whom the attack worked would hide three on whom it does not."""
    less = Cell(1, told=2)
    worse = Found(rows=several(8.0, less.name))  # than a blind guess
    assert silent(worse, PSNR, less, {"3"}) == set()
    same = Found(rows=several(9.7, less.name))  # no better, and no control shows that it works
    assert silent(same, PSNR, less, {"3"}) == set()
    same.controls = several(30.0, less.name, node=99)
    assert silent(same, PSNR, less, {"3"}) == {"3"}
    cut = Found(rows=several(11.0, less.name))
    cut.lacks(less, "strongest", "cut short")
    assert silent(cut, PSNR, less, {"3"}) == set()
    assert silent(Found(), PSNR, less, {"3"}) == set()  # nobody was scored
    leak = Found(rows=several(30.0, less.name))
    assert silent(leak, PSNR, less, {"3"}) == set()


def test_a_server_is_told_as_few_steps_less_as_samples_and_units_allow():
    scenario, cell = (
        from_tables(merged(MANY, {"data": {"options": {"train": 960}}})),
        Cell(1, told=1),
    )
    asked = cell_scenario(scenario, cell)
    cut = (shortened(Method("strongest"), asked, 0.1), Method("quick"))
    found = Found(methods={cell: cut})
    less, methods = told_less(scenario, cell, found, (), nodes=3, units=10**9)
    assert less.told == min(map(len, shares_of(asked))) // 8 == 4  # of 32 samples, once each
    assert methods == (Method("strongest"), Method("quick"))  # with all their steps again
    step = sum(units_of(one, asked, 3 + 1, 8) for one in methods)
    assert told_less(scenario, cell, found, (), nodes=3, units=3 * step - 1)[0].told == 2
    assert told_less(scenario, cell, found, (), nodes=3, units=2 * step - 1) is None


def test_a_drawn_client_is_attacked_again_in_its_own_cell(tmp_path):
    """The parts together: exposed with more steps, attacked, and cleared or not."""
    scenario = from_tables(merged(MANY, {"data": {"options": {"train": 960}}}))
    told, cell = Told(go_on), Cell(1, told=1)
    place = RunFolder(tmp_path / "audit")
    means = Means(Starts(place.path / "starts"), partial(one_by_one, told=told), math.inf)
    work = Audit(
        scenario, place, PSNR, Clock(None), Console(quiet=True), means, told, 1, "many", units=10**8
    )
    rows = scores(12.0, run=cell.name)
    rows[3] = {**rows[3], "psnr": 30.0}
    work.told_more = Found(rows=rows, methods={cell: (Method("quick"),)})
    found = again(work, [Cell(1)])
    (run,) = [each.name for each in (place.path / "cells").iterdir() if "told-" in each.name]
    assert run == "round-1-batch-own-told-4" and set(work.less) == {run}
    replaced = [row for row in found.rows if row["node"] == 3]
    assert (len(replaced) >= 4 * 8) == bool(work.less[run])  # of all its samples, or as it was
    assert {row["run"] for row in found.rows} == {cell.name} and len(found.rows) >= 40


def test_all_rounds_and_their_control_are_tasks(tmp_path):
    scenario = from_tables(merged(MANY, {"federation": {"backend": "inline", "rounds": 1}}))
    folder = RunFolder(tmp_path / "run")
    simulate(recorded(scenario), folder, PlainLines(Console(quiet=True)))
    done = SeriesTask(scenario, folder.path, (), (), 10**6, 1, shadows=False)(go_on)
    asked = folder.candidates()
    assert {"member", "classes"} <= {row["claim"] for row in done.rows}
    assert int((folder.key().owner >= 0).sum()) > len(asked) / 2  # more members than others
    stopped = SeriesTask(scenario, folder.path, (), (), 10**6, 1, shadows=False)(lambda *_: False)
    assert stopped.missing
