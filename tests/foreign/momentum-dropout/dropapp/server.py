from flwr.common import ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg

from dropapp.client import build


def server_fn(context):
    first = ndarrays_to_parameters([p.detach().numpy() for p in build().parameters()])
    return ServerAppComponents(
        strategy=FedAvg(initial_parameters=first),
        config=ServerConfig(num_rounds=context.run_config["num-rounds"]),
    )


app = ServerApp(server_fn=server_fn)
