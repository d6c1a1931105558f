"""The parts of an audit: cells, plans, doubts, tasks, defences and what is said of them."""

import math
import time
from dataclasses import replace
from pathlib import Path

import pytest
from worlds import CODES, UPDATES

from fedpriv.attacks.catalogue import ATTACKS, AttackRow
from fedpriv.clients.catalogue import calibrated
from fedpriv.errors import BadObservation
from fedpriv.metrics.gates import parsed
from fedpriv.progress import Told
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.simulations.audit import doubts
from fedpriv.simulations.audit.audit import on_codes
from fedpriv.simulations.audit.battery import (
    LEAST,
    RACER,
    Method,
    fitting,
    informed,
    searches,
    shortened,
    standing,
)
from fedpriv.simulations.audit.cells import (
    Cell,
    cell_scenario,
    configured_cells,
    milestones,
    needed_messages,
    possible_cells,
)
from fedpriv.simulations.audit.conclusion import sentence
from fedpriv.simulations.audit.coverage import Audited, coverage
from fedpriv.simulations.audit.ending import leaks_in
from fedpriv.simulations.audit.ladder import (
    Price,
    Tried,
    candidates,
    cheapest,
    curve,
    largest_epsilon,
)
from fedpriv.simulations.audit.probe import Means
from fedpriv.simulations.audit.series import recorded, shadow_units, wanted
from fedpriv.simulations.audit.stage import attacked, cannot_act, exposed_cell
from fedpriv.simulations.audit.tasks import STOPPED, AttackTask, one_by_one
from fedpriv.simulations.audit.work import planned, units_of
from fedpriv.simulations.federation.exposure import Starts
from fedpriv.simulations.judging.outcome import outcomes

FOUR = from_tables(merged(UPDATES, {"training": {"batch-size": 4}}))


def means_in(folder, **more):
    def carry(tasks, deadline):
        return one_by_one(tasks, deadline, Told())

    return Means(Starts(folder / "starts"), carry, math.inf, **more)


def score(psnr, victim, **more):
    row = {"node": victim, "victim": victim, "attack": "dlg", "by": "curious server", "round": 1}
    return {**row, "psnr": psnr, "psnr-blind": 10.0, **more}


def test_cells_are_early_and_late_first():
    assert [milestones(rounds) for rounds in (1, 2, 9)] == [(1,), (1, 2), (1, 5, 9)]
    assert configured_cells([1, 5, 9]) == [Cell(1), Cell(9), Cell(5)]
    assert configured_cells([1]) == [Cell(1)]


def test_the_configured_batch_is_not_called_what_a_server_could_ask():
    assert [cell.batch for cell in possible_cells(FOUR, (1,))] == [1, 8]
    several = from_tables(merged(UPDATES, {"training": {"batch-size": 4, "local-steps": 2}}))
    assert [cell.batch for cell in possible_cells(several, (1,))] == [1, 4, 8]


def test_a_cell_differs_from_training_in_batch_and_steps_alone():
    asked = cell_scenario(FOUR, Cell(3, 8))
    assert (asked.training.batch_size, asked.training.local_steps) == (8, 1)
    assert asked.training.lr == FOUR.training.lr and asked.federation.rounds == 3
    own = cell_scenario(FOUR, Cell(3))
    assert own.training == FOUR.training and own.keeps_truth


def test_a_cell_has_clients_enough_for_a_bound():
    assert needed_messages(FOUR, Cell(1)) == needed_messages(FOUR, Cell(1, 1)) == 29
    single = cell_scenario(FOUR, Cell(1, 1))
    assert single.federation.clients == 29 + 6 and single.federation.fraction == 1.0
    chosen = cell_scenario(FOUR, Cell(1))
    assert chosen.federation.clients == 64 // 4  # with more, batches would be smaller


@pytest.mark.filterwarnings("ignore:Optimal order")  # of Opacus, for few samples
def test_the_noise_of_a_cell_is_that_of_training():
    private = from_tables(merged(UPDATES, {"plugins": [{"name": "dp", "epsilon": 1.0}]}))
    noise = calibrated(private.plugins[0], private)["noise-multiplier"]
    (inside,) = cell_scenario(private, Cell(1, 1)).plugins
    assert inside.options["noise-multiplier"] == noise > 0 and "epsilon" not in inside.options


def test_every_fitting_attack_that_computes_its_answer_runs_without_a_race():
    single = from_tables(UPDATES)
    names = [method.name for method in standing(single)]
    assert RACER in names and "linear" in names and "dlg" not in names
    assert {"dlg", "idlg", "adam+cosine"} <= set(fitting(single))
    assert "linear" not in fitting(FOUR)  # it needs one sample


def test_who_knows_a_plugin_attacks_it_too():
    def known(*plugins):
        return {m.name for m in informed(from_tables(merged(UPDATES, {"plugins": list(plugins)})))}

    assert known() == set()
    assert "pruning-aware" in known({"name": "pruning", "fraction": 0.1})
    noises = {"name": "noise", "scale": 0.1}, {"name": "dp", "noise-multiplier": 1.0}
    assert "noise-aware" in known(*noises) and "pruning-aware" not in known(*noises)


def test_a_search_is_never_cut_below_the_least():
    whole = Method("adam+cosine", {"steps": 1000})
    assert shortened(whole, FOUR, 1.0) == whole
    assert shortened(whole, FOUR, 0.5).options["steps"] == 500
    assert shortened(whole, FOUR, 0.0).options["steps"] == LEAST
    assert shortened(Method("adam+cosine", {"steps": 7}), FOUR, 0.0).options["steps"] == 7


SEARCHES = [Method("adam+cosine", {"steps": 1000}), Method("adam+l2", {"steps": 1000})]


def plan_of(units, methods=SEARCHES, most=20, needed=8):
    return planned(methods, FOUR, samples=4, needed=needed, most=most, units=units)


def test_a_plan_cuts_steps_then_searches_then_clients():
    step = units_of(Method("adam+cosine", {"steps": 1}), FOUR, 8, 4)
    whole = plan_of(2000 * step)
    assert (whole.methods, whole.clients, whole.dropped) == (tuple(SEARCHES), 8, ())
    half = plan_of(1000 * step)
    assert [method.options["steps"] for method in half.methods] == [500, 500]
    one = plan_of(LEAST * step)
    assert [method.name for method in one.methods] == ["adam+cosine"]
    assert one.dropped == (SEARCHES[1],) and one.clients == 8
    few = plan_of(LEAST * step // 2)
    assert few.clients == 4 and few.dropped == (SEARCHES[1],)
    none = plan_of(1)
    assert none.methods == () and none.dropped == tuple(SEARCHES)
    assert plan_of(3000 * step).clients == 12  # more clients when all steps fit
    for units in (1, LEAST * step, 777 * step, 5000 * step):
        assert plan_of(units).units <= units


def test_what_computes_its_answer_is_never_dropped():
    single = from_tables(UPDATES)
    assert not searches(Method("linear"), single)
    found = planned([Method("linear")], single, samples=1, needed=29, most=29, units=1)
    assert [method.name for method in found.methods] == ["linear"] and found.dropped == ()


def test_training_that_did_not_end_and_accuracy_at_chance_are_doubts():
    good, chance = {"accuracy": 1.0}, {"accuracy": 0.25}
    assert doubts.of_training(FOUR, [good, good]) == []
    assert doubts.of_training(FOUR, [good]) == ["training ended after 1 of 2 rounds"]
    (found,) = doubts.of_training(FOUR, [good, chance])
    assert "25.0% is at chance" in found


def test_a_plugin_that_nobody_knows_is_a_doubt(monkeypatch):
    noisy = from_tables(merged(UPDATES, {"plugins": [{"name": "noise", "scale": 0.1}]}))
    assert doubts.of_knowledge(noisy) == []
    monkeypatch.setattr(doubts, "ATTACKS", ["dlg"])
    assert doubts.of_knowledge(noisy) == ["no attack knows the plugin 'noise'"]


def test_what_is_missing_is_doubted():
    missing = [{"cell": "own", "attack": "dlg", "why": "cut short"}]
    assert doubts.of_missing(missing) == ["dlg in own: cut short"]


def test_attacks_that_are_missing_for_one_reason_are_one_line():
    lost = [{"cell": "own", "attack": name, "why": "no time"} for name in ("a", "b", "c", "d")]
    lost += [{"cell": "own", "attack": "e", "why": "it failed"}]
    assert doubts.of_missing(lost) == [
        "a, b and 2 more attacks in own: no time",
        "e in own: it failed",
    ]
    assert doubts.of_missing(lost[:3]) == ["a, b, c in own: no time"]


def test_none_of_two_is_said_with_its_interval():
    found = outcomes([parsed("psnr>20")], [score(12.0, 0), score(12.0, 1)])
    assert (f"{found[0].low:.0%}", f"{found[0].high:.0%}") == ("0%", "84%")
    text = sentence("undecided", found, [])
    assert "2 clients without a hit" in text and "29 are needed for 10%" in text


def test_a_gate_on_hits_is_the_share_that_may_be_right():
    def word(right, count, bound):
        rows = [
            score(12.0, i, **{"label-hit": float(i < right), "label-hit-blind": 0.1})
            for i in range(count)
        ]
        (found,) = outcomes([parsed(f"label-hit>{bound}")], rows)
        return found.word

    assert word(6, 60, 0.5) == "holds"  # lucky guesses are no leak
    assert word(55, 60, 0.5) == "leaks"
    assert word(30, 60, 0.5) == "undecided"
    assert word(4, 60, 0.0) == "undecided"  # no better than the blind guess, and few


def test_no_cell_is_exposed_when_the_time_is_over(tmp_path):
    late = replace(means_in(tmp_path), deadline=time.time() - 1)
    found = attacked(FOUR, [Cell(1), Cell(1, 1)], RunFolder(tmp_path / "cells"), late, 10**6)
    assert [one["why"] for one in found.missing] == ["no time was left for it"] * 2
    assert not (tmp_path / "cells").exists() and not found.rows


def test_tasks_after_a_stop_are_not_begun():
    def task(progress):
        raise AssertionError

    told = Told(lambda part, loss: False)
    assert one_by_one([task, task], math.inf, told) == [STOPPED, STOPPED]


def test_a_task_that_fails_does_not_stop_the_next():
    def broken(progress):
        raise ValueError("broken")

    first, second = one_by_one([broken, lambda progress: 3], math.inf, Told())
    assert isinstance(first, ValueError) and second == 3


def refusing():
    def attack(seen, progress=None):
        raise BadObservation("this model has no layer that I can read.")

    return attack


def failing():
    def attack(seen, progress=None):
        raise ZeroDivisionError

    return attack


@pytest.mark.parametrize(("build", "refused"), [(refusing, True), (failing, False)])
def test_who_says_that_it_cannot_act_does_not_apply_and_a_fault_is_missing(
    tmp_path, monkeypatch, build, refused
):
    row = AttackRow(build, "of a test", sees="update", by="curious server", claims="sample")
    monkeypatch.setitem(ATTACKS._rows, "of-a-test", row)
    single = from_tables(UPDATES)
    probe = exposed_cell(single, Cell(1), RunFolder(tmp_path / "cell"), means_in(tmp_path))
    method = Method("of-a-test")
    done = AttackTask(Path(probe.folder.path), method, 2)(lambda part, loss: True)
    assert cannot_act(method, probe, done) is refused
    (line,) = [
        one
        for one in coverage(single, Audited(refused={"of-a-test": done.why}), ["of-a-test"])
        if one.threat == "curious server, sees one update" and one.claim == "sample"
    ]
    assert line.state == "not tested"  # others of its kind could have been
    knowing = AttackRow(
        build, "of a test", sees="update", by="curious server", claims="sample", knows=("noise",)
    )
    monkeypatch.setitem(ATTACKS._rows, "of-a-test", knowing)
    assert not cannot_act(method, probe, done)  # an informed attacker is required


@pytest.mark.parametrize(("psnr", "state"), [(35.0, "tested"), (5.0, "not tested")])
def test_a_leak_is_tested_though_the_attack_lacked_time_elsewhere(psnr, state):
    rows = [score(psnr, victim, attack="dlg") for victim in range(4)]
    gates = [parsed("psnr>20")]
    tested = Audited(rows, cut={"dlg": "no time"}, leaks=leaks_in(gates, rows))
    (line,) = [
        one
        for one in coverage(FOUR, tested)
        if one.threat == "curious server, sees one update" and one.claim == "sample"
    ]
    assert line.state == state


def test_the_cheapest_keeps_most_accuracy():
    falls = Tried("a", "a", "leaks", price=Price((0.99,)))
    strong = Tried("b", "b", "holds", price=Price((0.7, 0.6)), epsilon=1.0)
    mild = Tried("c", "c", "holds", price=Price((0.9,)), epsilon=8.0)
    unknown = Tried("d", "d", "holds")
    maybe = Tried("e", "e", "undecided", price=Price((1.0,)), epsilon=50.0)
    assert cheapest([falls, strong, mild, unknown, maybe]) == mild
    assert cheapest([falls, unknown]) == unknown and cheapest([falls, maybe]) is None
    assert largest_epsilon([strong, mild, maybe]) == 8.0


@pytest.mark.filterwarnings("ignore:Optimal order")  # of Opacus, for few samples
def test_a_scenario_names_its_own_candidates_else_there_is_a_ladder():
    own = {"name": "mine", "plugins": [{"name": "clip", "norm": 1.0}]}
    found = candidates(from_tables(merged(UPDATES, {"defences": [own]})), Cell(1))
    assert [(one.name, one.settings) for one in found] == [("mine", "clip(norm=1.0)")]
    names = [one.name for one in candidates(FOUR, Cell(1))]
    assert {"larger-batches", "secagg", "noise-0.1", "dp-1"} <= set(names)
    asked = [one.name for one in candidates(FOUR, Cell(1, 8))]
    assert "larger-batches" not in asked and "dp-1" in asked  # a server sets batches itself


def test_more_steps_are_what_the_scenario_counts_in():
    found = {one.name: one.scenario.training for one in candidates(FOUR, Cell(1))}
    assert found["more-steps"].local_steps == 4  # it counts steps
    assert found["larger-batches"].batch_size == 16
    epochs = from_tables({"training": {"batch-size": 8}})
    found = {one.name: one.scenario.training for one in candidates(epochs, Cell(1))}
    assert found["more-steps"].local_epochs == 2 and found["more-steps"].local_steps is None


def test_the_curve_is_of_the_defences_with_an_epsilon():
    tried = [
        Tried("dp-1", "", "holds", price=Price((0.5, 0.7)), epsilon=1.0),
        Tried("noise", "", "holds"),
        Tried("dp-8", "", "leaks", epsilon=8.0),
    ]
    shown = [(one["epsilon"], one["outcome"], one["accuracy"]) for one in curve(tried)]
    assert shown == [(8.0, "leaks", None), (1.0, "holds", pytest.approx(0.6))]


def test_the_training_is_recorded_for_attacks_on_all_rounds():
    chosen = recorded(FOUR)
    names = {attack.name for attack in chosen.attacks}
    assert {"member-loss", "member-cosine", "lira", "class-shares"} <= names
    assert chosen.keep_truth == "numbers" and "owner-loss" not in names  # it has two clients
    assert not {method.name for method in standing(FOUR)} & names  # single rounds are not for them
    noisy = from_tables(merged(UPDATES, {"plugins": [{"name": "noise", "scale": 1.0}]}))
    assert "member-matched" in {method.name for method in wanted(noisy)}
    sums = from_tables(merged(UPDATES, {"federation": {"secagg": True}}))
    assert {ATTACKS[method.name].sees for method in wanted(sums)} == {"models"}


def test_shadows_take_units():
    lira = next(method for method in wanted(FOUR) if method.name == "lira")
    assert shadow_units(lira, FOUR, rounds=3) == 4 * 3 * 2 * 4  # shadows, rounds, clients, samples
    assert shadow_units(Method("member-loss"), FOUR, rounds=3) == 0


def test_codes_are_read_by_all_that_fit_and_by_those_the_scenario_names():
    own = [{"name": "decoder", "codes": "clean"}, {"name": "decoder", "codes": "noisy"}]
    codes = from_tables(merged(CODES, {"attacks": own}))
    found = [method for method in on_codes(codes) if method.name == "decoder"]
    assert [method.options.get("codes") for method in found] == [None, "clean", "noisy"]
    assert "attribute" not in {method.name for method in on_codes(codes)}  # the data have none
