"""A small federation in this process in which one client answers as it likes."""

from flwr.clientapp import ClientApp

from fedpriv.clients.app import app as honest
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import first_state
from fedpriv.simulations.federation.backends import InlineBackend
from fedpriv.simulations.federation.contexts import contexts_of
from fedpriv.simulations.federation.grid import SimulationGrid
from fedpriv.strategies.catalogue import row_of, strategy_of
from fedpriv.strategies.curious import Curious
from fedpriv.strategies.knowledge import recorder_of
from fedpriv.strategies.roster import roster_of
from fedpriv.strategies.rounds import Federated
from fedpriv.strategies.secagg import observer_on, secured

ODD = 1  # the partition of the client that plays the enemy


def world(**sections):
    tables = {
        "name": "odd",
        "seed": 3,
        "data": {"name": "synthetic", "options": {"train": 60, "test": 20, "size": 4}},
        "model": {"name": "mlp", "hidden": [4]},
        "training": {"lr": 0.1, "batch-size": 4, "local-steps": 1},
        "federation": {"clients": 3, "rounds": 1, "backend": "inline"},
    }
    return from_tables(tables | {k: tables.get(k, {}) | v for k, v in sections.items()})


def answering(odd):
    """The honest app, but for one client: `odd` gives its answer to a kind of message, or None."""
    app = ClientApp()

    def handler(message, context):
        reply = honest(message, context)
        mine = context.node_config["partition-id"] == ODD
        how = odd(message.metadata.message_type) if mine else None
        return reply if how is None else how(reply, message)

    for register in (app.train, app.query, app.evaluate):
        register()(handler)
    for kind in ("encoder", "columns", "pool", "standalone"):
        app.train(kind)(handler)
    app.query("codes")(handler)
    return app


def enemy(kinds, on="train"):
    """An app that answers one kind of message by the next of the kinds each time."""
    left = list(kinds)
    return answering(lambda kind: left.pop(0) if kind == on and left else None)


def run_of(scenario, app, grid=SimulationGrid, observe=None):
    """A federation and the records of its rounds."""
    backend = InlineBackend()
    backend.build(lambda: app)
    roster, records = roster_of(scenario), []
    contexts = contexts_of(scenario, {"scenario": scenario.text()})
    net = secured(grid(backend, contexts), scenario)
    strategy = strategy_of(scenario, roster)
    if observe is not None:
        recorder = recorder_of(scenario, observe, roster)
        strategy = Curious(strategy, observer_on(net, recorder, roster.clients))
    run = Federated(
        strategy=strategy,
        grid=net,
        roster=roster,
        seed=scenario.seed,
        evaluate=lambda state: {"accuracy": 0.0, "loss": 0.0},
        on_round=lambda record, state: records.append(record) or True,
    )
    return run, records


def lines(record):
    """All that a round says of the enemy."""
    return [one["why"] for one in record["failed"] + record.get("odd", []) if one["client"] == ODD]


def rounds_of(kinds, *, on="train", scenario=None, **options):
    """One run with a round for each kind: its last state, and the records by kind."""
    scenario = scenario or world()
    run, records = run_of(scenario, enemy([how for how, _ in kinds.values()], on), **options)
    start = {} if row_of(scenario).reply == "codes" else first_state(scenario)
    end = run.run(start, range(1, len(kinds) + 1))
    return end, dict(zip(kinds, records, strict=True))
