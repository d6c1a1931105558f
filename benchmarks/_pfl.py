"""apple's pfl on the work of `simulation.py`: CPU seconds of each round as JSON.

It does not resolve beside fedpriv, so it is installed into an environment of its own, and this file
imports nothing of ours. `simulation.py --pfl PYTHON` writes the samples and starts it there:

    python -m venv /tmp/pfl && /tmp/pfl/bin/pip install pfl torch
    python benchmarks/simulation.py --ways turns pfl --pfl /tmp/pfl/bin/python
"""

import json
import logging
import sys
import time
from functools import partial

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.internal.ops import pytorch_ops
from pfl.internal.ops.selector import set_framework_module
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

WITHOUT = 10**9  # rounds between evaluations on clients: the loop has none


class Net(nn.Module):
    """One of the benchmark's models, with what pfl asks of a module."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.net = mlp(hidden) if hidden else lenet()

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.net(x)
        return found

    def loss(self, x: Tensor, y: Tensor, eval: bool = False) -> Tensor:
        self.train(not eval)
        return nn.functional.cross_entropy(self(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Weighted]:
        return {"loss": Weighted(self.loss(x, y, eval=True).item() * len(y), len(y))}


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def mlp(hidden: int) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, 10)
    )  # fmt: skip


class Rounds(TrainingProcessCallback):
    """Evaluates the model on the test samples as the loop does, and notes when each round ended."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y
        self.at = [time.process_time()]

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        with torch.no_grad():
            logits = model.pytorch_model(self.x)
            float(nn.functional.cross_entropy(logits, self.y))
            float((logits.argmax(1) == self.y).float().mean())
        self.at.append(time.process_time())
        return False, Metrics()


def main(place: str, hidden: int, rounds: int) -> None:
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    set_framework_module(pytorch_ops)
    kept = np.load(place)
    clients = int(kept["clients"])
    shares = [
        PyTorchTensorDataset(
            tensors=[torch.from_numpy(kept[f"x{n}"]), torch.from_numpy(kept[f"y{n}"])],
            user_id=str(n),
        )
        for n in range(clients)
    ]
    sampler = get_user_sampler("minimize_reuse", range(clients))
    data = FederatedDataset(shares.__getitem__, sampler)
    net = Net(hidden)
    assert sum(value.numel() for value in net.parameters()) == int(kept["parameters"])
    model = PyTorchModel(
        net,
        local_optimizer_create=partial(torch.optim.SGD, momentum=float(kept["momentum"])),
        central_optimizer=torch.optim.SGD(net.parameters(), lr=1.0),
    )
    timed = Rounds(torch.from_numpy(kept["x-test"]), torch.from_numpy(kept["y-test"]))
    batch = int(kept["batch"])
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=WITHOUT,
            train_cohort_size=clients,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(training_data=data, val_data=data),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_batch_size=batch,
            local_num_epochs=1,
            local_learning_rate=float(kept["lr"]),
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=batch),
        callbacks=[timed],
        send_metrics_to_platform=False,
    )
    spans = [after - before for before, after in zip(timed.at, timed.at[1:], strict=False)]
    assert len(spans) == rounds
    print(json.dumps(spans))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
