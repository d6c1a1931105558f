"""A private attribute that stands in the codes is a leak, whatever pictures come out of them."""

from dataclasses import replace

import pytest
import torch
from worlds import CODES

from fedpriv.data.synthetic import synthetic
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.simulations.audit import audit


def shaded(root=None, wrong=0.09):
    """Pictures whose left half is dark, grey or bright: the attribute, wrong for a few of them."""
    data = synthetic(train=240, test=120, size=8, noise=0.3)

    def shades(x, seed):
        draw = torch.Generator().manual_seed(seed)
        real = torch.randint(3, (len(x),), generator=draw)
        x = x.clone()
        x[:, :, :, :4] = (real * 100)[:, None, None, None].to(x.dtype)
        other = (real + 1) % 3
        return x, torch.where(torch.rand(len(x), generator=draw) < wrong, other, real)

    (x, own), (x_test, tests) = shades(data.x_train, 1), shades(data.x_test, 2)
    return replace(data, x_train=x, x_test=x_test, attributes={"shade": (own, tests)})


def test_an_attribute_that_can_be_read_makes_the_audit_red(tmp_path):
    scenario = merged(CODES, {"data": {"name": f"{__name__}:shaded"}})
    scenario["data"].pop("options")
    found = audit(from_tables(scenario), RunFolder(tmp_path / "A"), work=1)
    (one,) = [one for one in found["questions"] if one["claim"] == "attribute"]
    assert one["word"] == "leaks" and found["outcome"] == "leaks"
    assert one["low"] > 0.7 and one["blind"] == pytest.approx(1 / 3, abs=0.12)
    assert "right about the attribute" in found["sentence"] and "blind guess" in found["sentence"]
