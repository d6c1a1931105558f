import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from tableapp.server import patients_net

app = ClientApp()


def patients(pid):
    table = load_breast_cancer()
    x = StandardScaler().fit_transform(table.data)[pid::10]
    return torch.tensor(x, dtype=torch.float), torch.tensor(table.target[pid::10])


@app.train()
def step(msg, ctx):
    net = patients_net()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    x, y = patients(ctx.node_config["partition-id"])
    row = msg.content["config"]["server-round"]
    optim = torch.optim.SGD(net.parameters(), lr=0.1)
    loss = torch.nn.CrossEntropyLoss()(net(x[row : row + 1]), y[row : row + 1])
    optim.zero_grad()
    loss.backward()
    optim.step()
    return Message(
        RecordDict(
            {"arrays": ArrayRecord(net.state_dict()), "n": MetricRecord({"num-examples": 1})}
        ),
        reply_to=msg,
    )


@app.evaluate()
def test(msg, ctx):
    net = patients_net()
    net.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    x, y = patients(ctx.node_config["partition-id"])
    with torch.no_grad():
        loss = torch.nn.CrossEntropyLoss()(net(x[20:]), y[20:])
    return Message(
        RecordDict({"n": MetricRecord({"num-examples": len(y) - 20, "loss": float(loss)})}),
        reply_to=msg,
    )
