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


def updates_of(tables, plugins, rounds=1):
    """What a client's training adds to the model, which it is sent anew in every round."""
    scenario = from_tables({**tables, "plugins": plugins})
    start = first_state(scenario)
    context = Context(
        run_id=1,
        node_id=2,
        node_config={"partition-id": 0, "secret-seed": 5},
        state=RecordDict(),
        run_config={"scenario": scenario.text()},
    )
    updates = []
    for server_round in range(1, rounds + 1):
        config = ConfigRecord({"server-round": server_round})
        content = RecordDict({"arrays": record_of(start), "config": config})
        reply = app(Message(content, 2, "train"), context)
        assert not reply.has_error(), reply.error.reason
        received = state_in(reply.content["arrays"])
        updates.append({name: received[name] - value for name, value in start.items()})
    return updates


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
    (plain,) = updates_of(tiny.plain(), [])
    pruning = {"name": "pruning", "fraction": FRACTION, "scope": scope}
    (pruned,) = updates_of(tiny.plain(), [pruning])
    groups = [[name] for name in plain] if scope == "layer" else [list(plain)]
    for names in groups:
        before = torch.cat([plain[name].flatten() for name in names])
        after = torch.cat([pruned[name].flatten() for name in names])
        sent = after != 0
        assert sent.sum() == pytest.approx(FRACTION * len(after), abs=1)
        torch.testing.assert_close(after[sent], before[sent], rtol=0, atol=1e-7)
        assert before[sent].abs().min() >= before[~sent].abs().max() - 1e-7


@pytest.mark.parametrize("feedback", [False, True])
def test_with_feedback_what_was_held_back_is_added_to_the_next_update(tiny, feedback):
    plain = updates_of(tiny.plain(), [], rounds=2)
    pruning = {"name": "pruning", "fraction": FRACTION, "feedback": feedback}
    pruned = updates_of(tiny.plain(), [pruning], rounds=2)
    for name in plain[0]:
        held = plain[0][name] - pruned[0][name]
        whole = plain[1][name] + held if feedback else plain[1][name]
        sent = pruned[1][name] != 0
        assert sent.sum() == pytest.approx(FRACTION * sent.numel(), abs=1)
        torch.testing.assert_close(pruned[1][name][sent], whole[sent], rtol=0, atol=1e-6)
