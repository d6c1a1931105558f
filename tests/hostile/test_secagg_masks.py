"""A server that tries all masks of secure aggregation, or knows how numbers are rounded."""

import os

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.common import bytes_to_ndarray
from flwr.common.secure_aggregation.crypto.symmetric_encryption import generate_shared_key
from flwr.common.secure_aggregation.secaggplus_constants import (
    RECORD_KEY_CONFIGS,
    RECORD_KEY_STATE,
    Key,
)
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from flwr.supercore.primitives.asymmetric import bytes_to_private_key, bytes_to_public_key

from fedpriv.clients.app import app
from fedpriv.clients.protection.secagg import bridged
from fedpriv.errors import WorkFailed
from fedpriv.flower import FitIns, ndarrays_to_parameters, recorddict_compat
from fedpriv.masks import WIDEST, mask, masks_in
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import first_state
from fedpriv.simulations.federation.backends import InlineBackend
from fedpriv.simulations.federation.contexts import contexts_of
from fedpriv.simulations.federation.grid import SimulationGrid
from fedpriv.strategies.secagg import secured
from fedpriv.wire import content, record_of

SEED = bytes(range(32))


def same_fold(seed):
    """Another key that Flower folds to the same 32 bits: two of its words change places."""
    return seed[4:8] + seed[:4] + seed[8:]


def test_a_mask_has_more_than_32_bits():
    """The attack: Flower's masks are the same for all keys whose words have the same sum."""
    shapes = [(4,), (), (2, 3)]
    flowers, ours = pseudo_rand_gen(SEED, WIDEST, shapes), mask(SEED, WIDEST, shapes)
    assert [part.shape for part in ours] == shapes
    for part, other in zip(flowers, pseudo_rand_gen(same_fold(SEED), WIDEST, shapes), strict=True):
        assert (part == other).all()
    for part, other in zip(ours, mask(same_fold(SEED), WIDEST, shapes), strict=True):
        assert (part != other).all()
    for part, again in zip(ours, mask(SEED, WIDEST, shapes), strict=True):
        assert (part == again).all() and part.dtype == np.int64


def test_a_mask_is_uniform(chance_bound):
    (found,) = mask(SEED, 2**12, [(2**16,)])
    assert found.min() >= 0 and found.max() == 2**12 - 1
    bits = (found[:, None] >> np.arange(12)) & 1
    assert (abs(bits.mean(0) - 0.5) < chance_bound(len(found), tests=12) / 2).all()


def test_a_flower_without_its_generator_is_noticed():
    with pytest.raises(WorkFailed, match="makes other masks"):
        masks_in(os.path.join)


SUMS = from_tables(
    {
        "name": "sum",
        "seed": 3,
        "data": {"name": "synthetic"},
        "model": {"name": "mlp", "hidden": [16]},
        "training": {"lr": 0.1, "batch-size": 4, "local-steps": 1},
        "federation": {"clients": 3, "rounds": 1, "backend": "inline", "secagg": True},
    }
)


class Watching(SimulationGrid):
    """A grid that keeps what a server sees of the last client, and that client's keys."""

    def answered(self, message):
        reply = super().answered(message)
        asked = reply.content.config_records[RECORD_KEY_CONFIGS]
        node = message.metadata.dst_node_id
        if Key.MASKED_PARAMETERS in asked:
            self.sent = [bytes_to_ndarray(part) for part in asked[Key.MASKED_PARAMETERS]]
            self.keys = dict(self.contexts[node].state.config_records[RECORD_KEY_STATE])
        return reply


def without_masks(sent, keys, generator):
    """What a client sent, with its masks taken out by a generator that is given the true keys."""
    shapes, own = [part.shape for part in sent], bytes_to_private_key(keys["sk1"])
    total = generator(keys["rd_seed"], WIDEST, shapes)
    public = dict(zip(keys["public_keys_dict:K"], keys["public_keys_dict:V"][::2], strict=True))
    for node, key in public.items():
        if node != keys["nid"]:
            shared = generate_shared_key(own, bytes_to_public_key(key))
            parts = generator(shared, WIDEST, shapes)
            sign = 1 if keys["nid"] > node else -1
            total = [a + sign * b for a, b in zip(total, parts, strict=True)]
    return [(a - b) % WIDEST for a, b in zip(sent, total, strict=True)]


def test_clients_use_masks_of_256_bits():
    """Even with all keys, 32 bits of each do not unmask a client; whole keys do."""
    backend = InlineBackend()
    backend.build(lambda: app)
    grid = Watching(backend, contexts_of(SUMS, {"scenario": SUMS.text()}))
    records = {
        "arrays": record_of(first_state(SUMS)),
        "config": ConfigRecord({"server-round": 1}),
    }
    messages = [Message(RecordDict(records), node, "train") for node in grid.get_node_ids()]
    assert not any(r.has_error() for r in secured(grid, SUMS).send_and_receive(messages))
    top = 2**26  # rounded updates lie below; masked ones hardly ever do
    bare = np.concatenate([p.ravel() for p in without_masks(grid.sent, grid.keys, mask)[1:]])
    folded = without_masks(grid.sent, grid.keys, pseudo_rand_gen)
    assert (bare <= top).all()
    assert (np.concatenate([p.ravel() for p in folded[1:]]) > top).mean() > 0.9


def test_numbers_are_rounded_by_draws_of_their_own(tmp_path):
    """A forked process has its parent's generator: the same draws for every message."""
    state = first_state(SUMS)
    arrays = [value.numpy() for value in state.values() if value.is_floating_point()]
    asked = FitIns(ndarrays_to_parameters(arrays), {"server-round": 1})
    message = Message(recorddict_compat.fitins_to_recorddict(asked, True), 1, "train")
    message.metadata.__dict__["_message_id"] = "one"
    config = {"scenario": SUMS.text()}

    def draws(**node):
        context = Context(1, 1, {"partition-id": 0, **node}, RecordDict(), config)

        def inherited(plain, _):
            np.random.seed(0)
            return Message(
                content(state, metrics=MetricRecord({"num-examples": 7})), reply_to=plain
            )

        bridged(message, context, inherited)
        return np.random.rand(4).tolist()

    assert draws() != draws()
    assert draws(**{"secret-seed": 5}) == draws(**{"secret-seed": 5})
