"""Shares of GPUs: how large one client's is, and which device a worker of Ray was given.

Ray counts shares and starts no more workers than there is room for. It does not bound memory, and a
worker without a share still sees every GPU of its machine. So every worker asks here what `auto`
means for it.
"""

import logging
import math
import os
from typing import Any

import torch
from torch import nn

from fedpriv.device import CPU, device_of, grant
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import model_of, training_samples

log = logging.getLogger(__name__)
VISIBLE = "CUDA_VISIBLE_DEVICES"
CONTEXT = 600 * 2**20  # bytes that CUDA itself takes for every process on a GPU
SPARE = 1.3  # a client's memory grows and shrinks; what one step took is not all of it


def given() -> str:
    """The device that Ray gave to this worker: its place among those it sees, or the CPU."""
    import ray

    ids = [str(number) for number in ray.get_gpu_ids()]
    if not ids:
        return "cpu"
    seen = [name for name in os.environ.get(VISIBLE, "").split(",") if name]
    return f"cuda:{seen.index(ids[0])}" if ids[0] in seen else f"cuda:{ids[0]}"


def take_given() -> str:
    """Let `auto` mean, in this worker, the device that Ray gave to it; its name."""
    found = given()
    grant(found)
    return found


def share_of(taken: int, total: int) -> float:
    """The part of a GPU with `total` bytes for a client that took so many: 1/2, 1/3, …"""
    together = math.floor(total / (taken * SPARE + CONTEXT))
    return 1 / max(1, together)


def step_bytes(scenario: Scenario, device: torch.device) -> int:
    """The most memory that a training step of a client takes on `device`, and its samples."""
    module: Any = torch.get_device_module(device)
    x, y = training_samples(scenario)
    batch = scenario.training.batch_size
    model = model_of(scenario).to(device)
    samples = x.numel() * x.element_size() // scenario.federation.clients
    module.reset_peak_memory_stats(device)
    for _ in range(2):  # the second one has the gradients of the first one
        loss = nn.functional.cross_entropy(model(x[:batch].to(device)), y[:batch].to(device))
        loss.backward()
    peak: int = module.max_memory_reserved(device)
    return peak + samples


def gpus_per_client(scenario: Scenario) -> float:
    """What the scenario says; for `auto`, by the memory that one step takes on this machine's GPU.

    Without a GPU here it is none.
    """
    asked = scenario.federation.gpus_per_client
    if asked != "auto":
        return float(asked)
    device = device_of("auto")
    if device == CPU:
        return 0.0
    module: Any = torch.get_device_module(device)
    taken, total = step_bytes(scenario, device), module.mem_get_info(device)[1]
    share = share_of(taken, total)
    log.info(
        "federation.gpus-per-client = 'auto': one step took %.2f of %.1f GiB, so that %d clients "
        "share a GPU.",
        taken / 2**30,
        total / 2**30,
        round(1 / share),
    )
    return share
