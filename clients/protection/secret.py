"""The seed of a client's secrets: its own, never in a message and never derived from a message.

The run's seed is in the scenario, which the server writes; a server that could recompute a
client's batch order, noise or class codes would need no attack. In a simulation the seed comes with the
node's own configuration, so that a run can be repeated; a real client draws it from the system.
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
