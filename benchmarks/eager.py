"""CPU seconds of a process's first optimiser step and first torch.func gradient.

    python benchmarks/eager.py --times 7

Both import torch's compiler, which nobody here uses. The table compares
`fedpriv.eager.skip_compiler` with torch as it is and with the plain ways of keeping the compiler
out. Every measurement is a fresh process, and the ways take turns. The interval is the smallest
and the largest of n measurements; the true median lies between them with a confidence of
1 - 2^(1-n), which is 98 % for n = 7.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

MEASURED = """
import json, sys, time
import torch
x, weight = torch.ones(4, 3), torch.ones(2, 3, requires_grad=True)
(x @ weight.T).square().sum().backward()
begun = time.process_time()
{first}
{work}
spent = time.process_time() - begun
print(json.dumps([spent, "torch._dynamo" in sys.modules]))
"""
OURS = "from fedpriv.eager import skip_compiler; skip_compiler()"
STEP = "torch.optim.SGD([weight], lr=0.1).step()"
FUNCTIONAL_STEP = """
from torch.optim.sgd import sgd
with torch.no_grad():
    sgd([weight], [weight.grad], [None], weight_decay=0.0, momentum=0.0, lr=0.1,
        dampening=0.0, nesterov=False, maximize=False)
"""
GRADIENT = "torch.func.grad(lambda w: (x @ w.T).square().sum())(weight)"
AUTOGRAD = "torch.autograd.grad((x @ weight.T).square().sum(), weight)"

# task -> way -> (what comes first, what is measured, environment)
TASKS: dict[str, dict[str, tuple[str, str, dict[str, str]]]] = {
    "first SGD step": {
        "torch as it is": ("", STEP, {}),
        "skip_compiler()": (OURS, STEP, {}),
        "TORCHDYNAMO_DISABLE=1": ("", STEP, {"TORCHDYNAMO_DISABLE": "1"}),
        "TORCH_COMPILE_DISABLE=1": ("", STEP, {"TORCH_COMPILE_DISABLE": "1"}),
        "torch.optim.sgd.sgd": ("", FUNCTIONAL_STEP, {}),
    },
    "first torch.func gradient": {
        "torch as it is": ("", GRADIENT, {}),
        "skip_compiler()": (OURS, GRADIENT, {}),
        "TORCHDYNAMO_DISABLE=1": ("", GRADIENT, {"TORCHDYNAMO_DISABLE": "1"}),
        "TORCH_COMPILE_DISABLE=1": ("", GRADIENT, {"TORCH_COMPILE_DISABLE": "1"}),
        "torch.autograd.grad": ("", AUTOGRAD, {}),
    },
}


def measured(first: str, work: str, environment: dict[str, str]) -> tuple[float, bool]:
    """CPU seconds of `work` in a fresh process, and whether it loaded the compiler."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED.format(first=first, work=work)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    spent, loaded = json.loads(done.stdout)
    return spent, loaded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=7, help="measurements of each way")
    times = parser.parse_args().times
    for task, ways in TASKS.items():
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        loads = {}
        for _ in range(times):
            for way, parts in ways.items():
                spent, loads[way] = measured(*parts)
                seconds[way].append(spent)
        print(f"{task}, CPU seconds, n = {times}")
        for way, found in seconds.items():
            compiler = "loads the compiler" if loads[way] else "without the compiler"
            interval = f"[{min(found):.3f}, {max(found):.3f}]"
            print(f"  {way:<24} {statistics.median(found):6.3f} {interval:<16} {compiler}")


if __name__ == "__main__":
    main()
