"""What to do after the verdict on an app: the command that would decide what is open."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedpriv.metrics.rates import SHARE, mean_at_most
from fedpriv.simulations.apps import handing
from fedpriv.simulations.apps.choosing import CLIENTS, SIMULATED
from fedpriv.simulations.apps.handing import Handed
from fedpriv.simulations.apps.launching import Job
from fedpriv.simulations.judging.outcome import Outcome

SPARE = 1.25  # more clients than are needed, where a round draws some of them at random


def command_of(job: Job, **changed: Any) -> str:
    """The audit as people type it, with some options changed."""
    wanted = replace(job, **changed)
    words = ["fedpriv", "audit", "--app", wanted.app]
    for one in wanted.run_config:
        words += ["--run-config", one]
    for one in wanted.data:
        words += ["--data", one]
    if wanted.clients is not None:
        words += ["--clients", str(wanted.clients)]
    return shlex.join([*words, "--minutes", f"{wanted.minutes:g}"])


def too_few(found: Sequence[Outcome], alone: Handed | None) -> bool:
    """Whether samples are undecided only because too few clients were attacked."""
    own = [one for one in found if one.claim == "sample"]
    if alone is not None and alone.outcome is not None and not (alone.open or alone.badly):
        own += [alone.outcome] if not alone.outcome.hits else []
    return any(one.word == "undecided" and one.clients < CLIENTS for one in own)


def few_drawn(alone: Handed | None) -> bool:
    """Whether so few samples were drawn that the bound would hold if more clients were attacked."""
    if alone is None or alone.outcome is None or alone.open or alone.badly:
        return False
    one = alone.outcome
    share = one.hits / max(1, one.victims)
    return (
        one.word == "undecided"
        and 0 < one.clients < handing.CLIENTS
        and mean_at_most([share] * handing.CLIENTS) <= SHARE
    )


def deciding(
    job: Job,
    config: Mapping[str, Any],
    clients: int,
    places: Sequence[tuple[int, int]],
    found: Sequence[Outcome],
    alone: Handed | None,
    whole: bool,
) -> dict[str, str] | None:
    """The same audit with what it lacked; nothing where that is no matter of options.

    `places` are (round, client) of all that took part in the training.
    """
    late = not whole or (alone is not None and alone.late)
    if late:
        more = math.ceil(2 * job.minutes)
        return {
            "what": "The time was up. Give the audit twice as much:",
            "command": command_of(job, minutes=more),
        }
    if too_few(found, alone):
        return more_clients(job, config, clients, places)
    if few_drawn(alone) and clients < handing.CLIENTS:
        return {
            "what": f"Of {handing.CLIENTS} clients, so small a share of samples would be within "
            "the bound. This simulates them with the same data:",
            "command": command_of(job, clients=handing.CLIENTS),
        }
    key, epochs = setting(config, "epoch")
    if alone is not None and alone.open and epochs > 1:
        return {
            "what": "In one epoch every sample enters once, and single steps decide. See whether "
            "the app would hold then:",
            "command": command_of(job, run_config=(*job.run_config, f"{key}=1")),
        }
    return None


def more_clients(
    job: Job, config: Mapping[str, Any], clients: int, places: Sequence[tuple[int, int]]
) -> dict[str, str]:
    """More rounds where enough clients are there and were not asked; else more clients."""
    met = len({node for _, node in places})
    rounds = len({number for number, _ in places})
    key, trained = setting(config, "round")
    part = min(1.0, len(places) / max(1, rounds * clients))
    reach = SPARE * CLIENTS
    if met < clients and clients > reach and key and trained >= rounds:
        wanted = math.ceil(math.log(1 - reach / clients) / math.log(1 - part))
        return {
            "what": f"{met} of {clients} clients took part, and a claim about a tenth of clients "
            f"needs {CLIENTS}. Train more rounds:",
            "command": command_of(job, run_config=(*job.run_config, f"{key}={wanted}")),
        }
    wanted = SIMULATED if met == clients else math.ceil(reach * clients / max(1, met))
    return {
        "what": f"{met} clients are too few for a claim about a tenth of clients, which needs "
        f"{CLIENTS}. This simulates {wanted} with the same data, so that each has fewer samples "
        "and mixes fewer into an update:",
        "command": command_of(job, clients=wanted),
    }


def setting(config: Mapping[str, Any], word: str) -> tuple[str, int]:
    """The app's setting that is a whole number and has this word in its name."""
    for key, value in config.items():
        if word in key and isinstance(value, int) and not isinstance(value, bool):
            return key, value
    return "", 0
