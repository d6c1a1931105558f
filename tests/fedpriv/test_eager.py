import json
import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close

TRAIN = """
import json, sys, torch
{first}
def trained(make):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = make(model.parameters())
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2])
    for step in range(4):
        optimizer.zero_grad()
        model(torch.ones(5, 3) * step).square().mean().backward()
        optimizer.step()
        schedule.step()
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    assert not model.weight.grad.requires_grad and torch.is_grad_enabled()
    return model.weight.tolist()
results = [
    trained(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3)),
    trained(lambda p: torch.optim.Adam(p, lr=0.01)),
    trained(lambda p: torch.optim.AdamW(p, lr=0.01)),
]
from torch.func import grad, jacrev, vmap
x = torch.linspace(-1, 1, 6).view(3, 2)
results.append(vmap(grad(lambda v: v.sin().prod()))(x).tolist())
results.append(vmap(grad(lambda v: grad(lambda u: (u ** 3).sum())(v).sum()))(x).tolist())
results.append(jacrev(lambda v: v.square())(x[0]).tolist())
results.append(grad(lambda v: torch.ones(()))(x).tolist())
print(json.dumps([results, "torch._dynamo" in sys.modules]))
"""


def run(first):
    done = subprocess.run(
        [sys.executable, "-c", TRAIN.format(first=first)],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def plain():
    return run("import torch._dynamo")


def test_training_leaves_the_compiler_unloaded_and_the_results_unchanged(plain):
    results, loaded = run(
        "from fedpriv.eager import skip_compiler; skip_compiler(); skip_compiler()"
    )
    assert not loaded
    assert results == plain[0]


def test_torch_has_its_own_way_back_once_the_compiler_is_loaded(plain):
    late = "from fedpriv.eager import skip_compiler; skip_compiler(); import torch._dynamo"
    assert run(late) == plain


def test_a_differentiable_optimiser_still_differentiates():
    from fedpriv.eager import skip_compiler

    skip_compiler()
    weight = torch.ones(2, requires_grad=True)
    stepped = weight.clone()
    optimizer = torch.optim.SGD([stepped], lr=0.1, differentiable=True)
    stepped.grad = 2 * weight
    optimizer.step()
    stepped.sum().backward()
    assert_close(weight.grad, torch.full((2,), 0.8))


def test_a_run_starts_without_what_takes_seconds_to_import():
    """The compiler comes with torchvision; each process of a federation would pay for it."""
    needed = "attacks.catalogue, clients.app, strategies.app, simulations.federation.run"
    start = "import sys, " + ", ".join(f"fedpriv.{name}" for name in needed.split(", "))
    slow = {"torch._dynamo", "torchvision", "scipy.stats", "dp_accounting", "opacus", "matplotlib"}
    code = f"{start}\nprint(*sorted(set({sorted(slow)!r}) & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
