"""Who is asked about: members and held-out samples that nothing but the training tells apart."""

import math
from collections import Counter

import pytest
import torch
from worlds import UPDATES

from fedpriv.evidence.truth import Truth
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.scenario.built import training_samples
from fedpriv.simulations.audit.series import MEMBERS, asking
from fedpriv.simulations.judging.held import Held, drawn, outsiders, own_samples

WORLD = merged(
    UPDATES,
    {"data": {"options": {"train": 400, "test": 80}}, "federation": {"clients": 4}},
)


def held(scenario) -> Held:
    """Four clients that used a hundred samples each."""
    y = training_samples(scenario)[1]
    empty = torch.zeros(100, 0)
    about = {"x": empty, "trained": empty, "clean": math.nan, "added": math.nan, "round": 1}
    parts = torch.arange(400).split(100)
    truths = [Truth(y=y[p], indices=p, node=n, **about) for n, p in enumerate(parts)]
    return Held(truths, classes=int(y.max()) + 1)


def pairs(candidates, key, inside: bool) -> Counter:
    """Labels with suspects, of members or of the others."""
    mine = (key.owner >= 0) == inside
    return Counter(zip(candidates.y[mine].tolist(), candidates.suspect[mine].tolist(), strict=True))


@pytest.mark.parametrize(("members", "each"), [(None, 1), (60, 1), (240, 4), (1000, 6)])
def test_neither_label_nor_client_tells_members_from_others(members, each):
    asked = {} if members is None else {"members": members}
    scenario = from_tables(merged(WORLD, {"inference": asked}))
    candidates, key = drawn(scenario, held(scenario))
    inside, outside = pairs(candidates, key, True), pairs(candidates, key, False)
    assert inside == Counter({pair: each * count for pair, count in outside.items()})
    assert inside.total() <= (members or 1000) and outside.total() > 20
    numbers = key.numbers[key.owner >= 0]
    assert len(numbers.unique()) == len(numbers)  # each member once
    owners = key.owner[key.owner >= 0]
    assert torch.equal(owners, candidates.suspect[key.owner >= 0])
    assert torch.equal(numbers // 100, owners)


def test_held_out_samples_are_shared_with_the_attacker():
    """Nobody's sample is both a candidate and the attacker's own."""
    for asked, part in (({}, 0.5), ({"members": 400}, 0.75)):
        mine, own = outsiders(from_tables(merged(WORLD, {"inference": asked})))
        assert len(mine) == part * (len(mine) + len(own))
        assert not set(mine.tolist()) & set(own.tolist())


def test_candidates_of_an_audit_are_not_what_a_later_attacker_has_itself(tmp_path):
    """An audit asks about all members. Its folder says nothing of that, and is attacked again."""
    asked = from_tables(merged(WORLD, {"inference": {"members": 400}}))
    folder, plain = RunFolder(tmp_path), from_tables(WORLD)
    candidates, key = drawn(asked, held(asked))
    whole = own_samples(plain, folder)
    key.save(folder.key_file)
    candidates.save(folder.candidates_file)
    own = own_samples(plain, folder)
    assert torch.cat([candidates.x, whole.x]).unique(dim=0).shape[0] < len(candidates.x) + len(
        whole.x
    )
    assert len(torch.cat([candidates.x, own.x]).unique(dim=0)) == len(candidates.x) + len(own.x)
    assert 0 < len(own.y) < len(whole.y)


def test_an_audit_asks_about_all_members_that_its_units_have_room_for():
    scenario = from_tables(merged(WORLD, {"inference": {"candidates": 100}}))
    assert asking(scenario, 10**9, 8).inference.members == 400 <= MEMBERS
    assert asking(scenario, 8 * 20 * 100, 8).inference.members == 100
    assert asking(scenario, 1000, 8) == scenario  # as many as it asks about anyway
    given = from_tables(merged(WORLD, {"inference": {"members": 10}}))
    assert asking(given, 10**9, 8) == given
