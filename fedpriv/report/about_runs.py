"""The sections of a page that tell of runs."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from fedpriv.metrics.gates import Gate
from fedpriv.report.about_audits import audit_section
from fedpriv.report.about_epsilon import epsilon_section
from fedpriv.report.about_inference import inference_sections
from fedpriv.report.blocks import Block, Cell, Section, Table, environment_blocks
from fedpriv.report.charts import accuracy_by_round, interval, leakage_by_round, percent, trade_off
from fedpriv.report.gallery import tiles
from fedpriv.report.leakage import Measure, Summary, grouped, measures, summary
from fedpriv.report.marks import knows, marked, with_front
from fedpriv.report.reading import Run
from fedpriv.scenario import Scenario

GALLERY = 24


def all_scores(runs: Sequence[Run]) -> pd.DataFrame:
    """The scores of every run, with the run's name in `run`."""
    frames = [run.scores.assign(run=run.name) for run in runs if not run.scores.empty]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def run_sections(
    runs: list[Run], scores: pd.DataFrame, what: Measure | None, gates: Sequence[Gate] = ()
) -> list[Section]:
    """Every section that has something to show, in reading order; `what` decides the verdict."""
    sections = [
        _comparison(runs, scores, what),
        *map(audit_section, runs),
        *map(epsilon_section, runs),
    ]
    sections += [*inference_sections(runs, scores), _training(runs)]
    if what is not None:
        sections += [
            _leakage(scores, what, len(runs) > 1, gates),
            _gallery(runs, what),
            _informed(scores, what),
        ]
    sections += [_clients(runs, what), _preflight(runs), _settings(runs)]
    return [section for section in sections if section]


def _figures(numbers: Summary, what: Measure) -> tuple[Any, ...]:
    return (
        numbers.count,
        what.shown(numbers.median),
        interval(numbers.low, numbers.high, 1 if what.unit else 3),
        marked(numbers.worst, what),
        what.shown(numbers.blind),
        f"{numbers.over} of {numbers.victims} ({numbers.share_low:.0%}–{numbers.share_high:.0%})"
        if what.bound is not None
        else "–",
    )


_FIGURES = ("scores", "median", "95 % interval", "worst", "blind guess", "beyond the bound")


def _comparison(runs: list[Run], scores: pd.DataFrame, what: Measure | None) -> Section:
    if len(runs) < 2:
        return Section("runs", "Runs")
    rows, points = [], []
    for run in runs:
        own = scores[scores["run"] == run.name] if what is not None else pd.DataFrame()
        numbers = summary(own, what) if what is not None and len(own) else None
        rows.append(
            (
                run.name,
                run.defence,
                percent(run.accuracy),
                what.shown(numbers.median) if what and numbers else "–",
                interval(numbers.low, numbers.high) if numbers else "–",
                marked(numbers.worst, what) if what and numbers else "–",
                run.epsilon,
                f"{run.total('seconds'):.1f}",
                f"{run.total('bytes-up') / 2**20:.2f}",
            )
        )
        if numbers and run.accuracy is not None:
            points.append({"name": run.name, "accuracy": run.accuracy, "leak": numbers.median})
    name = what.word if what else "leak"
    columns = ("run", "defence", "accuracy", f"median {name}", "95 % interval", "worst", "ε")
    table = Table(
        "The runs side by side",
        (*columns, "seconds", "MiB up"),
        rows,
        frozenset(range(2, 9)),
    )
    charts = []
    if what and len(points) > 1:
        charts = [trade_off(with_front(pd.DataFrame(points), what), what)]
    return Section("runs", "Runs side by side", charts=charts, tables=[table])


def _training(runs: list[Run]) -> Section:
    shown = [run for run in runs if run.rounds]
    charts = [accuracy_by_round(shown)] if shown else []
    failures = [
        (run.name, record["round"], failure["client"], failure["why"])
        for run in runs
        for record in run.rounds
        for failure in (*record.get("failed", ()), *record.get("odd", ()))
    ]
    tables = []
    if failures:
        columns = ("run", "round", "client", "why")
        tables = [
            Table("Clients that gave no usable answer, or an odd one", columns, failures[:50])
        ]
    return Section("training", "Training", charts=charts, tables=tables)


def _leakage(scores: pd.DataFrame, what: Measure, several: bool, gates: Sequence[Gate]) -> Section:
    keys = [*(["run"] if several else []), "attack", *(["batch"] if "batch" in scores else [])]
    rows = [
        (*found, f"{each.word}{_limit(each)}", *_figures(numbers, each))
        for each in measures(scores, gates)
        if each.metric.of != "member"  # a section of its own has its shares, not medians
        for found, numbers in grouped(scores, keys, each)
    ]
    columns = (*keys, "metric", *_FIGURES)
    numbers = frozenset(range(len(keys) + 1, len(columns)))
    table = Table("Leakage by attack and metric", columns, rows, numbers)
    words = (
        "Each point is the median over the scores of that round; whiskers are its 95 % bootstrap "
        "interval. A sample counts once in the last column, by its worst score; that interval is "
        "exact. A blind guess is made without evidence: the mean public sample, the most "
        "frequent label. One leaked sample is enough to call it a leak, so the worst one decides."
    )
    charts = [leakage_by_round(scores, what, several)]
    return Section("leakage", "Leakage", words, charts, [table])


def _limit(what: Measure) -> str:
    """` (bound 20.0 dB)`."""
    return f" (bound {what.shown(what.bound)})" if what.bound is not None else ""


def _gallery(runs: list[Run], what: Measure) -> Section:
    each = max(4, GALLERY // max(1, len(runs)))
    found = [
        tile
        for run in runs
        for tile in tiles(run.folder, run.scores, what, each, run.name if len(runs) > 1 else "")
    ]
    total = sum(len(run.scores) for run in runs)
    whose = " of each run" if len(runs) > 1 else ""
    words = f"The worst leaks{whose} first: {len(found)} pictures, {total} reconstructions in all."
    return Section("gallery", "What the server could see", words, tiles=found)


def _informed(scores: pd.DataFrame, what: Measure) -> Section:
    if "knows" not in scores.columns or scores["knows"].nunique() < 2:
        return Section("informed", "Attackers who know the defence")
    named = scores.assign(knows=scores["knows"].map(knows))
    keys = ["run", "knows", "attack"] if scores["run"].nunique() > 1 else ["knows", "attack"]
    rows = [(*found, *_figures(numbers, what)) for found, numbers in grouped(named, keys, what)]
    columns = (*keys, *_FIGURES)
    table = Table(
        "The same updates, attacked with and without knowledge of the defence",
        columns,
        rows,
        frozenset(range(len(keys), len(columns))),
    )
    words = "A defence that only holds against attackers who do not know of it does not hold."
    return Section("informed", "Attackers who know the defence", words, tables=[table])


def _clients(runs: list[Run], what: Measure | None) -> Section:
    tables = [found for run in runs if (found := _client_table(run, what)).rows]
    return Section("clients", "Clients", tables=tables)


def _client_table(run: Run, what: Measure | None) -> Table:
    """Client, samples, ε, worst leak and verdict, for every client that is known of."""
    samples = _samples(run)
    leaks = {}
    if what is not None and what.name in run.scores.columns:
        leaks = {str(found[0]): n for found, n in grouped(run.scores, ["node"], what)}
    rows = []
    for client in sorted(samples.keys() | leaks.keys(), key=lambda name: name.zfill(12)):
        numbers = leaks.get(client)
        rows.append(
            (
                client,
                samples.get(client, "–"),
                run.epsilon,
                marked(numbers.worst, what) if numbers and what else "not attacked",
                _word(numbers, what),
            )
        )
    worst = f"worst {what.word}" if what else "worst leak"
    columns = ("client", "samples", "ε spent", worst, "verdict")
    return Table(f"Clients of {run.name}", columns, rows, frozenset({1, 2, 3}))


def _word(numbers: Summary | None, what: Measure | None) -> Cell:
    if numbers is None or what is None or what.bound is None:
        return Cell("–")
    if numbers.over:
        return Cell("leaks", "bad")
    return Cell("close", "near") if what.near(numbers.worst) else Cell("holds", "good")


def _samples(run: Run) -> dict[str, int]:
    """Samples by client, from partition.csv."""
    frame = run.partition
    column = next((name for name in ("client", "partition", "node") if name in frame), None)
    if column is None:
        return {}
    count = next((name for name in ("samples", "total", "num_examples") if name in frame), None)
    if count is not None:
        return {str(row[column]): int(row[count]) for _, row in frame.iterrows()}
    numbers = frame.drop(columns=[column]).select_dtypes("number").sum(axis=1)
    return {str(name): int(total) for name, total in zip(frame[column], numbers, strict=True)}


def _preflight(runs: list[Run]) -> Section:
    rows = [
        (
            run.name,
            finding["cause"],
            finding["severity"],
            _listed(finding.get("evidence") or finding.get("updates", [])),
            finding.get("detail", ""),
        )
        for run in runs
        for finding in run.findings
    ]
    columns = ("run", "condition", "how bad", "met in", "finding")
    tables = [Table("What stands in the way of an attack", columns, rows)] if rows else []
    return Section("preflight", "Preflight findings", tables=tables)


def _listed(names: Sequence[str], most: int = 6) -> str:
    """The first names, and how many more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _settings(runs: list[Run]) -> Section:
    """Settings, seeds, versions and commands: what a stranger needs to get the same numbers."""
    rows = [
        (run.name, run.scenario.seed, *map(_environment(run), ("python", "platform", "commit")))
        for run in runs
    ]
    table = Table("Seeds and machines", ("run", "seed", "python", "machine", "commit"), rows)
    blocks = [
        block
        for run in runs
        for block in (
            *promise_blocks(run),
            *environment_blocks(run.environment, run.name),
            settings_block(run),
        )
    ]
    return Section("settings", "Settings", tables=[table], blocks=blocks)


def settings_block(run: Run) -> Block:
    """The scenario; of somebody's app who it is and the facts that were found."""
    if not run.app:
        return Block(f"The scenario of {run.name}", run.scenario.toml())
    return Block(f"The Flower app {run.app['name']}", json.dumps(run.app, indent=1))


def epsilon_means(scenario: Scenario) -> str:
    """Unit, neighbours, accountant and δ of a sample-level ε; nothing without `dp`."""
    options = next((spec.options for spec in scenario.plugins if spec.name == "dp"), None)
    if options is None:
        return ""
    return (
        "unit: one sample of one client; neighbours: add or remove one sample; accountant: "
        f"{options.get('accountant', 'rdp')}; δ = {options.get('delta', 1e-5):g}; the largest of "
        "all clients, as they claim"
    )


def promise_blocks(run: Run) -> Iterator[Block]:
    """What an ε on the page is about, and where clients took their randomness from."""
    meaning = epsilon_means(run.scenario)
    if meaning:
        yield Block(f"What ε of {run.name} says", meaning)
    randomness = run.environment.get("client-randomness")
    if randomness:
        yield Block(f"Where clients of {run.name} took their randomness from", randomness)


def _environment(run: Run) -> Callable[[str], str]:
    return lambda key: str(run.environment.get(key) or "–")
