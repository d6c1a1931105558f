"""A run whose updates were kept, attacked here or by workers."""

from rich.console import Console

from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.judging.judge import scored_claims
from fedpriv.simulations.judging.recordings import of_run

RECORDED = {
    "training": {"batch-size": 1, "local-steps": 1},
    "keep-truth": True,
    "attacks": [{"name": "linear"}],
}


def recording(tiny, place):
    scenario = from_tables(merged(tiny.plain(), RECORDED))
    return simulate(scenario, RunFolder(place), PlainLines(Console(quiet=True)))


def scores_in(folder):
    """The scores as text, but for the time that attacks took."""
    return folder.scores().drop(columns="seconds").to_csv(index=False)


def attacked(recorded, place, attacks, **options):
    there = RunFolder(place)
    found = scored_claims(of_run(recorded), attacks, there, truth_of=recorded.truth_of, **options)
    return there, found
