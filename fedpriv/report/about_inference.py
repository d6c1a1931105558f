"""The sections of a page about a training set: who was in it, whose a sample is, what clients hold.

All figures come from the scores: a row for every member, every sample with an owner, every client.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedpriv.metrics.membership import Exposure, chance_found, curve, exposure
from fedpriv.metrics.permutations import chance_of
from fedpriv.metrics.rates import LEVEL, exact_interval
from fedpriv.report.blocks import Cell, Section, Table, Tile
from fedpriv.report.charts import Chart, confusion_of_owners, percent, roc_curves
from fedpriv.report.gallery import picture_uri
from fedpriv.report.reading import Run
from fedpriv.scenario.built import dataset_of

FPR, RANK, OWNED, SHARES, RATES = (
    "member-fpr",
    "member-rank",
    "traced-hit",
    "class-share-error",
    "rate-error",
)
SHOWN = 12  # of the most exposed members


def inference_sections(runs: Sequence[Run], scores: pd.DataFrame) -> list[Section]:
    """Those that have something to show."""
    several = len(runs) > 1
    sections = [_members(runs, scores, several), _owners(scores, several), _holds(scores, several)]
    return [section for section in sections if section]


def groups(scores: pd.DataFrame, column: str) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Run, attack and the rows of each that have the column."""
    if column not in scores:
        return
    known = scores[scores[column].notna()]
    for (run, attack), rows in known.groupby(["run", "attack"], sort=False):
        yield str(run), str(attack), rows


def exposed(rows: pd.DataFrame) -> Exposure:
    return exposure(rows[FPR].tolist(), rows[RANK].tolist(), int(rows["others"].iloc[0]))


def _members(runs: Sequence[Run], scores: pd.DataFrame, several: bool) -> Section:
    found = [(run, attack, rows, exposed(rows)) for run, attack, rows in groups(scores, FPR)]
    if not found:
        return Section("members", "Who was in the training set")
    found.sort(key=lambda one: -one[3].found)
    lines = [
        (
            *((run,) if several else ()),
            attack,
            f"{e.members} / {e.others}",
            f"{e.auc:.3f} ± {e.auc_error:.3f}",
            Cell(f"{e.found:.1%} ({e.found_low:.1%}–{e.found_high:.1%})", _mark(e)),
            f"{e.strict:.1%} ({e.strict_low:.1%}–{e.strict_high:.1%})",
            percent(e.balanced),
            f"{e.advantage:.3f}",
            _gap(rows),
        )
        for run, attack, rows, e in found
    ]
    columns = (
        *(("run",) if several else ()),
        "attack",
        "members / held out",
        "AUC",
        "found at 1 % FPR",
        "found at 0.1 % FPR",
        "balanced accuracy",
        "advantage",
        "generalisation gap",
    )
    table = Table(
        "Members found by attack", columns, lines, frozenset(range(1 + several, len(columns)))
    )
    curves = [
        (f"{run} · {attack}" if several else attack, *curve(rows[FPR].to_numpy(float)), e.others)
        for run, attack, rows, e in found
    ]
    words = (
        "A member is found at the false-positive rate at which the attacker accuses it: the share "
        "of held-out samples that score at least as high. A blind guess finds 1 % of members at "
        "1 % FPR, and its AUC is 0.5. Intervals are exact at 95 %; ± is one standard error. The "
        "generalisation gap is the model's accuracy on members minus that on held-out samples: an "
        "over-fitted model flatters every attack."
    )
    return Section(
        "members",
        "Who was in the training set",
        words,
        [roc_curves(curves)],
        [table, _risk(scores, several)],
        tiles=[tile for run in runs for tile in _most_exposed(run, scores)],
    )


def _mark(e: Exposure) -> str:
    """Bad where scores without meaning would hardly find so many."""
    hits = round(e.found * e.members)
    return "bad" if chance_found(hits, e.members, e.others) < 1 - LEVEL else ""


def _gap(rows: pd.DataFrame) -> str:
    return percent(float(rows["gap"].iloc[0])) if "gap" in rows else "–"


def by_sample(scores: pd.DataFrame) -> pd.DataFrame:
    """Members by the mean over attacks of the share of held-out samples below them."""
    known = scores[scores[RANK].notna()]
    risk = known.groupby(["run", "node", "victim"], sort=False)[[RANK, FPR, "member-hit"]]
    found = risk.agg({RANK: "mean", FPR: "min", "member-hit": "sum"}).reset_index()
    return found.sort_values([RANK], ascending=False, kind="stable")


def _risk(scores: pd.DataFrame, several: bool) -> Table:
    attacks = scores[scores[RANK].notna()]["attack"].nunique()
    rows = [
        (
            *((row["run"],) if several else ()),
            int(row["victim"]),
            int(row["node"]),
            percent(row[RANK]),
            f"{row[FPR]:.3f}",
            f"{int(row['member-hit'])} of {attacks}",
        )
        for _, row in by_sample(scores).head(SHOWN).iterrows()
    ]
    columns = (
        *(("run",) if several else ()),
        "sample",
        "client",
        "held-out samples below it, mean over attacks",
        "lowest FPR",
        "found at 1 % FPR by",
    )
    return Table("The most exposed members", columns, rows, frozenset(range(len(columns))))


def _most_exposed(run: Run, scores: pd.DataFrame) -> list[Tile]:
    """Pictures of the most exposed members, where the run's own candidates are pictures."""
    candidates, key = run.folder.candidates(), run.folder.key()
    own = scores[(scores["run"] == run.name)]
    if candidates is None or key is None or candidates.x.dim() != 4 or own[RANK].isna().all():
        return []
    place = {int(number): i for i, number in enumerate(key.numbers.tolist())}
    found = by_sample(own).head(SHOWN)
    pixels = as_pixels(run, candidates.x)
    return [
        Tile(
            f"sample {int(row['victim'])} of client {int(row['node'])} · "
            f"{row[RANK]:.0%} of held-out samples below it",
            (("a member", picture_uri(pixels[place[int(row["victim"])]].numpy())),),
        )
        for _, row in found.iterrows()
        if int(row["victim"]) in place
    ]


def as_pixels(run: Run, x: Tensor) -> Tensor:
    """Pictures in [0, 1]; what is known of an app's own data is in its facts."""
    if not run.app:
        return dataset_of(run.scenario).denormalised(x)
    facts = run.app.get("facts", {})
    mean, std = (torch.tensor(facts.get(key) or [0.0]).view(-1, 1, 1) for key in ("mean", "std"))
    return (x * std + mean).clamp(0, 1) if facts.get("std") else x.clamp(0, 1)


def _owners(scores: pd.DataFrame, several: bool) -> Section:
    known = scores[scores["claim"] == "owner"] if "claim" in scores else pd.DataFrame()
    rows: list[tuple[Any, ...]] = []
    charts: list[Chart] = []
    for run, attack, own in groups(known, OWNED) if len(known) else ():
        hits, count = int(own[OWNED].sum()), len(own)
        low, high = exact_interval(hits, count)
        blind = float(own[f"{OWNED}-blind"].mean()) if f"{OWNED}-blind" in own else float("nan")
        guess, truth = own["guess"].to_numpy(int), own["truth"].to_numpy(int)
        rows.append(
            (
                *((run,) if several else ()),
                attack,
                count,
                f"{hits / count:.1%} ({low:.1%}–{high:.1%})",
                percent(blind),
                f"{chance_of(guess, truth):.4f}",
            )
        )
        name = f"{run} · {attack}" if several else attack
        charts.append(confusion_of_owners(guess, truth, name))
    if not rows:
        return Section("owners", "Whose sample it is")
    columns = (
        *(("run",) if several else ()),
        "attack",
        "samples",
        "owner right",
        "blind guess",
        "p of a permutation",
    )
    table = Table("Owners found by attack", columns, rows, frozenset(range(1 + several, 5)))
    words = (
        "Every sample is a member; the attacker says whose. The last column is the chance that "
        "guesses dealt out to the samples at random are right as often: owners are exchanged, and "
        "the guesses stay."
    )
    return Section("owners", "Whose sample it is", words, charts[:4], [table])


def _holds(scores: pd.DataFrame, several: bool) -> Section:
    rows = []
    for column, word in ((SHARES, "class shares"), (RATES, "rate of an attribute")):
        for run, attack, own in groups(scores, column):
            blind = own[f"{column}-blind"] if f"{column}-blind" in own else pd.Series([np.nan])
            rows.append(
                (
                    *((run,) if several else ()),
                    word,
                    attack,
                    len(own),
                    f"{own[column].mean():.3f}",
                    f"{blind.mean():.3f}",
                    f"{own[column].min():.3f} (client {own.sort_values(column)['node'].iloc[0]})",
                    f"{(own[column].to_numpy() < blind.to_numpy()).mean():.0%}",
                )
            )
    if not rows:
        return Section("holds", "What a client holds")
    columns = (
        *(("run",) if several else ()),
        "what",
        "attack",
        "clients",
        "mean error",
        "blind guess",
        "best read",
        "better than blind",
    )
    words = (
        "The error of class shares is the sum over classes of |guessed − true share|, from 0 to 2. "
        "The blind guess gives every client the shares of public samples."
    )
    table = Table("What clients hold", columns, rows, frozenset(range(2 + several, len(columns))))
    return Section("holds", "What a client holds", words, tables=[table])
