"""A real client in this process: its own folder, terms and ledger, and a server that asks."""

import json

from flwr.app import ConfigRecord, Context, Message, RecordDict

from fedpriv.clients.app import app
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import first_state
from fedpriv.wire import content

TASK = {
    "name": "task",
    "seed": 3,
    "data": {"name": "synthetic"},
    "model": {"name": "mlp"},
    "training": {"lr": 0.1, "batch-size": 8},
    "federation": {"clients": 4, "rounds": 100},
}
TERMS = 'tasks = ["synthetic"]\n'
DP = '[[plugins]]\nname = "dp"\nnoise-multiplier = 1.0\nbudget = 2.5\n'


def tables_of(**sections):
    merged = {
        key: {**TASK.get(key, {}), **value} if isinstance(value, dict) else value
        for key, value in sections.items()
    }
    return {**TASK, **merged}


def asked_for(**sections):
    """The scenario of a server, with some sections its own."""
    return from_tables(tables_of(**sections))


def unchecked(**sections):
    """The text that a server sends who does not check its own scenario."""
    return json.dumps(tables_of(**sections))


class RealClient:
    """A client without a secret seed, so that no simulation is involved; it may be restarted."""

    def __init__(self, folder, terms=TERMS, **own):
        self.folder = folder / "state"
        self.folder.mkdir(exist_ok=True)
        self.own = {"partition-id": 0, "num-partitions": 4, "state-folder": str(self.folder), **own}
        if terms is not None:
            self.owner_says(terms)

    def owner_says(self, terms):
        (self.folder / "terms.toml").write_text(terms)

    def ask(self, scenario, server_round=1, kind="train", state=None, run=1, config=None):
        """The reply to one message of a run; every one comes to a process that has just begun."""
        text = scenario if isinstance(scenario, str) else scenario.text()
        context = Context(run, 2, dict(self.own), RecordDict(), {"scenario": text})
        state = first_state(scenario) if state is None else state
        facts = {} if server_round is None else {"server-round": server_round}
        records = content(state, config=ConfigRecord({**facts, **(config or {})}))
        return app(Message(records, 2, kind), context)

    def answers(self, *arguments, **options):
        """Whether the client answers."""
        return not self.ask(*arguments, **options).has_error()

    def why(self, *arguments, **options):
        """Why the client does not answer."""
        reply = self.ask(*arguments, **options)
        assert reply.has_error(), "the client answered"
        return reply.error.reason
