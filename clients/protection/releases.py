"""What a real client has released in a run is released once: the next request gets the same bytes.

Codes have noise in them that no ε counts. With other noise in every answer, a server would ask for
the same samples again and again and take the mean. With the same noise for two encoders, it would
subtract one answer from the other. So the released codes themselves are kept, for each encoder
that was received. How many encoders a server may send is for the client's terms to say.
"""

from collections.abc import Callable

from fedpriv.clients.job import Job
from fedpriv.clients.protection.secret import SeededForSimulation
from fedpriv.state import State

MEMORY = "released"


def once(job: Job, what: str, make: Callable[[], State]) -> State:
    """What this run was given under the name `what`; made and kept when it is asked for first.

    A simulation keeps nothing: its seeds make the same release again.
    """
    if isinstance(job.secret, SeededForSimulation):
        return make()
    key = f"{MEMORY}.{what}"
    found = job.recall(key)
    if found is None:
        found = make()
        job.remember(key, found)
    return found
