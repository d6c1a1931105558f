from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from bnapp.net import network

app = ServerApp()


@app.main()
def main(grid, context):
    strategy = FedAvg(arrayrecord_key="weights", fraction_evaluate=0.0)
    strategy.start(grid, ArrayRecord(network().state_dict()), context.run_config["rounds"])
