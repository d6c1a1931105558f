"""How many steps an attack on single steps takes: no more than planted samples need."""

import pytest
import torch
from torch import nn

from fedpriv.evidence.claims import Public
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import stack
from fedpriv.simulations.apps.settling import settled
from fedpriv.simulations.audit.trials import Ran, beats, fewest, lossless


def victims(count=4, width=8):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, width), nn.Sigmoid(), nn.Linear(width, 3))
    sent = {key: value.clone() for key, value in net.state_dict().items()}
    found = []
    for node in range(count):
        x, y = torch.rand(1, 12), torch.randint(3, (1,))
        loss = nn.functional.cross_entropy(net(x), y)
        gradients = dict(zip(sent, torch.autograd.grad(loss, list(net.parameters())), strict=True))
        found.append(
            Observation(
                sent=sent,
                received={key: value - gradients[key] for key, value in sent.items()},
                classes=3,
                input_shape=(12,),
                lr=1.0,
                local_steps=1,
                batch_size=1,
                num_examples=1,
                round=1,
                node=node,
                model=net,
            )
        )
    return found


def on(part, loss):
    return True


def test_the_trial_is_on_other_samples_than_those_that_are_attacked():
    public = Public(torch.rand(200, 12), torch.randint(3, (200,)))
    found = settled(victims(), public, on)
    assert len(found.trial.whole) >= 64  # planted, of one sample each
    assert found.trial.works  # an exact gradient of one sample gives it away
    assert found.options["only"]
    if found.trial.part < 1:  # what is saved loses next to nothing
        values = (torch.tensor(each) for each in (found.trial.whole, found.trial.taken))
        assert lossless(*values, torch.tensor(found.trial.blind))
        assert found.options["steps"] < 600 and found.options["polish"] < 600


def test_without_samples_of_the_kind_no_step_is_saved():
    found = settled(victims(), None, on)
    assert found.trial is None and set(found.options) == {"only"}


def test_an_attack_that_is_out_of_time_saves_no_step():
    public = Public(torch.rand(200, 12), torch.randint(3, (200,)))
    assert set(settled(victims(), public, lambda part, loss: False).options) == {"only"}


@pytest.mark.parametrize(("quality", "part"), [(lambda part: 20.0, 1 / 16), (lambda p: 20 * p, 1)])
def test_the_fewest_steps_that_lose_nothing_are_taken(quality, part):
    def run(of):
        return Ran(torch.full((64,), float(quality(of))), torch.full((64,), 10.0), of)

    assert fewest(run, lambda of: round(600 * of)).part == part


def test_an_attack_that_does_not_beat_a_blind_guess_keeps_all_its_steps():
    blind = torch.full((64,), 10.0)

    def run(part):
        return Ran(blind - 1, blind, part)

    assert not beats(blind - 1, blind)
    assert fewest(run, lambda part: round(600 * part)).part == 1.0


def test_victims_are_only_read_for_their_protocol():
    seen = victims()
    before = [value.clone() for value in stack(seen).delta.values()]
    settled(seen, None, on)
    after = stack(seen).delta.values()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
