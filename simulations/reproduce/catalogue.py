"""PAPERS: the five papers and a question of our own, one file each."""

from fedpriv.errors import BadOption
from fedpriv.scenario.binding import nearest
from fedpriv.simulations.reproduce.experiment import Experiment, Paper
from fedpriv.simulations.reproduce.papers import arl, ars, ats, ran, sharing, spn

PAPERS: tuple[Paper, ...] = (
    spn.PAPER,
    ats.PAPER,
    ars.PAPER,
    ran.PAPER,
    arl.PAPER,
    sharing.PAPER,
)
ALL = "all"


def experiments_of(name: str) -> list[Experiment]:
    """Those of a paper or of all papers that do not take hours, or the one of that name."""
    every = [one for paper in PAPERS for one in paper.experiments]
    by_paper = {
        paper.name.lower(): [one for one in paper.experiments if not one.alone] for paper in PAPERS
    }
    by_name = {one.name: [one] for one in every}
    known = {**by_name, **by_paper, ALL: [one for one in every if not one.alone]}
    if name not in known:
        raise BadOption(
            f"There is no paper or experiment '{name}'.{nearest(name, known)} Choose from: "
            f"{', '.join([*by_paper, ALL, *by_name])}."
        )
    return known[name]
