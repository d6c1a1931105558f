"""The device: its name, what is moved there, and work that does not fit."""

from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import nn

from fedpriv import device
from fedpriv.device import CPU, device_of, halving, moved
from fedpriv.errors import BadOption

META = torch.device("meta")


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(BadOption, match="'cuda:9' is no device of this machine"):
        device_of("cuda:9")
    assert device_of("cpu") == CPU


def test_auto_is_what_a_cluster_granted(monkeypatch):
    monkeypatch.setattr(device, "_granted", [])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    device.grant("cuda:0")
    assert device_of("auto") == CPU  # logical GPUs without a driver
    device.grant("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_of("auto") == CPU  # a worker without a share keeps off the GPUs of others


@dataclass(frozen=True)
class Box:
    x: torch.Tensor
    name: str = "box"


def test_everything_is_moved_once_and_nothing_else_changes():
    shared, net = torch.zeros(2), nn.Linear(2, 2)
    value = {"a": [shared, Box(shared)], "b": partial(max, net), "c": ("text", 3)}
    there = moved(value, META)
    assert there["a"][0] is there["a"][1].x and there["a"][0].device == META
    assert there["b"].args[0].weight.device == META and net.weight.device == CPU
    assert there["c"] is value["c"]
    assert moved(value, CPU) is value


def test_work_that_does_not_fit_goes_on_in_halves(caplog):
    device._tell.cache_clear()
    tried = []

    def work(rows):
        tried.append(len(rows))
        if len(rows) > 3:
            raise torch.OutOfMemoryError("too much")
        return list(rows)

    found = halving(10, 8, work)
    assert [one for part in found for one in part] == list(range(10))
    assert tried == [8, 4, 2, 2, 2, 2, 2]
    assert len(caplog.records) == 1 and "smaller parts" in caplog.text


def test_one_row_that_does_not_fit_is_an_error():
    def work(rows):
        raise torch.OutOfMemoryError("too much")

    with pytest.raises(torch.OutOfMemoryError):
        halving(2, 2, work)


def test_products_keep_all_bits_unless_somebody_asks():
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    try:
        device.full_precision(True)
        assert not torch.backends.cudnn.allow_tf32 and not torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before
