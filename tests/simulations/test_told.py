"""A server that is told more stands for the real one only where it really sees more."""

from dataclasses import dataclass

import pytest
import torch
from worlds import UPDATES

from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.metrics.gates import parsed
from fedpriv.scenario import from_tables, merged
from fedpriv.simulations.audit.cells import Cell, cell_scenario
from fedpriv.simulations.audit.planted_series import of_controls, planted
from fedpriv.simulations.audit.probe import Found
from fedpriv.simulations.audit.told import about, drawn, holding, instead, tellable
from fedpriv.simulations.audit.told import merged as both
from fedpriv.simulations.audit.trials import lossless

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


def test_only_kinds_that_hold_are_counted_for_the_federation():
    told, direct = Found(rows=scores(12.0, label=1.0)), Found(rows=scores(9.0, run="own"))
    rows = both(told, direct, {"sample"}).rows
    assert len(rows) == 80 and all("psnr" in row for row in rows)
    assert {row["run"] for row in rows if "label-overlap" in row} == {"own"}
    assert about(told.rows, {"sample", "labels"}) == told.rows


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
    assert not made.plugins and made.data.partition == "shards" and made.training.local_epochs == 5
    assert made.data.reserve == 320 - 2 * 20


def test_a_client_that_leaks_is_asked_about_by_a_server_that_is_told_less():
    cell, less = Cell(1, told=1), Cell(1, told=2)
    assert less.name == "round-1-batch-own-told-2" and less.training() == {"local-steps": 2}
    rows = scores(12.0, run=cell.name)
    rows[3] = {**rows[3], "psnr": 30.0}
    told = Found(rows=rows)
    assert drawn(told, cell, PSNR) == {"3"} and holding(told, PSNR) == set()
    again = Found(rows=[{**row, "run": less.name} for row in scores(11.0)[3:4]])
    found = instead(told, cell, again, {"3"})
    assert len(found.rows) == 40 and {row["run"] for row in found.rows} == {cell.name}
    assert drawn(found, cell, PSNR) == set() and holding(found, PSNR) == {"sample"}
    cut = Found(rows=again.rows, missing=[{"cell": "a", "attack": "b", "why": "cut short"}])
    assert holding(instead(told, cell, cut, {"3"}), PSNR) == set()
