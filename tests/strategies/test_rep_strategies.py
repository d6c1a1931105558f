"""Representation sharing end to end in this process, and what its messages hold."""

import json
from dataclasses import dataclass, field
from functools import lru_cache

import pytest
import torch
from flwr.app import Message, RecordDict
from shows import quiet

from fedpriv.clients.app import app as client
from fedpriv.clients.plugins.ars import mask_of
from fedpriv.clients.protection.secret import SeededForSimulation
from fedpriv.codes.parties import holding_of, task_labels
from fedpriv.codes.release import Published, Shared
from fedpriv.errors import BadOption, FedprivError
from fedpriv.evidence.folder import load_folder
from fedpriv.evidence.release import Release
from fedpriv.rng import seed_of
from fedpriv.runfolder import RunFolder, load_state
from fedpriv.scenario import Scenario, from_tables, merged
from fedpriv.simulations.checks import check
from fedpriv.simulations.federation.backends import InlineBackend
from fedpriv.simulations.federation.contexts import contexts_of
from fedpriv.simulations.federation.grid import SimulationGrid
from fedpriv.simulations.federation.run import simulate
from fedpriv.strategies.catalogue import strategy_of
from fedpriv.strategies.curious import Curious, Exchange
from fedpriv.strategies.recorder import Recorder
from fedpriv.strategies.roster import Roster
from fedpriv.strategies.rounds import Federated, array_bytes
from fedpriv.wire import ARRAYS, state_in

BASE = {
    "name": "codes",
    "seed": 3,
    "data": {"name": "synthetic", "options": {"train": 120, "test": 60, "size": 6}},
    "model": {"name": "mlp"},
    "federation": {"clients": 3, "rounds": 1, "backend": "inline", "strategy": "representation"},
    "representation": {
        "options": {"hidden": [16], "code": 6},
        "encoder-epochs": 8,
        "decoder-epochs": 3,
        "task-epochs": 15,
        "lr": 0.02,
        "batch-size": 20,
    },
}


def scenario_with(**changes) -> Scenario:
    return from_tables(merged(BASE, changes))


class Wire(SimulationGrid):
    """A grid that keeps every message and reply."""

    def __init__(self, scenario: Scenario) -> None:
        backend = InlineBackend()
        backend.build(lambda: client)
        super().__init__(backend, contexts_of(scenario, {"scenario": scenario.text()}))
        self.seen: list[tuple[Message, Message]] = []

    def answered(self, message: Message) -> Message:
        reply = super().answered(message)
        self.seen.append((message, reply))
        return reply


@dataclass
class World:
    """What everybody can see after a round: the public models, and every party's release."""

    parties: dict[int, Shared] = field(default_factory=dict)
    published: Published = field(default_factory=Published)

    @property
    def encoder(self):
        return self.published.encoder

    @property
    def classifiers(self):
        return self.published.classifiers


def federation(scenario: Scenario, world: World | None = None) -> tuple[Federated, Wire]:
    wire, roster = Wire(scenario), Roster(scenario.federation.clients)
    recorder = Recorder("unused", lambda server_round, examples: {}, name=roster.partition)

    def observe(exchange: Exchange) -> None:
        seen = recorder.evidence(exchange)
        if seen is not None and world is not None:
            world.parties[seen.node] = seen.shared

    return Federated(
        strategy=Curious(strategy_of(scenario, roster), observe),
        grid=wire,
        roster=roster,
        seed=scenario.seed,
        evaluate=lambda state: {},
    ), wire


def round_of(scenario: Scenario) -> tuple[World, dict, Wire]:
    """One round; the same scenario is run once only."""
    return _round(scenario.text())


@lru_cache(maxsize=64)
def _round(text: str) -> tuple[World, dict, Wire]:
    scenario, world = Scenario.of({"scenario": text}), World()
    run, wire = federation(scenario, world)
    state, record = run.one(1, {"first": torch.zeros(1)})
    world.published = Published.of(state)
    return world, record, wire


def tensors_on(wire: Wire) -> list[torch.Tensor]:
    contents: list[RecordDict] = []
    for message, reply in wire.seen:
        contents += [message.content, reply.content]
    return [
        value
        for content in contents
        for record in content.array_records.values()
        for value in state_in(record).values()
    ]


def test_one_round_publishes_an_encoder_pools_codes_and_learns_the_task():
    published, record, wire = round_of(scenario_with())
    kinds = [message.metadata.message_type for message, _ in wire.seen]
    assert kinds.count("train.encoder") == 1 and kinds.count("query.codes") == 3
    assert set(published.parties) == {0, 1, 2} and published.encoder
    assert record["accuracy"] > 0.9 and record["train-accuracy-clean"] > 0.9
    assert record["train-num-examples"] == 120 and record["asked"] == record["clients"] == 3


def test_the_largest_party_is_the_initiator_unless_one_is_chosen():
    def initiator(scenario: Scenario) -> int:
        run, wire = federation(scenario)
        run.one(1, {"first": torch.zeros(1)})
        nodes = [m for m, _ in wire.seen if m.metadata.message_type == "train.encoder"]
        return run.roster.partition(nodes[0].metadata.dst_node_id)

    uneven = scenario_with(data={"options": {"train": 121}}, seed=1)
    sizes = [len(holding_of(uneven, party).x) for party in range(3)]
    assert initiator(uneven) == sizes.index(max(sizes))
    assert initiator(scenario_with(representation={"initiator": 2})) == 2


def test_masks_decoders_and_samples_never_leave_a_client():
    scenario = scenario_with(plugins=[{"name": "ars", "epsilon": 1.0}])
    published, _, wire = round_of(scenario)
    secret = [seed_of(scenario.seed, "secret", party) >> 2 for party in range(3)]
    masks = [mask_of(SeededForSimulation(value), (6,), 0.5) for value in secret]
    samples = torch.cat([holding_of(scenario, party).x for party in range(3)]).flatten(1)
    layers = {tuple(value.shape) for value in published.encoder.values()}
    for value in tensors_on(wire):
        flat = value.flatten().double()
        assert all(not torch.equal(flat, mask.double()) for mask in masks)
        if value.dim() > 1 and value.is_floating_point():
            known = tuple(value.shape) in layers or value.shape[1:] == (6,)
            assert known, f"{tuple(value.shape)} is neither a layer of the encoder nor codes"
        if value.numel() % samples.shape[1] == 0:
            rows = value.reshape(-1, samples.shape[1]).float()
            assert torch.cdist(rows, samples).min() > 1e-4
    for _, reply in wire.seen:
        texts = [*reply.content.config_records.values(), *reply.content.metric_records.values()]
        assert all(len(record) < 8 for record in texts)


def test_noise_is_within_epsilon_of_the_clean_codes_on_what_travels():
    plain, _, _ = round_of(scenario_with())
    options = {"name": "ars", "epsilon": 0.3, "relative": False}
    noisy, _, _ = round_of(scenario_with(plugins=[options]))
    for party, shared in noisy.parties.items():
        change = (shared.z - plain.parties[party].z).abs()
        secret = SeededForSimulation(seed_of(3, "secret", party) >> 2)
        mask = mask_of(secret, (6,), 0.5)
        assert change.max() <= 0.3 + 1e-5 and change.max() > 0.1
        assert not change[:, mask == 0].any()


@pytest.mark.parametrize(
    "plugin",
    [
        {"name": "ars", "epsilon": 0.0},
        {"name": "noisy", "scale": 0.0},
        {"name": "dnn-resized", "keep": 1.0, "scale": 0.0},
    ],
)
def test_a_neutral_value_is_no_defence_bit_for_bit(plugin):
    plain, _, _ = round_of(scenario_with())
    neutral, _, _ = round_of(scenario_with(plugins=[plugin]))
    for party, shared in plain.parties.items():
        assert torch.equal(shared.z, neutral.parties[party].z)


@pytest.mark.parametrize(
    ("plugin", "same"),
    [
        ({"name": "ran", "lam": 1.0, "k": 1}, {"k": 1}),
        ({"name": "arl", "lambda1": 0.0, "public": 0.0}, {}),
    ],
)
def test_neutral_adversaries_are_the_plain_network(plugin, same):
    plain, _, _ = round_of(scenario_with(plugins=[{"name": "dnn", **same}]))
    neutral, _, _ = round_of(scenario_with(plugins=[plugin]))
    assert all(torch.equal(value, neutral.encoder[key]) for key, value in plain.encoder.items())


def test_each_party_can_learn_from_the_pool_itself():
    _, record, wire = round_of(scenario_with(representation={"learner": "clients"}))
    kinds = [message.metadata.message_type for message, _ in wire.seen]
    assert kinds.count("train.pool") == 3
    assert record["train-own-accuracy-label"] > 0.9
    sent = sum(array_bytes(m) for m, _ in wire.seen if m.metadata.message_type == "train.pool")
    _, alone, _ = round_of(scenario_with())
    assert sent > 0 and record["bytes-down"] == alone["bytes-down"] + sent


def test_raw_samples_travel_only_if_the_layer_says_input():
    published, record, _ = round_of(
        scenario_with(representation={"layer": "input"}, plugins=[{"name": "noisy"}])
    )
    assert published.parties[0].z.shape[1:] == (1, 6, 6) and not published.encoder
    assert record["accuracy"] > 0.5


def test_a_second_round_shares_codes_of_the_same_encoder():
    run, wire = federation(scenario_with())
    state, _ = run.one(1, {"first": torch.zeros(1)})
    run.one(2, state)
    kinds = [message.metadata.message_type for message, _ in wire.seen]
    assert kinds.count("train.encoder") == 1 and kinds.count("query.codes") == 6


def test_broken_codes_of_one_party_are_left_out_and_named():
    world = World()
    run, wire = federation(scenario_with(), world)
    answered = wire.answered

    def spoiled(message: Message) -> Message:
        reply = answered(message)
        if message.metadata.message_type == "query.codes" and message.metadata.dst_node_id == 3:
            del reply.content[ARRAYS]
        return reply

    wire.answered = spoiled  # type: ignore[method-assign]
    _, record = run.one(1, {"first": torch.zeros(1)})
    assert set(world.parties) == {0, 2} and record["accuracy"] > 0.8
    assert record["failed"] == [{"client": 1, "why": "it carries no codes"}]
    assert (record["asked"], record["clients"]) == (3, 2)
    assert record["train-num-examples"] == sum(len(p.z) for p in world.parties.values())


def test_an_initiator_that_fails_is_followed_by_another():
    run, wire = federation(scenario_with())
    answered = wire.answered
    asked: list[int] = []

    def failing(message: Message) -> Message:
        if message.metadata.message_type == "train.encoder":
            asked.append(message.metadata.dst_node_id)
            if len(asked) == 1:
                message.content.pop("config")
        return answered(message)

    wire.answered = failing  # type: ignore[method-assign]
    _, record = run.one(1, {"first": torch.zeros(1)})
    assert len(asked) == 2 and record["clients"] == 3


def vertical(**changes) -> Scenario:
    table = {"kind": "table", "size": 9, "train": 150, "noise": 0.02}
    return scenario_with(
        **merged(
            {
                "data": {"options": table},
                "federation": {"strategy": "vertical"},
                "representation": {"curious-samples": 30},
            },
            changes,
        )
    )


def test_columns_meet_by_id_though_rows_are_shuffled_and_some_are_missing():
    scenario = vertical(representation={"missing": 0.2})
    published, record, _ = round_of(scenario)
    common = set.intersection(*(set(p.ids.tolist()) for p in published.parties.values()))
    assert record["train-num-examples"] == len(common) < 96
    assert published.parties[0].y is not None and published.parties[1].y is None
    truth, _ = task_labels(scenario)
    assert torch.equal(published.parties[0].y, truth[published.parties[0].ids])
    assert record["accuracy"] > 0.6


def test_three_parties_know_more_than_one():
    hard = {
        "data": {"options": {"noise": 0.2, "train": 330}},
        "representation": {"task-epochs": 30},
    }
    one = round_of(vertical(**merged(hard, {"federation": {"clients": 1}})))[1]["accuracy"]
    assert round_of(vertical(**hard))[1]["accuracy"] > one + 0.1


def test_encoders_of_columns_stay_at_home_unless_published():
    assert all(p.encoder is None for p in round_of(vertical())[0].parties.values())
    open_ones = vertical(representation={"publish-encoders": True})
    assert all(p.encoder for p in round_of(open_ones)[0].parties.values())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"representation": {"initiator": 7}}, "there are 3 clients"),
        ({"representation": {"layer": "fc9"}}, "no layer 'fc9'"),
        ({"attacks": [{"name": "dlg"}]}, "'dlg' looks at updates.*shares codes"),
        (
            {"data": {"options": {"kind": "images"}}, "federation": {"strategy": "vertical"}},
            "table",
        ),
    ],
)
def test_impossible_settings_are_explained_before_anything_runs(changes, why):
    with pytest.raises(FedprivError, match=why):
        check(scenario_with(**changes))


def test_a_scenario_without_the_section_is_refused():
    tables = {key: value for key, value in BASE.items() if key != "representation"}
    scenario = from_tables(tables)
    with pytest.raises(FedprivError, match=r"\[representation\] section"):
        strategy_of(scenario, Roster(3))


def test_a_party_without_labels_cannot_train_for_a_task():
    scenario = vertical(plugins=[{"name": "dnn"}])
    run, _ = federation(scenario)
    _, record = run.one(1, {"first": torch.zeros(1)})
    assert [failure["client"] for failure in record["failed"]] == [1, 2]
    assert "no labels" in record["failed"][0]["why"]


@pytest.mark.parametrize(
    "plugin",
    [
        {"name": "ars", "epsilon": -1.0},
        {"name": "ars", "share": 0.0},
        {"name": "ars", "private": ["sex"], "weights": [1.0]},
        {"name": "ran", "lam": 1.5},
        {"name": "arl", "lambda1": -1.0},
        {"name": "noisy", "scale": -1.0},
        {"name": "dnn-resized", "keep": 0.0},
        {"name": "dnn", "k": -2},
    ],
)
def test_options_out_of_range_are_refused(plugin):
    from fedpriv.clients.catalogue import plugin_of

    with pytest.raises(BadOption):
        plugin_of(scenario_with(plugins=[plugin]).plugins)


def test_a_run_folder_has_codes_among_its_evidence_and_not_in_its_model(tmp_path):
    scenario = scenario_with(**{"keep-truth": True, "attacks": [{"name": "decoder"}]})
    world, _, _ = round_of(scenario_with())
    folder = simulate(scenario, RunFolder(tmp_path / "run"), quiet())
    seen, bad = load_folder(folder.observations)
    assert not bad and [release.name for release in seen] == ["1-0", "1-1", "1-2"]
    for release in seen:
        assert isinstance(release, Release)
        facts = json.loads((folder.observations / f"{release.name}.json").read_text())
        assert facts == {"sees": "codes", "round": 1, "node": release.node}
        assert torch.equal(release.shared.z, world.parties[release.node].z)
        assert release.encoder.keys() == world.encoder.keys()
    for path in (folder.model_file, *folder.checkpoint.glob("round-*.safetensors")):
        published = Published.of(load_state(path))
        assert published.encoder and set(published.classifiers) == {"label"}
        shapes = {tuple(value.shape) for value in load_state(path).values()}
        assert not shapes & {tuple(release.shared.z.shape) for release in seen}
        assert not shapes & {tuple(release.shared.test.shape) for release in seen}
    assert folder.rounds()[0]["accuracy"] > 0.9


def test_samples_are_only_in_the_truth_that_parties_keep(tmp_path):
    scenario = scenario_with(**{"keep-truth": True, "attacks": [{"name": "decoder"}]})
    folder = simulate(scenario, RunFolder(tmp_path / "run"), quiet())
    for party in range(3):
        truth = folder.truth_of(f"1-{party}")
        assert torch.equal(truth.x, holding_of(scenario, party).x)
        released = Release.load(folder.observations / f"1-{party}.safetensors")
        assert len(released.shared.z) == len(truth.x)
        samples = truth.x.flatten(1)
        for value in released.shared.state().values():
            if value.dim() > 1 and value[0].numel() == samples.shape[1]:
                assert torch.cdist(value.flatten(1).float(), samples).min() > 1e-4
