"""The sections of a page that tell of sweeps: PPC curves, CAP and Pareto tables, who knew what."""

from fedpriv.report.parts import Section
from fedpriv.report.reading import Grid
from fedpriv.report.verdict import Verdict


def sweep_sections(grid: Grid, several: bool) -> list[Section]:
    return []


def verdict_of_sweep(grid: Grid) -> Verdict:
    return Verdict("grey", ())
