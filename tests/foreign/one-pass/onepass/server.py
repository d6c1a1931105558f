from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from onepass.client import build

app = ServerApp()


@app.main()
def main(grid, context):
    start = ArrayRecord(build().state_dict())
    FedAvg().start(
        grid=grid, initial_arrays=start, num_rounds=context.run_config["num-server-rounds"]
    )
