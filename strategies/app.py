"""The ServerApp: scenario -> strategy -> rounds -> run folder; the same in simulation and
deployment.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedpriv.errors import BadFolder
from fedpriv.runfolder import RunFolder, new_folder
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import device_of, first_state, loaded, model_of, test_samples
from fedpriv.state import State
from fedpriv.strategies.catalogue import row_of, strategy_of
from fedpriv.strategies.curious import Curious
from fedpriv.strategies.knowledge import recorder_of
from fedpriv.strategies.malicious.catalogue import malicious_of
from fedpriv.strategies.roster import Roster
from fedpriv.strategies.rounds import Federated, Listener, Record
from fedpriv.strategies.secagg import observer_on, secured
from fedpriv.training import evaluate

log = logging.getLogger(__name__)


class Evaluation:
    """Test-set loss and accuracy of a public state, on one model built once."""

    def __init__(self, scenario: Scenario) -> None:
        self.device = device_of(scenario.federation.device)
        self.model = model_of(scenario).to(self.device)
        self.x, self.y = (part.to(self.device) for part in test_samples(scenario))

    def __call__(self, state: State) -> Mapping[str, float]:
        loss, accuracy = evaluate(loaded(self.model, state), self.x, self.y)
        return {"accuracy": accuracy, "loss": loss}


def opened(run_config: Mapping[str, Any], scenario: Scenario) -> RunFolder:
    """The run folder, started or, with `resume`, found fit to go on."""
    out = str(run_config.get("out", ""))
    folder = RunFolder(Path(out)) if out else new_folder(scenario.name)
    if not run_config.get("resume"):
        folder.start(scenario)
        return folder
    if folder.scenario() != scenario:
        raise BadFolder(
            f"'{folder.path}' was started with other settings; resume it with its own "
            "scenario.toml, or give another --out."
        )
    folder.keep_rounds(folder.last_round()["round"])
    return folder


def server_app(listener: Listener | None = None) -> ServerApp:
    """A ServerApp that tells `listener` how the run goes."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        scenario = Scenario.of(context.run_config)
        folder = opened(context.run_config, scenario)
        done = folder.last_round()["round"]
        state = folder.checkpoint_state() if folder.has_checkpoint() else first_state(scenario)
        last = scenario.federation.rounds
        if listener:
            listener.on_start(done + 1, last)

        def on_round(record: Record, state: State) -> bool:
            going_on = listener.on_round(record, state) if listener else True
            if not listener:
                log.info("round %d: accuracy %.4f", record["round"], record["accuracy"])
            folder.add_round(record)
            folder.save_model(state, {"round": record["round"]})
            return going_on

        net, roster = secured(grid, scenario), Roster(scenario.federation.clients)
        strategy = malicious_of(scenario, strategy_of(scenario, roster), roster)
        if scenario.attacks and row_of(scenario).reply != "nothing":
            recorder = recorder_of(scenario, folder.observations, roster)
            strategy = Curious(strategy, observer_on(net, recorder, roster.clients))
        Federated(
            strategy=strategy,
            grid=net,
            roster=roster,
            seed=scenario.seed,
            evaluate=Evaluation(scenario),
            min_clients=scenario.federation.min_clients,
            timeout=scenario.federation.timeout,
            on_round=on_round,
            going_on=listener.going_on if listener else lambda: True,
        ).run(state, range(done + 1, last + 1))

    return app


app = server_app()
