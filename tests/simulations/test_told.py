"""A server that is told more stands for the real one only where it really sees more."""

from dataclasses import dataclass

import pytest
import torch
from rich.console import Console
from worlds import UPDATES

from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.metrics.gates import parsed
from fedpriv.metrics.rates import at_most, mean_at_most
from fedpriv.progress import go_on
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.simulations.audit.cells import Cell, cell_scenario
from fedpriv.simulations.audit.conclusion import bound, told_more
from fedpriv.simulations.audit.planted_series import EPOCHS, of_controls, planted
from fedpriv.simulations.audit.probe import Found
from fedpriv.simulations.audit.series import SeriesTask, recorded
from fedpriv.simulations.audit.told import about, bounded, holding, tellable
from fedpriv.simulations.audit.told import merged as both
from fedpriv.simulations.audit.trials import lossless
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.judging.deciding import answered

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
    asked = cell_scenario(from_tables(MANY), Cell(1, told=True))
    assert (asked.training.batch_size, asked.training.local_steps) == (8, 1)
    assert asked.federation.clients == 34 + 1 and Cell(1, told=True).name.endswith("told")


def scores(psnr, label=0.1, run="told"):
    about = {"attack": "quick", "by": "curious server", "round": 1, "run": run, "claim": "sample"}
    return [
        {**about, "node": i, "victim": i, "psnr": psnr + i % 2, "psnr-blind": 10.0,
         "label-overlap": float(i < 40 * label), "label-overlap-blind": 0.1}
        for i in range(40)
    ]  # fmt: skip


def kinds(found, gates):
    return {one.claim for one in holding(found, gates)}


def test_what_leaks_to_the_better_informed_server_is_left_open():
    assert kinds(Found(rows=scores(12.0)), PSNR) == {"sample"}
    assert kinds(Found(rows=scores(30.0)), PSNR) == set()
    assert kinds(Found(rows=scores(12.0, label=1.0)), []) == {"sample"}  # not the labels
    cut = Found(rows=scores(12.0), missing=[{"cell": "a", "attack": "b", "why": "cut short"}])
    assert kinds(cut, PSNR) == set()
    assert kinds(Found(rows=scores(5.0)), PSNR) == set()  # attacked badly


def test_only_kinds_that_hold_are_counted_for_the_federation():
    told, direct = Found(rows=scores(12.0, label=1.0)), Found(rows=scores(9.0, run="own"))
    found = both(told, direct, holding(told, PSNR))
    assert not [row for row in found.rows if "psnr" in row]
    assert {row["run"] for row in found.told if "psnr" in row} == {"told"}
    assert {row["run"] for row in found.rows if "label-overlap" in row} == {"own"}
    assert about(told.rows, {"sample", "labels"}) == told.rows
    leak = Found(rows=scores(30.0, run="own"))  # a sample in the updates themselves
    found = both(told, leak, holding(told, PSNR))
    assert {row["run"] for row in found.rows if "psnr" in row} == {"own"}


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


def some(hits, clients=36, each=16, psnr=12.0, run="round-1-batch-own-told"):
    """Scores of clients of whom the first have one sample each that is drawn."""
    about = {"attack": "quick", "by": "curious server", "round": 1, "run": run, "claim": "sample"}
    return [
        {**about, "node": node, "victim": f"{node}-{i}", "psnr-blind": 10.0,
         "psnr": 25.0 if i == 0 and node < hits else psnr + i % 2}
        for node in range(clients) for i in range(each)
    ]  # fmt: skip


def test_a_few_samples_of_a_better_informed_server_are_a_bound_for_the_real_one():
    (one,) = holding(Found(rows=some(3)), PSNR)
    assert one.word == "holds" and (one.hits, one.victims, one.unit) == (3, 576, "sample")
    assert one.most == mean_at_most([1 / 16] * 3 + [0] * 33) and at_most(0, 36) < one.most < 0.1
    assert "It draws 3 of them" in told_more([one]) and f"at most {one.most:.0%}" in bound(one)
    assert holding(Found(rows=some(36)), PSNR) == []  # one of each client: 6 %, and too unsure
    (many,) = bounded(Found(rows=some(36)), PSNR)
    assert many.word == "undecided" and "36 of 576 samples of 36 clients" in many.why


def test_each_round_has_a_bound_of_its_own():
    """Many hits late are not hidden by a quiet beginning."""
    late = some(20, run="round-8-batch-own-told")
    assert not holding(Found(rows=[*some(0), *late]), PSNR)
    assert holding(Found(rows=[*some(0), *some(3, run="round-8-batch-own-told")]), PSNR)


def test_a_bound_from_an_attack_that_fails_is_none():
    assert not holding(Found(rows=some(3, psnr=5.0)), PSNR)  # worse than a blind guess
    equal = some(1, psnr=9.5)  # no better, and no control shows that it works
    assert not holding(Found(rows=equal), PSNR)
    works = some(36, psnr=30.0)
    assert holding(Found(rows=equal, controls=works), PSNR)


def test_hits_of_a_better_informed_server_are_no_leak_and_those_of_the_real_one_are():
    found = both(Found(rows=some(3)), Found(), holding(Found(rows=some(3)), PSNR))
    assert [one.word for one in answered(PSNR, found.rows, found.held)] == ["holds"]
    direct = Found(rows=some(1, run="round-1-batch-own"))
    found = both(Found(rows=some(3)), direct, found.held)
    assert [one.word for one in answered(PSNR, found.rows, found.held)] == ["leaks"]
    assert [one.word for one in answered([], found.rows, found.held)] == ["leaks"]


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
