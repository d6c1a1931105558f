"""Shares of GPUs on Ray, with logical GPUs: nobody needs a real one for the counting."""

from collections import Counter

import pytest
import torch

from fedpriv.errors import BadScenario
from fedpriv.scenario import from_tables
from fedpriv.simulations.federation import gpus
from fedpriv.simulations.federation.gpus import CONTEXT, given, gpus_per_client, share_of


@pytest.fixture(scope="module")
def ray():
    from fedpriv.simulations.federation.cluster import cluster

    with cluster(cpus=6, gpus=2):
        import ray

        yield ray


def changed(tiny, **federation):
    plain = tiny.plain()
    return from_tables({**plain, "federation": {**plain["federation"], **federation}})


def in_use(ray) -> float:
    return ray.cluster_resources()["GPU"] - ray.available_resources().get("GPU", 0.0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_four_clients_share_two_gpus_and_never_more(ray, tiny):
    from fedpriv.simulations.federation.actors import ActorBackend

    backend = ActorBackend(changed(tiny, **{"backend": "ray", "gpus-per-client": 0.5}))
    backend.build()
    try:
        assert backend.num_workers == 4
        places = ray.get(
            [actor.__ray_call__.remote(lambda _: (given(), ray_ids())) for actor in backend._alive]
        )
    finally:
        backend.terminate()
    assert Counter(number for _, (number,) in places) == {0: 2, 1: 2}
    assert {name for name, _ in places} == {"cuda:0"}  # the one GPU that each of them sees


def ray_ids() -> tuple[int, ...]:
    import ray

    return tuple(int(number) for number in ray.get_gpu_ids())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_of_a_search_share_two_gpus(ray):
    from torch import nn

    from fedpriv.policies.journal import Task
    from fedpriv.policies.policy import Policy
    from fedpriv.policies.scorer import Scorer
    from fedpriv.simulations.search.search import on_ray

    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3)).eval()
    scorer = Scorer(
        semi_trained=net,
        untrained=net,
        x=torch.randint(0, 256, (2, 1, 8, 8), dtype=torch.uint8),
        y=torch.arange(2),
        batches=torch.randint(0, 256, (1, 4, 1, 8, 8), dtype=torch.uint8),
        mean=(0.5,),
        std=(0.5,),
        points=2,
    )
    with on_ray(scorer, gpus=0.5) as spread:
        task = Task("4-5", "privacy", 0, 2)
        (found,) = list(spread([task]))
        assert in_use(ray) <= 2
        assert found[1] == pytest.approx(scorer.privacy(Policy.parse("4-5"), 0, 2))


def test_a_share_has_room_for_what_a_step_took():
    giga = 2**30
    assert share_of(10 * giga, 16 * giga) == 1
    assert share_of(20 * giga, 16 * giga) == 1  # one client alone, whatever it takes
    taken = giga
    together = round(1 / share_of(taken, 16 * giga))
    assert together == 8 and together * (taken + CONTEXT) < 16 * giga


def test_auto_without_a_gpu_is_no_share(tiny):
    assert gpus_per_client(changed(tiny, **{"gpus-per-client": "auto"})) == 0
    with pytest.raises(BadScenario, match="gpus-per-client"):
        changed(tiny, **{"gpus-per-client": "much"})


def test_the_place_of_a_gpu_is_that_among_those_seen(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "get_gpu_ids", lambda: [3])
    monkeypatch.setenv(gpus.VISIBLE, "1,3")
    assert given() == "cuda:1"
    monkeypatch.setenv(gpus.VISIBLE, "3")
    assert given() == "cuda:0"
    monkeypatch.setattr(ray, "get_gpu_ids", list)
    assert given() == "cpu"
