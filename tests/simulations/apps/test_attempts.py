"""Which attacks an app gets, and the reasons of those that it does not."""

import pytest
import torch
from torch import nn

from fedpriv.clients.noticing import Eyes
from fedpriv.evidence.observation import Observation
from fedpriv.simulations.apps.attempts import chosen
from fedpriv.simulations.apps.watching import Watched


@pytest.fixture
def left(tmp_path):
    """Attacks by why they are left out, for updates of 267 samples of ten clients."""
    net = nn.Linear(6, 3)
    state = net.state_dict()
    facts = {"classes": 3, "input_shape": (6,), "lr": 0.1, "batch_size": 32, "local_steps": 9}
    seen = Observation(sent=state, received=state, num_examples=267, **facts).on(net)
    todo, left = chosen(seen, 10, True, frozenset(), Watched(tmp_path, Eyes()))
    assert not set(todo) & set(left)
    return left | dict.fromkeys(todo, "")


@pytest.mark.parametrize(
    ("attack", "why"),
    [
        ("member-loss", ""),
        ("owner-cosine", ""),
        ("strongest", "267 samples are behind one update"),
        ("class-shares", "it trains clients of its own"),
        ("lira", "it trains clients of its own"),
        ("read-bins", "a malicious server changes the model"),
        ("member-matched", "nothing shows that clients use noise or dp"),
    ],
)
def test_an_attack_is_tried_or_left_out_for_its_own_reason(left, attack, why):
    assert left[attack] == why or (why and why in left[attack])


def test_samples_are_searched_where_few_are_behind_an_update(tmp_path):
    net = nn.Linear(6, 3)
    sent = net.state_dict()
    received = {key: value - torch.rand_like(value) for key, value in sent.items()}
    facts = {"classes": 3, "input_shape": (6,), "lr": 0.1, "batch_size": 1, "num_examples": 1}
    seen = Observation(sent=sent, received=received, **facts).on(net)
    todo, _ = chosen(seen, 10, False, frozenset(), Watched(tmp_path, Eyes()))
    assert "strongest" in todo and "member-loss" not in todo
