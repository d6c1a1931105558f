"""The ServerApp: scenario -> strategy -> rounds -> run folder.

A simulation and a deployment run the same app.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedpriv.device import device_of
from fedpriv.errors import BadFolder
from fedpriv.lock import ORPHANS, held
from fedpriv.runfolder import RunFolder, new_folder
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import first_state, loaded, model_of, test_samples
from fedpriv.state import State
from fedpriv.strategies.catalogue import row_of, strategy_of
from fedpriv.strategies.curious import Curious
from fedpriv.strategies.knowledge import recorder_of
from fedpriv.strategies.malicious.catalogue import malicious_of
from fedpriv.strategies.pulling import careful
from fedpriv.strategies.roster import roster_of
from fedpriv.strategies.rounds import Federated, Listener, Record
from fedpriv.strategies.secagg import observer_on, secured
from fedpriv.strategies.user_privacy import UserLevel
from fedpriv.training import evaluate

log = logging.getLogger(__name__)
Main = Callable[[Grid, Context], None]


class Evaluation:
    """Test-set loss and accuracy of a public state, on one model built once."""

    def __init__(self, scenario: Scenario) -> None:
        self.device = device_of(scenario.federation.device)
        self.model = model_of(scenario).to(self.device)
        self.x, self.y = (part.to(self.device) for part in test_samples(scenario))

    def __call__(self, state: State) -> Mapping[str, float]:
        loss, accuracy = evaluate(loaded(self.model, state), self.x, self.y)
        return {"accuracy": accuracy, "loss": loss}


# Who simulates clients says in the run's configuration where their randomness comes from.
RANDOMNESS = "client-randomness"
CLAIMED = "each client's own system, as the clients claim"


def opened(run_config: Mapping[str, Any], scenario: Scenario) -> RunFolder:
    """The run folder, started or, with `resume`, found fit to go on."""
    out = str(run_config.get("out", ""))
    folder = RunFolder(Path(out)) if out else new_folder(scenario.name)
    if not run_config.get("resume"):
        folder.start(scenario, str(run_config.get(RANDOMNESS, CLAIMED)))
        return folder
    if folder.scenario() != scenario:
        raise BadFolder(
            f"'{folder.path}' was started with other settings; resume it with its own "
            "scenario.toml, or give another --out."
        )
    folder.keep_rounds(folder.last_round()["round"])
    return folder


def in_order_of(first: State, kept: State) -> State:
    """A checkpoint in the order of the model.

    A plugin that draws noise for one tensor after the other must draw the same after a resume.
    """
    names = [*(name for name in first if name in kept), *sorted(kept.keys() - first.keys())]
    return {name: kept[name] for name in names}


def alone_in_its_folder(main: Main) -> Main:
    """A main that has the folder it is told for itself; a new folder is nobody else's."""

    def locked(grid: Grid, context: Context) -> None:
        out = str(context.run_config.get("out", ""))
        with held(Path(out), patience=ORPHANS) if out else nullcontext():
            main(grid, context)

    return locked


def server_app(listener: Listener | None = None, *, simulated: bool = False) -> ServerApp:
    """A ServerApp that tells `listener` how the run goes.

    Its noise comes from the system; with `simulated`, from the seed, so that it can be repeated.
    """
    app = ServerApp()

    @app.main()
    @alone_in_its_folder
    def main(grid: Grid, context: Context) -> None:
        scenario = Scenario.of(context.run_config)
        folder = opened(context.run_config, scenario)
        done = folder.last_round()["round"]
        state = first_state(scenario)
        if folder.has_checkpoint():
            state = in_order_of(state, folder.checkpoint_state())
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

        roster = roster_of(scenario)
        net = secured(careful(grid), scenario)
        strategy = strategy_of(scenario, roster)
        if isinstance(strategy, UserLevel):
            strategy.resumed(folder.rounds())
            if simulated:
                strategy.simulated()
        strategy = malicious_of(scenario, strategy, roster)
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
