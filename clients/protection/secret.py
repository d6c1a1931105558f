"""The seed of a client's secrets: never in a message, and never derived from one.

The run's own seed is in the scenario, which the server writes. A server that knew the seed of a
client could compute its batch order, noise and class codes, and would need no attack. In a
simulation the seed is in the node's own configuration, so that a run can be repeated; a real client
draws it from the system.
"""

import secrets

from flwr.app import Context

from fedpriv.wire import Memory

KEY, SEED = "secret", "seed"


def secret_of(context: Context) -> int:
    """This client's secret seed, drawn on first use and kept."""
    given = context.node_config.get("secret-seed")
    if given is not None:
        return int(given)
    memory = Memory(context.state)
    facts = memory.facts(KEY)
    if SEED not in facts:
        facts = {SEED: secrets.randbits(62)}
        memory.note(KEY, facts)
    return int(facts[SEED])
