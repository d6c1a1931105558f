"""A server that runs secure aggregation wants one client's update out of the sum."""

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from real_clients import TERMS, asked_for

from fedpriv.clients.app import app
from fedpriv.scenario.built import first_state
from fedpriv.simulations.federation.backends import InlineBackend
from fedpriv.simulations.federation.contexts import contexts_of
from fedpriv.simulations.federation.grid import SimulationGrid
from fedpriv.strategies.secagg import secured
from fedpriv.wire import record_of

SUMS = asked_for(
    federation={"clients": 3, "rounds": 2, "secagg": True}, training={"local-steps": 1}
)


class Cheating(SimulationGrid):
    """A grid on which the server changes what it asks in a stage of the protocol."""

    cheat = staticmethod(lambda asked: None)

    def answered(self, message):
        if RECORD_KEY_CONFIGS in message.content.config_records:
            self.cheat(message.content.config_records[RECORD_KEY_CONFIGS])
        reply = super().answered(message)
        self.seen.append(reply)
        return reply


def clients_in(folder, scenario):
    """Real clients whose owners want sums."""
    backend = InlineBackend()
    backend.build(lambda: app)
    found = Cheating(backend, contexts_of(scenario, {"scenario": scenario.text()}))
    found.seen = []
    for number, context in enumerate(found.contexts.values()):
        own = folder / str(number)
        own.mkdir()
        (own / "terms.toml").write_text(TERMS + "secagg = true\n")
        count = scenario.federation.clients
        facts = {"partition-id": number, "num-partitions": count, "state-folder": str(own)}
        context.node_config = facts
    return found


@pytest.fixture
def grid(tmp_path):
    return clients_in(tmp_path, SUMS)


def sums(grid, server_round=1, scenario=SUMS):
    """How many clients are in the sum of a round, and why others are not."""
    records = {
        "arrays": record_of(first_state(scenario)),
        "config": ConfigRecord({"server-round": server_round}),
    }
    messages = [Message(RecordDict(records), node, "train") for node in grid.get_node_ids()]
    replies = list(secured(grid, scenario).send_and_receive(messages))
    reasons = [reply.error.reason for reply in grid.seen if reply.has_error()]
    return sum(not reply.has_error() for reply in replies), reasons


def test_real_clients_add_up_once_a_round(grid):
    assert sums(grid, 1) == (3, [])
    count, reasons = sums(grid, 1)
    assert count == 0 and all("round 1" in reason for reason in reasons)
    assert sums(grid, 2)[0] == 3


def test_both_shares_of_a_client_are_not_given(grid):
    """With both, its mask is gone: the server calls the victim alive and dead."""

    def both(asked):
        if asked[Key.STAGE] == Stage.UNMASK:
            asked[Key.DEAD_NODE_ID_LIST] = list(asked[Key.ACTIVE_NODE_ID_LIST])[:1]

    grid.cheat = both
    count, reasons = sums(grid)
    assert count == 0 and len(reasons) == 3
    assert all("never both" in reason for reason in reasons)


@pytest.mark.parametrize("threshold", [0, 1, -5, True])
def test_a_threshold_that_one_share_reaches_is_refused(grid, threshold):
    def low(asked):
        if asked[Key.STAGE] == Stage.SETUP:
            asked[Key.THRESHOLD] = threshold

    grid.cheat = low
    count, reasons = sums(grid)
    assert count == 0 and all("threshold" in reason for reason in reasons)


@pytest.mark.parametrize("clients", [4, 6])
def test_two_halves_are_not_told_two_stories(tmp_path, clients):
    """One half gives shares of a victim's own mask, the other half those of its key.

    Each half has as many shares as a threshold of half needs. Nobody gave both shares, and yet
    the server has both secrets of the victim.
    """
    scenario = asked_for(
        federation={"clients": clients, "rounds": 2, "secagg": True}, training={"local-steps": 1}
    )
    grid, asked_at_first, stories = clients_in(tmp_path, scenario), [], []

    def two_stories(asked):
        if asked[Key.STAGE] == Stage.SETUP:
            asked_at_first.append(asked[Key.THRESHOLD])
        if asked[Key.STAGE] == Stage.UNMASK:
            alive = list(asked[Key.ACTIVE_NODE_ID_LIST])
            stories.append(len(stories) >= clients // 2)  # the victim is the first to be asked
            if stories[-1]:
                asked[Key.ACTIVE_NODE_ID_LIST] = alive[1:]
                asked[Key.DEAD_NODE_ID_LIST] = alive[:1]

    grid.cheat = two_stories
    sums(grid, 1, scenario)
    least = min(asked_at_first)
    assert len(stories) == clients and stories.count(True) < least
    assert stories.count(False) < least

    def half(asked):
        if asked[Key.STAGE] == Stage.SETUP:
            asked[Key.THRESHOLD] = clients // 2

    grid.cheat = half
    grid.seen.clear()
    count, reasons = sums(grid, 2, scenario)
    assert count == 0 and all("more than half" in reason for reason in reasons)


def test_a_peers_mask_is_not_added_twice(grid):
    """2^k times the same mask, modulo 2^32, leaves the last k bits of an update bare."""

    def twice(asked):
        if asked[Key.STAGE] == Stage.COLLECT_MASKED_VECTORS:
            for name in (Key.CIPHERTEXT_LIST, Key.SOURCE_LIST):
                asked[name] = [value for value in asked[name] for _ in range(2)]

    grid.cheat = twice
    count, reasons = sums(grid)
    assert count == 0 and len(reasons) == 3
    assert all("added once" in reason for reason in reasons)


@pytest.mark.parametrize("values", [1, 3, 2**33, -4, True])
def test_numbers_that_no_mask_covers_evenly_are_refused(grid, values):
    def other(asked):
        if asked[Key.STAGE] == Stage.SETUP:
            asked[Key.MOD_RANGE] = values

    grid.cheat = other
    count, reasons = sums(grid)
    assert count == 0 and all("a power of 2" in reason for reason in reasons)
