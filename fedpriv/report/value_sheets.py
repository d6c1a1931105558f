"""Sheets of a sweep: what was drawn of every client under each value, such as each ε of dp."""

from collections.abc import Iterator

import pandas as pd

from fedpriv.report.blocks import Tile
from fedpriv.report.gallery import Pairs
from fedpriv.report.leakage import Measure
from fedpriv.runfolder import RunFolder

CLIENTS, SETTINGS = 5, 12  # pairs in a row, rows of a sheet


def by_value(folder: RunFolder, scores: pd.DataFrame, what: Measure) -> Iterator[Tile]:
    """A row for every setting in the order of the sweep: each client's sample and the best guess.

    The best guess is that of the sample that leaked most, by any attack, of the first seed and the
    smallest batch. Under dp every setting draws batches of its own, so that samples differ.
    """
    if not {what.name, "defence", "value", "node", "victim"} <= set(scores.columns):
        return
    scores = scores.dropna(subset=[what.name])
    for key in ("seed", "batch"):
        if key in scores and len(scores):
            scores = scores[scores[key] == scores[key].min()]
    settings = list(scores.groupby(["defence", "value"], sort=False, dropna=False))
    if len(settings) < 2:
        return
    pairs = Pairs(folder)
    for (defence, value), own in settings[:SETTINGS]:
        best = what.worst_first(own).drop_duplicates("node").sort_values("node")
        shown = []
        for _, row in best.head(CLIENTS).iterrows():
            drawn = dict(pairs.of(row))
            if drawn:
                said = what.shown(float(row[what.name]))
                shown += [(f"client {row['node']}", drawn["original"])]
                shown += [(said, drawn["reconstruction"])]
        if shown:
            yield Tile(f"{defence} {'' if str(value) == 'nan' else value}".strip(), tuple(shown))
