"""Secure aggregation: the sum is right, the server sees nothing else, no client does without."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common import bytes_to_ndarray
from shows import quiet

from fedpriv.clients.app import app
from fedpriv.errors import BadScenario
from fedpriv.evidence.folder import load_folder
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import first_state
from fedpriv.simulations.federation.backends import InlineBackend
from fedpriv.simulations.federation.contexts import contexts_of
from fedpriv.simulations.federation.grid import SimulationGrid
from fedpriv.simulations.pipeline import run_all
from fedpriv.strategies.fedavg import weighted_mean
from fedpriv.strategies.secagg import check_secagg, secured
from fedpriv.wire import record_of, state_in


def scenario_of(secagg=True, clients=3, hidden=16, **sections):
    return from_tables(
        {
            "name": "sum",
            "seed": 3,
            "data": {"name": "synthetic"},
            "model": {"name": "mlp", "hidden": [hidden]},
            "training": {"lr": 0.1, "batch-size": 4, "local-steps": 1},
            "federation": {
                "clients": clients,
                "rounds": 1,
                "backend": "inline",
                "secagg": secagg,
                **sections.pop("federation", {}),
            },
            **sections,
        }
    )


class Watching(SimulationGrid):
    """A grid that keeps all a server gets to see."""

    def answered(self, message):
        reply = super().answered(message)
        self.seen.append(copy.deepcopy(reply))
        return reply


def grid_of(scenario):
    backend = InlineBackend()
    backend.build(lambda: app)
    grid = Watching(backend, contexts_of(scenario, {"scenario": scenario.text()}))
    grid.seen = []
    return grid


def asked(scenario, grid):
    content = RecordDict(
        {
            "arrays": record_of(first_state(scenario)),
            "config": ConfigRecord({"server-round": 1}),
        }
    )
    messages = [Message(content, node, "train") for node in grid.get_node_ids()]
    return list(grid.send_and_receive(messages))


def states(replies):
    return [state_in(reply.content["arrays"]) for reply in replies]


def in_the_clear(scenario):
    """What the same clients answer without secure aggregation, and their weights."""
    plain = replace(scenario, federation=replace(scenario.federation, secagg=False))
    replies = asked(plain, grid_of(plain))
    return states(replies), [r.content["metrics"]["num-examples"] for r in replies]


def test_everybody_gets_the_weighted_mean():
    scenario = scenario_of()
    answers = states(asked(scenario, secured(grid_of(scenario), scenario)))
    mean = weighted_mean(*in_the_clear(scenario))
    assert len(answers) == 3
    for answer in answers:
        for name, value in mean.items():
            assert torch.allclose(answer[name], value, atol=2e-6)


def test_the_server_sees_masked_numbers_only(chance_bound):
    scenario = scenario_of(hidden=256)
    grid = grid_of(scenario)
    asked(scenario, secured(grid, scenario))
    updates, _ = in_the_clear(scenario)
    start = first_state(scenario)
    vectors = [
        torch.cat([(state[name] - value).flatten() for name, value in start.items()]).numpy()
        for state in updates
    ]
    masked = []
    for reply in grid.seen:
        assert not any(len(record) for record in reply.content.array_records.values())
        sent = reply.content.config_records["secaggplus_configs"].get("masked_params", [])
        if sent:
            masked.append(np.concatenate([bytes_to_ndarray(part).ravel() for part in sent[1:]]))
    assert len(masked) == 3
    # The masks come from the system. Uniform numbers have a standard deviation of width / √12.
    bound = chance_bound(len(vectors[0]), tests=len(masked) * (1 + len(vectors)))
    for numbers in masked:
        uniform = numbers / 2**32 - 0.5
        assert abs(abs(uniform).mean() - 0.25) < bound * 0.5 / 12**0.5
        for vector in vectors:
            weights = vector - vector.mean()
            weights /= np.linalg.norm(weights)
            assert abs(weights @ uniform) * (12 / len(uniform)) ** 0.5 < bound


def test_a_client_does_not_answer_in_the_clear():
    scenario = scenario_of()
    replies = asked(scenario, grid_of(scenario))
    assert all("does not answer in the clear" in reply.error.reason for reply in replies)


def test_a_client_that_fails_is_named_and_the_others_are_summed():
    scenario = scenario_of(clients=4)
    grid = grid_of(scenario)
    del grid.contexts[3].node_config["partition-id"]
    replies = {r.metadata.src_node_id: r for r in asked(scenario, secured(grid, scenario))}
    assert "partition-id" in replies[3].error.reason
    assert sum(not reply.has_error() for reply in replies.values()) == 3


@pytest.mark.parametrize("strategy", ["round-robin", "standalone"])
def test_it_excludes_strategies_without_a_sum(strategy):
    with pytest.raises(BadScenario, match=f"strategy '{strategy}' has no such sum"):
        check_secagg(scenario_of(federation={"strategy": strategy}))


def test_a_sum_of_one_is_refused():
    with pytest.raises(BadScenario, match="at least 2 clients"):
        check_secagg(scenario_of(clients=1))


def test_a_run_observes_one_sum_and_scores_it_against_everybodys_samples(tmp_path):
    scenario = scenario_of(attacks=[{"name": "read-rows"}])
    results = run_all(scenario, RunFolder(tmp_path / "run"), quiet)
    seen, bad = load_folder(tmp_path / "run" / "observations")
    assert [(one.node, one.batch_size) for one in seen] == [(3, 12)] and not bad
    assert {row["node"] for row in results["rows"][""]["scores"]} == {3}
    assert len(results["rows"][""]["scores"]) == 12


def test_without_secagg_nothing_is_wrapped():
    scenario = scenario_of(secagg=False)
    grid = grid_of(scenario)
    assert secured(grid, scenario) is grid
