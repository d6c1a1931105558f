"""Pruning shares the largest elements of an update, as they are, and nothing else."""

import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict

from fedpriv.clients.app import app
from fedpriv.clients.plugins.pruning import keep_largest, keep_largest_of_all
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import first_state
from fedpriv.wire import record_of, state_in

FRACTION = 0.25


def update_of(tables, plugins):
    """What a client's training adds to the model it was sent, all parameters by name."""
    scenario = from_tables({**tables, "plugins": plugins})
    start = first_state(scenario)
    content = RecordDict({"arrays": record_of(start), "config": ConfigRecord({"server-round": 1})})
    context = Context(
        run_id=1,
        node_id=2,
        node_config={"partition-id": 0, "secret-seed": 5},
        state=RecordDict(),
        run_config={"scenario": scenario.text()},
    )
    reply = app(Message(content, 2, "train"), context)
    assert not reply.has_error(), reply.error.reason
    received = state_in(reply.content["arrays"])
    return {name: received[name] - value for name, value in start.items()}


def test_a_worked_example():
    values = torch.tensor([0.1, -5.0, 2.0, -0.3, 4.0, 0.0])
    assert keep_largest(values, 1 / 3).tolist() == [0, -5, 0, 0, 4, 0]
    assert keep_largest(values, 1 / 2).tolist() == [0, -5, 2, 0, 4, 0]


def test_one_threshold_for_all_parameters():
    update = {"small": torch.tensor([0.1, -0.2]), "large": torch.tensor([[3.0], [-4.0]])}
    kept = keep_largest_of_all(update, 1 / 2)
    assert kept["small"].tolist() == [0, 0]
    assert kept["large"].tolist() == [[3], [-4]]


@pytest.mark.parametrize("scope", ["layer", "global"])
def test_a_client_sends_the_largest_changes_unchanged(tiny, scope):
    plain = update_of(tiny.plain(), [])
    pruned = update_of(tiny.plain(), [{"name": "pruning", "fraction": FRACTION, "scope": scope}])
    groups = [[name] for name in plain] if scope == "layer" else [list(plain)]
    for names in groups:
        before = torch.cat([plain[name].flatten() for name in names])
        after = torch.cat([pruned[name].flatten() for name in names])
        sent = after != 0
        assert sent.sum() == pytest.approx(FRACTION * len(after), abs=1)
        torch.testing.assert_close(after[sent], before[sent], rtol=0, atol=1e-7)
        assert before[sent].abs().min() >= before[~sent].abs().max() - 1e-7
