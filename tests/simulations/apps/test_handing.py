"""Single steps that an attacker is handed: exact, alone, and with nothing else in them."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from fedpriv.clients.noticing import Eyes, Notes
from fedpriv.evidence.claims import Public
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.truth import Truth
from fedpriv.metrics.gates import Gate
from fedpriv.metrics.rates import SHARE, mean_at_most
from fedpriv.runfolder import RunFolder
from fedpriv.simulations.apps.attempts import Tried
from fedpriv.simulations.apps.concluding import doubts_of, lines, of_single_steps
from fedpriv.simulations.apps.handing import (
    Handed,
    handed,
    hopeless,
    single_steps,
    unproven,
    why_open,
)
from fedpriv.simulations.apps.spending import Mechanism
from fedpriv.simulations.apps.watching import Watched
from fedpriv.simulations.audit.trials import Trial
from fedpriv.simulations.judging.outcome import Outcome
from fedpriv.simulations.judging.sums import joined


def federation(folder, clients=4, samples=40, batch=12):
    """Clients of two Adam epochs with dropout, of which nothing may be left in a single step."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3))
    sent = {key: value.clone() for key, value in net.state_dict().items()}
    seen = []
    for node in range(clients):
        x, y = torch.rand(samples, 6), torch.randint(3, (samples,))
        Truth(
            x=x,
            trained=x,
            y=y,
            indices=torch.arange(samples),
            clean=0.0,
            added=0.0,
            round=1,
            node=node,
        ).save(folder.truth)
        seen.append(
            Observation(
                sent=sent,
                received=sent,
                classes=3,
                input_shape=(6,),
                lr=0.01,
                optimiser="adam",
                dropout=0.5,
                local_steps=4,
                batch_size=batch,
                num_examples=samples,
                round=1,
                node=node,
                model=net,
                unknown=("momentum",),
            )
        )
    return net, seen


def test_a_single_step_is_the_exact_gradient_of_a_clients_first_batch(tmp_path):
    net, seen = federation(RunFolder(tmp_path))
    steps = list(single_steps(seen, RunFolder(tmp_path), None))
    assert {one.node for one, _ in steps} == {0, 1, 2, 3}
    for one, truth in steps:
        assert (one.local_steps, one.batch_size, one.num_examples) == (1, 12, 12)
        assert (one.optimiser, one.dropout, one.unknown) == ("sgd", 0.0, ())
        net.load_state_dict(one.sent)
        loss = nn.functional.cross_entropy(net(truth.x), truth.y)
        own = torch.autograd.grad(loss, list(net.parameters()))
        for (key, _), gradient in zip(net.named_parameters(), own, strict=True):
            torch.testing.assert_close(-one.delta[key], gradient, atol=1e-6, rtol=1e-4)


def test_nobody_is_handed_more_samples_than_searches_take(tmp_path):
    _, seen = federation(RunFolder(tmp_path), samples=80, batch=80)
    steps = list(single_steps(seen, RunFolder(tmp_path), None))
    assert [one.batch_size for one, _ in steps] == [16] * 4


@pytest.mark.parametrize(("clients", "attacked", "hits"), [(30, 30, 2), (45, 40, 18)])
def test_so_many_clients_are_handed_that_a_few_hits_are_within_the_bound(
    tmp_path, clients, attacked, hits
):
    _, seen = federation(RunFolder(tmp_path), clients=clients)
    steps = list(single_steps(seen, RunFolder(tmp_path), None))
    assert len({one.node for one, _ in steps}) == len(steps) == attacked
    shares = [1 / 16] * hits + [0.0] * (attacked - hits)
    assert mean_at_most(shares) <= SHARE < mean_at_most([*shares[1:], 2 / 16])


def test_behind_a_sum_every_client_is_handed_with_its_own_samples(tmp_path):
    folder = RunFolder(tmp_path)
    _, seen = federation(folder)
    total = replace(seen[0], node=4, batch_size=80)
    joined([folder.truth_of(one.name) for one in seen], total, 4).save(folder.truth)
    steps = list(single_steps([total], folder, 12, summed=True))
    assert {one.node for one, _ in steps} == {0, 1, 2, 3}
    for one, truth in steps:
        assert one.batch_size == 12
        torch.testing.assert_close(truth.x, folder.truth_of(f"1-{one.node}").x[:12])


def of_twelve(folder, public):
    _, seen = federation(folder, clients=12, samples=80, batch=32)
    watched = Watched(folder.truth, Eyes())
    return handed(seen, folder, watched, [], "theirs", public, lambda part, loss: True)


def test_more_clients_follow_where_the_first_few_have_no_hit(tmp_path):
    folder = RunFolder(tmp_path)
    found = of_twelve(folder, None)
    assert (found.outcome.clients, found.outcome.victims, found.outcome.hits) == (12, 192, 0)
    assert found.outcome.word == "undecided" and "12 clients without a hit" in found.sentence
    said = (tmp_path / "single-steps-16/attacks/strongest/attacked.json").read_text("utf-8")
    assert '"only"' in said  # the second search does not race again


def test_where_the_attack_is_worse_than_a_blind_guess_smaller_parts_follow(tmp_path):
    public = Public(torch.rand(100, 6), torch.randint(3, (100,)))
    of_twelve(RunFolder(tmp_path), public)
    first = tmp_path / "single-steps-16" / "observations"
    assert len(list(first.glob("*.json"))) == 8  # a few clients show it
    assert (tmp_path / "single-steps-8").exists()


def trained(epochs=1, net=None, dropout=0.0):
    x = torch.rand(40, 6)
    return Notes(
        x=[*x.split(20)] * epochs,
        training={True},
        dropout=dropout,
        chain=[(net or nn.Tanh(), (6,))],
    )


@pytest.mark.parametrize(
    ("notes", "private", "why"),
    [
        (trained(), [], ""),
        (trained(), [Mechanism(1.0, 1.0, 1.0, False, epsilon=3.0)], ""),  # noise on the update
        (trained(epochs=2), [], "more than once"),
        (trained(dropout=0.5), [], "drop units"),
        (trained(net=nn.Sequential(nn.BatchNorm1d(6))), [], "batch norm keeps"),
        (
            trained(net=nn.Sequential(nn.BatchNorm1d(6, track_running_stats=False))),
            [],
            "batch norm mixes",
        ),
        (trained(), [Mechanism(1.0, 1.0, 0.1, True)], "Opacus"),
    ],
)
def test_single_steps_decide_where_updates_say_no_more(notes, private, why):
    found = why_open([trained(), notes], private)
    assert bool(found) == bool(why) and why in found


def test_what_single_steps_do_not_decide_stays_open_although_the_attack_fails():
    unsure = Handed(outcome("holds"), 32, open="samples enter twice")
    assert not unsure.holds and "decides nothing about updates: samples" in unsure.sentence


def outcome(word, hits=0, most=None):
    return Outcome("sample", "psnr", 20.0, word, 64, 2, hits, 0.0, 0.1, 0.1, most=most)


HOLDS, SOME = outcome("holds"), outcome("holds", 2, 0.09)
MANY = outcome("undecided", 4, 0.23)


@pytest.mark.parametrize(
    ("found", "holds"), [(HOLDS, True), (SOME, True), (MANY, False), (outcome("undecided"), False)]
)
def test_only_a_bound_from_single_steps_leaves_no_doubt(found, holds):
    member = Outcome("member", "member-hit", None, "holds", 64, 2, 0, 0.0, 0.1, 0.1)
    own = [found] if holds else []
    doubts = doubts_of(Tried(), [member, *own], True, 3, [], Handed(found, 32))
    assert (not doubts) == holds
    if found is MANY:
        assert "recovers 4 of 64 samples from single steps of 32" in doubts[0]
        assert "at most 23.0% of all samples" in doubts[0] and "10% are allowed" in doubts[0]
        assert "from whole updates was not tested" in doubts[0]


@pytest.mark.parametrize("found", [HOLDS, SOME, MANY])
def test_what_single_steps_showed_is_a_row_of_the_verdict(found):
    alone = Handed(found, 32)
    (row,) = of_single_steps(alone)
    assert (row.claim, row.word, row.hits, row.why) == (
        "sample",
        found.word,
        found.hits,
        alone.sentence,
    )
    tested = [line for line in lines(Tried(), alone) if line.state == "tested"]
    assert [(line.claim, line.threat) for line in tested] == [
        ("sample", "someone who is handed single steps of 32 samples")
    ]


def test_more_clients_follow_while_a_bound_is_possible():
    assert not hopeless([0.0] * 8) and not hopeless([1 / 32] * 8)
    assert hopeless([1.0]) and hopeless([0.9] * 8)


def scored(*decibels):
    return [
        {"attack": "strongest", "node": n, "victim": n, "psnr": value, "psnr-blind": 12.0}
        for n, value in enumerate(decibels)
    ]


def test_an_attack_that_beats_a_blind_guess_nowhere_proves_nothing():
    gate, no_better = Gate("psnr", True, 20.0), scored(11.0, 13.0, 10.5, 13.5)
    fails = Trial(whole=(9.0, 9.5, 9.2), blind=(12.0, 11.9, 12.1))
    works = Trial(whole=(15.0, 15.5, 15.2), blind=(12.0, 11.9, 12.1))
    assert "neither on clients nor on planted samples" in unproven(fails, gate, no_better)
    assert not unproven(works, gate, no_better)
    assert not unproven(fails, gate, scored(14.0, 14.5, 14.2, 13.9))
    assert not unproven(None, gate, no_better)


def test_a_step_that_cannot_decide_is_searched_for_a_short_time_only(tmp_path):
    _, seen = federation(RunFolder(tmp_path), clients=3)
    watched = Watched(RunFolder(tmp_path).truth, Eyes(), notes=[trained(epochs=2)])
    found = handed(seen, RunFolder(tmp_path), watched, [], "theirs", None, lambda part, loss: True)
    assert "more than once" in found.open and not found.holds and found.trial is None
    said = next(tmp_path.glob("single-steps-*/attacks/strongest/attacked.json")).read_text("utf-8")
    assert '"steps": 150' in said and '"polish": 0' in said
