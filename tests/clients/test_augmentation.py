"""The plugin `augment`: transformed images are all that a client trains on."""

import json

import numpy as np
import pytest
import torch
from messages import context_of

from fedpriv.clients.catalogue import PLUGINS, plugin_of
from fedpriv.clients.job import fit, make_job
from fedpriv.clients.plugins.augmentation import Augmentation, augmented
from fedpriv.clients.truth import Watch
from fedpriv.errors import BadData, BadFolder, BadOption
from fedpriv.policies import Policy
from fedpriv.policies.policy_set import PolicySet, named
from fedpriv.rng import generator
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import dataset_of, first_state
from fedpriv.scenario.sections import Spec


def job_of(tiny, server_round=1, **sections):
    scenario = from_tables({**tiny.plain(), **sections})
    return make_job(scenario, first_state(scenario), server_round, context_of(scenario))


def batches_seen(job, plugin):
    """What the model was given, and where each batch came from."""
    job, seen = plugin.on_setup(job), []
    for positions in job.batches(job):
        x, _ = plugin.on_batch(job.x[positions], job.y[positions], job)
        seen.append((positions, x))
    return seen


def test_pictures_become_those_that_the_policy_makes_of_their_bytes(tiny):
    dataset = dataset_of(tiny)
    policy, x = Policy.parse("3-1-7"), dataset.x_train[:6]
    found = augmented(dataset.normalised(x), policy, dataset, generator(1))
    assert torch.equal(found, dataset.normalised(policy(x, generator(1))))


def test_online_draws_anew_in_every_epoch_and_offline_once_for_all(tiny):
    training = {"local-epochs": 2, "batch-size": 1000}
    for when, same in (("online", False), ("offline", True)):
        plugin = Augmentation(policy="3-1-7", when=when)
        one, two = batches_seen(job_of(tiny, training=training), plugin)
        later = batches_seen(job_of(tiny, 2, training=training), plugin)[0]
        first, second, third = (x[positions.argsort()] for positions, x in (one, two, later))
        assert torch.equal(first, second) is same
        assert torch.equal(first, third) is same
        originals = job_of(tiny).x
        assert not any(torch.equal(a, b) for a, b in zip(first, originals, strict=True))


@pytest.mark.parametrize("when", ["online", "offline"])
def test_the_truth_is_the_picture_and_what_was_trained_on(tiny, when):
    plugins = [{"name": "augment", "policy": "0", "when": when}]
    job = job_of(tiny, plugins=plugins)
    pictures, plugin, watch = job.x.clone(), Augmentation(policy="0", when=when), Watch()
    job = plugin.on_setup(job)
    watch.batches(job)
    fit(job, watch.on_batch(plugin.on_batch))
    after = {key: value.detach() for key, value in job.shared.state_dict().items()}
    truth = watch.truth(job, {key: after[key] - value for key, value in job.start.items()})
    rows = [job.indices.tolist().index(number) for number in truth.indices.tolist()]
    assert torch.equal(truth.x, pictures[rows])
    pixels = job.dataset.denormalised(truth.x) + job.dataset.denormalised(truth.trained)
    assert torch.allclose(pixels, torch.ones_like(pixels), atol=1e-5)  # inverted
    assert truth.added > 0.1 * truth.clean


def test_it_composes_with_the_others(tiny):
    specs = [Spec("augment", {"policy": "43-18-18"}), Spec("pruning", {"fraction": 0.1})]
    plugin, job = plugin_of(specs), job_of(tiny)
    assert not torch.equal(batches_seen(job, plugin)[0][1], job.x[: tiny.training.batch_size])


def test_a_random_policy_is_one_for_all_clients_of_a_seed(tiny):
    policies = [Augmentation(policy="random", seed=seed).chosen() for seed in (1, 1, 2)]
    assert policies[0] == policies[1] != policies[2]
    assert len(policies[0].members) == 1


@pytest.fixture
def searched(tmp_path):
    path = tmp_path / "policies.json"
    PolicySet(("3-1-7", "3-18-28", "43-18-18"), "cifar100", "resnet20", -1.0).save(path)
    return path


def test_a_search_result_is_used_as_a_hybrid(searched, tiny, caplog):
    assert str(Augmentation(policy=str(searched)).chosen()) == "3-1-7+43-18-18"
    alone = Augmentation(policy=str(searched), members=1)
    assert str(alone.chosen()) == "3-1-7"
    alone.on_setup(job_of(tiny))
    assert "searched on cifar100 and are used on synthetic" in caplog.text


def test_options_reach_the_policy():
    chosen = Augmentation(policy="0", probability=0.5, enhancement=0.9).chosen()
    assert chosen == Policy(((0,),), probability=0.5, enhancement=0.9)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"policy": "3-1-99"}, BadOption, "no transformation 99"),
        ({"policy": "missing.json"}, BadFolder, "cannot be read"),
        ({"when": "never"}, BadOption, "online"),
        ({"members": 0}, BadOption, "at least 1"),
        ({"probability": 2.0}, BadOption, "probability"),
    ],
)
def test_bad_options_are_refused(options, error, says):
    named.cache_clear()
    with pytest.raises(error, match=says):
        PLUGINS.build("augment", options)


def test_a_damaged_file_is_refused(searched):
    table = json.loads(searched.read_text())
    searched.write_text(json.dumps(table | {"policies": ["3-1"]})[:-9])
    named.cache_clear()
    with pytest.raises(BadFolder, match="no result"):
        Augmentation(policy=str(searched))


def test_tables_and_tiny_pictures_are_refused(tiny):
    table = job_of(tiny, data={"name": "synthetic", "options": {"kind": "table"}})
    small = job_of(tiny, data={"name": "synthetic", "options": {"size": 6}})
    for job, says in ((table, "transforms images"), (small, "at least 8 by 8")):
        with pytest.raises(BadData, match=says):
            Augmentation().on_setup(job)
    assert np.prod(small.dataset.shape) == 36
