"""Searches side by side find what each finds alone, from fewer and larger evaluations."""

import pytest
import torch

from fedpriv.attacks.inversion.lockstep import groups, side_by_side
from fedpriv.attacks.inversion.race import quality, race
from fedpriv.attacks.inversion.recipes import exact, inversion
from fedpriv.engine.aimed import Aimed
from fedpriv.errors import BadObservation
from fedpriv.evidence.victims import stack

from .test_race import trained

SEARCH = {"signed": True, "schedule": "cosine", "box": True, "steps": 12}
UNLIKE = {
    "steps": inversion(steps=13),
    "labels": inversion(steps=12, labels="joint"),
    "distance": inversion(steps=12, distance="l2"),
    "restarts": inversion(steps=12, restarts=2),
    "stops": inversion(steps=12, patience=20),
    "line search": inversion(steps=12, optimiser="lbfgs"),
    "other kind": exact(steps=12),
}


def searches(**more):
    """Three that share evaluations though signs, priors, step sizes and resolutions differ."""
    return {
        "signed": inversion(**SEARCH, tv=0.01, **more),
        "coarse": inversion(**SEARCH, tv=0.1, coarse=2, **more),
        "unsigned": inversion(**{**SEARCH, "signed": False}, norm=0.01, lr=0.05, **more),
    }


def assert_same(victims, attacks):
    for claim, attack in zip(side_by_side(attacks, victims), attacks, strict=True):
        alone = attack(victims)
        torch.testing.assert_close(claim.x, alone.x, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(claim.loss, alone.loss, rtol=1e-3, atol=1e-4)
        assert torch.equal(claim.labels, alone.labels) and claim.names == alone.names
        assert claim.extra == alone.extra


def test_each_finds_what_it_finds_alone(seen):
    assert_same(stack(seen[0]), list(searches().values()))


def test_also_on_the_general_path(seen):
    assert_same(stack(seen[0], fast=False), list(searches().values()))


def test_also_through_a_replay_of_local_steps():
    one, _, _ = trained()
    assert_same(stack([one]), list(searches(replay=True).values()))


def test_labels_that_are_searched_for_are_no_obstacle(seen):
    assert_same(stack(seen[0]), [inversion(steps=5, labels="joint", tv=tv) for tv in (0, 0.1)])


def test_one_evaluation_serves_all(seen, monkeypatch):
    rows, plain = [], Aimed.__call__

    def counted(self, x, t):
        rows.append(len(x))
        return plain(self, x, t)

    monkeypatch.setattr(Aimed, "__call__", counted)
    victims = stack(seen[0])
    race(victims, searches(), controls=2, most=12)
    assert rows == 13 * [3 * 2] + 13 * [2]  # all three, and then the best, whose steps are 12


def test_a_stop_leaves_what_was_found(seen):
    victims = stack(seen[0])
    found = side_by_side(list(searches().values()), victims, lambda part, loss: part < 0.5)
    assert all(claim.partial and len(claim.x) == len(victims) for claim in found)
    assert [claim.extra["steps"] for claim in found] == [11, 11, 11]


@pytest.mark.parametrize("name", UNLIKE)
def test_others_are_alone(name):
    attacks = {**searches(), name: UNLIKE[name]}
    assert groups(attacks, rows=2, fit=100) == [list(searches()), [name]]


def test_a_group_fits_the_memory():
    assert groups(searches(), rows=2, fit=5) == [["signed", "coarse"], ["unsigned"]]
    assert [len(group) for group in groups(searches(), rows=4, fit=3)] == [1, 1, 1]


def test_one_that_cannot_take_part_leaves_the_others_in(seen):
    ranking = race(stack(seen[0]), {"wrong": refused, **searches()}, controls=2, most=12)
    assert ranking.places[-1].name == "wrong" and ranking.claim is not None
    assert quality(ranking.claim, ranking.truth).isfinite().all()


def refused(seen, progress):
    """An attack that these victims lack something for."""
    raise BadObservation("nothing to attack.")
