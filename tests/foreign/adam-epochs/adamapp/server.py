from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from adamapp.model import DigitNet

app = ServerApp()


@app.main()
def main(grid, ctx):
    FedAvg().start(grid, ArrayRecord(DigitNet(6).state_dict()), ctx.run_config["rounds"])
