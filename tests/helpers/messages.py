"""What a server sends to a client of this process, and what comes back: one `ask` for all tests."""

from flwr.app import ConfigRecord, Context, Message, RecordDict

from fedpriv.clients.app import app
from fedpriv.scenario.built import first_state
from fedpriv.wire import content, received


def context_of(scenario, partition=0, *, run=1, secret_seed=11, **own):
    """A client's context and node configuration; without a secret seed it is a real client's."""
    node = {"partition-id": partition, "secret-seed": secret_seed} | {
        key.replace("_", "-"): value for key, value in own.items()
    }
    return Context(
        run_id=run,
        node_id=partition + 2,
        node_config={key: value for key, value in node.items() if value is not None},
        state=RecordDict(),
        run_config={"scenario": scenario.text()},
    )


def message_of(state=None, server_round=1, kind="train", node=2):
    """A message with a state, if any, that belongs to a round, if any."""
    config = ConfigRecord({} if server_round is None else {"server-round": server_round})
    return Message(content(state, config=config), node, kind)


def ask(scenario, context=None, state=None, server_round=1, kind="train"):
    """A client's reply; it is sent the scenario's first model unless told otherwise."""
    context = context_of(scenario) if context is None else context
    state = first_state(scenario) if state is None else state
    return app(message_of(state, server_round, kind, context.node_id), context)


def answered(reply):
    """The state in a reply that must not be an error."""
    assert not reply.has_error(), reply.error.reason
    return received(reply)
