"""Ways to make an audit green for a federation that leaks; each was tried and must fail."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from worlds import CODES, UPDATES

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.errors import BadOption
from fedpriv.evidence.folder import load_folder
from fedpriv.metrics.gates import parsed
from fedpriv.progress import go_on
from fedpriv.report.kinds import kinds_of_audit
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.simulations.audit import audit, doubts
from fedpriv.simulations.audit.battery import Method, racers, standing, steps_of
from fedpriv.simulations.audit.cells import Cell, cell_scenario, in_message, together
from fedpriv.simulations.audit.codes import on_codes
from fedpriv.simulations.audit.conclusion import bound, saved_steps, told_more
from fedpriv.simulations.audit.ladder import candidates, judged_defence
from fedpriv.simulations.audit.probe import Found, Means, Probe
from fedpriv.simulations.audit.scored import without_owners
from fedpriv.simulations.audit.stage import exposed_cell, uncounted
from fedpriv.simulations.audit.tasks import one_by_one
from fedpriv.simulations.audit.told import holding
from fedpriv.simulations.audit.told import merged as both
from fedpriv.simulations.audit.trials import TrialTask
from fedpriv.simulations.federation.exposure import Starts
from fedpriv.simulations.judging.deciding import answered
from fedpriv.simulations.judging.indirect import indirect
from fedpriv.simulations.judging.outcome import outcomes, overall

NOISY = merged(UPDATES, {"plugins": [{"name": "noise", "scale": 0.1}]})


@dataclass(frozen=True)
class Shuffled(PrivacyPlugin):
    """A defence that nobody has ever attacked; it says of itself that it hides nothing."""

    protects = ("update",)
    hides = False

    def on_update(self, update, job):
        return {name: value.flip(0) for name, value in update.items()}


HOUSE = f"{__name__}:Shuffled"


def score(victim, psnr=5.0, **more):
    row = {"node": victim, "victim": victim, "attack": "dlg", "by": "curious server", "round": 1}
    return {**row, "claim": "sample", "psnr": psnr, "psnr-blind": 4.0, **more}


def test_weak_options_in_a_scenario_weaken_no_required_attack():
    weak = [{"name": name, "steps": 1} for name in ("noise-aware", "strongest", "dlg")]
    scenario = from_tables(merged(NOISY, {"attacks": weak}))
    methods = {method.label: method for method in standing(scenario, scenario.attacks)}
    for name in ("noise-aware", "strongest"):
        whole = steps_of(Method(name), scenario)
        assert steps_of(methods[name], scenario) == whole > 60
        assert steps_of(methods[f"{name} steps=1"], scenario) < whole  # it runs besides
    assert "dlg" in {method.label for method in racers(scenario)}  # with all its steps


def test_weak_options_weaken_no_attack_on_codes():
    weak = [{"name": "adversarial-decoder", "longer": 1, "width": 1}]
    noisy = {"plugins": [{"name": "ars", "epsilon": 1.0}], "attacks": weak}
    found = on_codes(from_tables(merged(CODES, noisy)))
    assert Method("adversarial-decoder") in found and len(found) == len(set(map(str, found)))


def test_prior_weights_that_win_elsewhere_take_part_in_the_race():
    labels = {method.label for method in racers(from_tables(UPDATES))}
    assert {f"adam+cosine tv={weight}" for weight in (0.001, 0.01, 0.1)} <= labels
    assert {"dlg", "idlg", "adam+cosine", "fedavg-replay"} <= labels


@pytest.mark.parametrize("name", [HOUSE, "clip", "guard"])
def test_a_plugin_of_somebody_else_is_not_taken_at_its_word(name):
    scenario = from_tables(merged(UPDATES, {"plugins": [{"name": name}]}))
    found = doubts.of_knowledge(scenario)
    assert bool(found) == (name == HOUSE), found


def test_no_defence_is_advised_that_nobody_knows_how_to_attack():
    scenario = from_tables(
        merged(UPDATES, {"defences": [{"name": "house", "plugins": [{"name": HOUSE}]}]})
    )
    (candidate,) = candidates(scenario, Cell(1))
    rows = [score(victim) for victim in range(40)]
    gates = [parsed("psnr>20")]
    assert overall(outcomes(gates, rows)) == "holds"
    tried = judged_defence(candidate, Found(rows=rows, controls=rows), gates)
    assert tried.word == "undecided" and "no attack knows the plugin" in tried.why


def test_scores_that_are_no_number_are_doubted():
    rows = [score(victim) for victim in range(40)] + [score(41, math.nan)]
    gates = [parsed("psnr>20")]
    assert doubts.of_numbers(gates, rows) == ["1 scores of psnr are not a number"]
    assert "1 scores of psnr are not a number" in doubts.of_numbers([], rows)
    assert not doubts.of_numbers(gates, rows[:-1])


def test_a_kind_of_claim_without_a_score_is_doubted():
    scenario = from_tables(UPDATES)
    rows = [score(victim) for victim in range(40)]
    found = doubts.of_scores(scenario, [], rows, {})
    assert "nothing was scored about the labels" in found
    assert not any("about the sample" in one for one in found)
    assert not doubts.of_scores(scenario, [parsed("psnr>20")], rows, {})  # a gate says what counts


@pytest.mark.parametrize("gate", ["psnr>100", "psnr>1e9", "psnr<20", "mse>0.1", "label-hit>1"])
def test_a_gate_that_a_perfect_copy_does_not_cross_is_refused(tmp_path, gate):
    with pytest.raises(BadOption, match="never crossed"):
        audit(from_tables(UPDATES), RunFolder(tmp_path / "A"), work=1, fail_if=[gate])
    assert not (tmp_path / "A" / "rounds.jsonl").exists()


def test_secure_aggregation_hides_a_sample_among_its_own_clients_only(tmp_path):
    secret = from_tables(merged(UPDATES, {"federation": {"secagg": True, "rounds": 1}}))
    assert together(secret) == 2 and in_message(secret, Cell(1)) == 2
    chosen = cell_scenario(secret, Cell(1))
    assert chosen.federation.clients == 2 * (29 + 3)  # sums, and 6 samples of planted clients
    means = Means(Starts(tmp_path / "starts"), one_by_one, math.inf)
    probe = exposed_cell(secret, Cell(1), RunFolder(tmp_path / "cell"), means)
    assert len(probe.planted) == 3 and len(probe.recording.updates) == 29 and probe.samples == 2
    apart, _ = load_folder(tmp_path / "cell" / "clients" / "observations")
    sums, _ = load_folder(tmp_path / "cell" / "observations")
    assert len(sums) == 32
    for key, value in sums[0].received.items():
        mean = (apart[0].received[key] + apart[1].received[key]) / 2
        torch.testing.assert_close(value, mean)
    assert len(probe.folder.truth_of(sums[0].name).y) == 2 and sums[0].batch_size == 2
    again = exposed_cell(secret, Cell(1), RunFolder(tmp_path / "cell"), means)
    assert [seen.name for seen in again.recording.updates] == [
        seen.name for seen in probe.recording.updates
    ]


def test_nobody_owns_a_sample_behind_a_sum():
    rows = [score(0, **{"traced-hit": 1.0, "traced-hit-blind": 0.0}), score(1, claim="owner")]
    assert without_owners(rows) == [score(0)]


def test_what_no_gate_asks_about_is_said(tmp_path):
    loud = {"name": "loud", "plugins": [{"name": "noise", "scale": 10.0}]}
    short = {
        "attacks": [{"name": "linear"}],
        "federation": {"rounds": 1},
        "defences": [loud],  # one in place of the ladder's dozen
    }
    found = audit(
        from_tables(merged(UPDATES, short)),
        RunFolder(tmp_path / "A"),
        work=1,
        fail_if=["ssim>0.99999"],
    )
    leaks = {one["claim"] for one in found["besides"] if one["word"] == "leaks"}
    assert "labels" in leaks and "No gate asks about it" in found["sentence"]


def test_the_same_attack_runs_once():
    scenario = from_tables(merged(UPDATES, {"attacks": [{"name": "linear"}, {"name": "linear"}]}))
    labels = [method.label for method in standing(scenario, scenario.attacks)]
    assert labels.count("linear") == 1 and len(labels) == len(set(labels))


def test_an_attack_that_only_says_that_it_knows_a_plugin_is_read_from_its_row(monkeypatch):
    row = replace(ATTACKS["quick"], knows=(HOUSE,))
    monkeypatch.setitem(ATTACKS._rows, "house-aware", row)
    scenario = from_tables(merged(UPDATES, {"plugins": [{"name": HOUSE}]}))
    assert not doubts.of_knowledge(scenario)
    assert "house-aware" in {method.name for method in standing(scenario)}


@pytest.mark.parametrize("scale", [0.0, 10.0])
def test_no_step_is_saved_where_all_of_them_find_nothing(tmp_path, scale):
    """A search that fails with all its steps fails as well with a few: that says nothing."""
    loud = from_tables(merged(UPDATES, {"plugins": [{"name": "noise", "scale": scale}]}))
    means = Means(Starts(tmp_path / "starts"), lambda tasks, end: [], math.inf)
    probe = exposed_cell(loud, Cell(1), RunFolder(tmp_path / "cell"), means)
    method = Method("adam+cosine", {"steps": 1600})
    trial = TrialTask(probe.folder.path, method, probe.planted)(go_on)
    assert len(trial.whole) == len(trial.blind) == 6
    assert trial.works is (scale == 0.0) and (trial.part < 1) is (scale == 0.0)
    said = saved_steps({"round-1": {"adam+cosine": trial.plain()}})
    assert ("of 1600 steps" in said) is (scale == 0.0)


def private_cell(folder: Path) -> Probe:
    plugins = [{"name": "dp", "noise-multiplier": 0.5, "samples": 20}]
    private = from_tables(merged(UPDATES, {"plugins": plugins, "training": {"batch-size": 6}}))
    means = Means(Starts(folder / "training"), one_by_one, math.inf)
    return exposed_cell(private, Cell(1), RunFolder(folder / "cell"), means)


def test_attacks_look_for_all_the_samples_of_a_private_client(tmp_path):
    """Its weight is 1 under dp. An attack that takes this for a count looks for one sample."""
    probe = private_cell(tmp_path)
    assert probe.samples == 6 and not uncounted(probe)


def test_a_count_that_clients_hide_leaves_an_audit_undecided(tmp_path):
    probe = private_cell(tmp_path)
    few = [replace(seen, num_examples=1, batch_size=1) for seen in probe.recording.updates]
    hidden = replace(probe, recording=replace(probe.recording, evidence=few))
    assert "look for 1 samples of a client, and clients use" in uncounted(hidden)


def first_batches(hits=0):
    """What a server that is told more draws of one batch of 34 clients, 16 samples each."""
    drawn = {(node, 0) for node in range(hits)}
    about = {"run": "round-1-batch-own-told", "psnr-blind": 10.0}
    return [
        score(node, 25.0 if (node, sample) in drawn else 12.0 + sample % 2, **about)
        | {"victim": f"{node}-{sample}"}
        for node in range(34)
        for sample in range(16)
    ]


@pytest.mark.parametrize("hits", [0, 3])
def test_one_batch_of_a_client_says_nothing_about_all_of_its_samples(hits):
    """A client has many batches. None of one drawn is no bound on clients with a sample drawn."""
    (one,) = holding(Found(rows=first_batches(hits)), [parsed("psnr>20")])
    assert one.word == "holds" and one.unit == "sample"
    assert "clients have a sample" not in bound(one) and "of samples can be drawn" in bound(one)


def test_a_server_that_was_asked_nothing_bounds_nothing():
    (one,) = outcomes([parsed("psnr>20")], first_batches())
    assert one.word == "holds" and indirect(one, []).word == "undecided"
    unmeasured = [{**row, "psnr": ""} for row in first_batches()]
    assert indirect(one, [first_batches(), unmeasured]).word == "undecided"


def test_hits_of_a_better_informed_server_are_never_shown_without_their_reason():
    """ "3 of 544 above 20 dB" in green must say that they are of a server that is told more."""
    (one,) = holding(Found(rows=first_batches(3)), [parsed("psnr>20")])
    audited = {"questions": [one.plain()], "doubts": [], "coverage": [], "told": ["sample"]}
    (card,) = kinds_of_audit(audited)
    assert card.light == "green" and "told more" in card.beside


def test_a_leak_by_a_gate_alone_is_no_less_a_leak_than_one_by_the_default_bound():
    """17 dB leaks by `psnr>16` and not by 20 dB: the updates themselves decide by the gate."""
    gates = [parsed("psnr>16")]
    told = Found(rows=first_batches())
    direct = Found(rows=[score(0, 17.0, run="round-1-batch-own")])
    held = holding(told, gates)
    assert [one.word for one in held] == ["holds"]
    found = both(told, direct, held, gates)
    assert [one.word for one in answered(gates, found.rows, held)] == ["leaks"]


def test_what_several_private_steps_say_together_is_not_claimed():
    (one,) = holding(Found(rows=first_batches()), [parsed("psnr>20")])
    assert "several steps" in told_more([one], again=True)
    assert "several steps" not in told_more([one])
