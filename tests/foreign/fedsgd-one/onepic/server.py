from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from torch import nn


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 12, 5, 2, 2), nn.Sigmoid(), nn.Flatten())
        self.head = nn.Linear(12 * 14 * 14, 10)

    def forward(self, x):
        return self.head(self.body(x))


app = ServerApp()


@app.main()
def main(grid, context):
    arrays = ArrayRecord(Small().state_dict())
    FedAvg().start(grid, arrays, num_rounds=context.run_config["rounds"])
