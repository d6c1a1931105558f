"""Whole federations and who was in them: over-fitted, shuffled, under dp, in sums."""

from pathlib import Path

import pytest
import torch
from rich.console import Console

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.metrics.membership import Exposure, auc_error, exposure, false_alarms, rank
from fedpriv.rng import generator
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.judging.conditions import row_of, why_not
from fedpriv.simulations.judging.judge import judged
from fedpriv.simulations.judging.shadows import shadow_of

# Patterns of ten classes under strong noise: a model learns the noise by heart. Noise and width
# were chosen with seed 3, after half the noise had left 29.8 % found. With the ten seeds from 101
# on, which nobody had tried, member-difference finds 42 to 65 %.
OVERFITTED = {
    "name": "overfitted",
    "seed": 101,
    "keep-truth": "numbers",
    "data": {
        "name": "synthetic",
        "reserve": 900,
        "options": {"train": 1500, "test": 300, "size": 8, "classes": 10, "noise": 1.0},
    },
    "model": {"name": "mlp", "hidden": [128]},
    "training": {"lr": 0.1, "momentum": 0.9, "batch-size": 40},
    "federation": {"clients": 3, "rounds": 60, "backend": "inline"},
    "inference": {"candidates": 800},
}


def attacked(tables, path, names):
    """A run, attacked; the scores of each attack, and who was in."""
    tables = merged(tables, {"attacks": [{"name": name} for name in names]})
    scenario, folder = from_tables(tables), RunFolder(path)
    simulate(scenario, folder, PlainLines(Console(quiet=True)))
    found = judged(folder, scenario)
    assert not found.failures
    scores = {name: next(iter(folder.claims(name))).scores[0] for name in names}
    return scores, folder.key().member, found


def figures(scores, member) -> Exposure:
    alarms = false_alarms(scores[member], scores[~member])
    ranks = rank(alarms, scores).tolist()
    return exposure(alarms[:, 1].tolist(), ranks, int((~member).sum()))


def members_alone(tables):
    """The attacks on membership that need no shadows and have something to do here."""
    scenario = from_tables(tables)
    return [
        name
        for name in ATTACKS
        if row_of(name).claims == "member"
        and "shadows" not in row_of(name).needs
        and why_not(name, scenario) is None
    ]


@pytest.fixture(scope="module")
def overfitted(tmp_path_factory):
    return attacked(OVERFITTED, tmp_path_factory.mktemp("over") / "run", members_alone(OVERFITTED))


def test_an_overfitted_federation_gives_its_members_away(overfitted):
    scores, member, found = overfitted
    assert figures(scores["member-difference"], member).found_low > 0.3  # surely, at 1 % FPR
    gap = {row["gap"] for row in found.rows if row["claim"] == "member"}
    assert min(gap) > 0.2  # beside every figure stands how over-fitted the model is


def test_with_shuffled_membership_every_attack_is_chance(overfitted):
    scores, member, _ = overfitted
    shuffled = member[torch.randperm(len(member), generator=generator(1, "shuffled"))]
    error = auc_error(0.5, int(shuffled.sum()), int((~shuffled).sum()))
    assert len(scores) >= 9
    for name, each in scores.items():
        assert abs(figures(each, shuffled).auc - 0.5) < 6 * error, name


def test_under_dp_with_an_epsilon_of_one_every_attack_is_chance(tmp_path):
    plugins = [{"name": "dp", "epsilon": 1.0, "max-grad-norm": 1.0}]
    tables = {**OVERFITTED, "plugins": plugins}
    tables["federation"] = {**OVERFITTED["federation"], "rounds": 8}
    scores, member, _ = attacked(tables, tmp_path / "dp", members_alone(tables))
    error = auc_error(0.5, int(member.sum()), int((~member).sum()))
    for name, each in scores.items():
        assert abs(figures(each, member).auc - 0.5) < 6 * error, name


def test_members_are_found_in_sums_too(tmp_path):
    tables = merged(OVERFITTED, {"federation": {"secagg": True, "rounds": 20}})
    names = members_alone(tables)
    assert "fedmia" not in names  # which compares clients
    scores, member, _ = attacked(tables, tmp_path / "sum", names)
    assert max(figures(each, member).auc for each in scores.values()) > 0.7


def test_shadows_have_the_rounds_that_were_seen():
    scenario = from_tables(OVERFITTED)
    shadow = shadow_of(scenario, Path("own.npz"), 0, [10, 20, 30])
    assert shadow.federation.rounds == 30
    assert shadow.attacks[0].rounds == (10, 20, 30)
    assert shadow.data.partition == "natural" and shadow.seed != scenario.seed


def test_shadow_federations_beat_the_loss_alone(tmp_path):
    names = ["member-loss", "lira", "lira-offline", "lira-pooled", "rmia", "member-calibrated"]
    tables = merged(OVERFITTED, {"federation": {"rounds": 6}, "inference": {"candidates": 400}})
    scores, member, _ = attacked(tables, tmp_path / "shadows", names)
    found = {name: figures(each, member).auc for name, each in scores.items()}
    assert found["lira-pooled"] > found["member-loss"]
    assert min(found.values()) > 0.5
    kept = sorted(
        path.name for path in (tmp_path / "shadows" / "shadows" / "rounds-1-6-6").iterdir()
    )
    assert kept == [f"{number}-of-4.npz" for number in range(4)]  # trained once, for all attacks
