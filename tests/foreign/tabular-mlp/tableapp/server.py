from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from torch import nn


def patients_net():
    return nn.Sequential(
        nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 2)
    )


app = ServerApp()


@app.main()
def main(grid, ctx):
    FedAvg().start(grid, ArrayRecord(patients_net().state_dict()), ctx.run_config["rounds"])
