"""Truth on disk: what an update's file holds is what it always held; codes add to it."""

import math

import numpy as np
import pytest
import torch

from fedpriv.errors import BadInput
from fedpriv.evidence.truth import Truth


def truth_of(**more):
    x = torch.rand(4, 1, 3, 3)
    about = {"clean": 1.0, "added": 0.5, "round": 2, "node": 7}
    labels = {"y": torch.arange(4), "indices": torch.arange(4) + 9}
    return Truth(**{"x": x, "trained": 1 - x, **labels, **about, **more})


def test_an_update_s_file_holds_four_arrays_and_the_facts(tmp_path):
    path = truth_of().save(tmp_path)
    with np.load(path) as file:
        assert file.files == ["x", "trained", "y", "indices", "facts"]
    back = Truth.load(path)
    assert back.name == path.stem == "2-7" and not back.attributes and not back.secrets


def test_norms_of_biases_come_back_and_older_files_have_none(tmp_path):
    path = truth_of(clean_biases=0.3, added_biases=0.2).save(tmp_path)
    back = Truth.load(path)
    assert (back.clean_biases, back.added_biases) == (0.3, 0.2)
    with np.load(path) as file:
        older = {**file, "facts": file["facts"][:4]}
    np.savez(path, **older)
    assert Truth.load(path).clean == 1.0 and math.isnan(Truth.load(path).clean_biases)


def test_codes_come_back_with_attributes_and_secrets_and_samples_once(tmp_path):
    x = torch.rand(4, 5)
    more = {"attributes": {"sex": torch.tensor([0, 1, 1, 0])}, "secrets": {"mask": torch.ones(6)}}
    path = truth_of(x=x, trained=x, clean=math.nan, added=math.nan, **more).save(tmp_path)
    with np.load(path) as file:
        assert "trained" not in file.files
    back = Truth.load(path)
    assert torch.equal(back.trained, x) and math.isnan(back.clean)
    assert torch.equal(back.attributes["sex"], more["attributes"]["sex"])
    assert torch.equal(back.secrets["mask"], torch.ones(6))


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_what_is_no_truth_is_named(tmp_path, damage):
    path = tmp_path / "1-1.npz"
    if damage is None:
        np.savez(path, x=np.zeros(3))
    else:
        path.write_bytes(damage)
    with pytest.raises(BadInput, match=r"1-1\.npz' is no truth"):
        Truth.load(path)
