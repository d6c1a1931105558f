"""The cluster in the docs is one that Ray's own schema takes, with a token and within bounds."""

import copy
from pathlib import Path

import pytest
import yaml

PLACE = Path(__file__).parents[2] / "docs/howto/cluster.yaml"


def checked(tables):
    from ray.autoscaler._private.util import prepare_config, validate_config

    filled = prepare_config(copy.deepcopy(tables))
    validate_config(filled)
    return filled


def test_the_cluster_of_the_docs_follows_rays_schema():
    tables = yaml.safe_load(PLACE.read_text(encoding="utf-8"))
    filled = checked(tables)
    assert filled["max_workers"] == 4
    starts = [*tables["head_start_ray_commands"], *tables["worker_start_ray_commands"]]
    assert all("RAY_AUTH_MODE=token" in line for line in starts if "ray start" in line)
    with pytest.raises(Exception, match="max_worker"):
        checked({**tables, "max_worker": 3})  # a misspelt key is seen
