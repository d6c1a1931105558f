"""fedpriv from Python and from notebooks: run a scenario, get tables back."""

import html
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from fedpriv.errors import BadOption
from fedpriv.report.about_runs import all_scores
from fedpriv.report.leakage import measures
from fedpriv.report.page import page_of
from fedpriv.report.reading import Run, read_material
from fedpriv.report.verdict import Verdict, verdict_of_runs
from fedpriv.runfolder import RunFolder, new_folder
from fedpriv.scenario import Scenario, from_tables, merged, parsed_setting, read
from fedpriv.simulations.variants import nested


@dataclass(frozen=True)
class RunResult:
    """A finished run, or the variants of one: its tables, its verdict and its page."""

    folder: Path

    @property
    def runs(self) -> list[Run]:
        return read_material([self.folder]).runs

    @property
    def rounds(self) -> pd.DataFrame:
        """A row a round: run, round, accuracy, loss, bytes, seconds."""
        frames = [pd.DataFrame(run.rounds).assign(run=run.name) for run in self.runs]
        return pd.concat(frames, ignore_index=True)

    @property
    def scores(self) -> pd.DataFrame:
        """A row an attacked sample; empty when nothing was attacked."""
        return all_scores(self.runs)

    @property
    def verdict(self) -> Verdict:
        runs, scores = self.runs, self.scores
        gate = next((run.scenario.gate for run in runs if run.scenario.gate), {})
        return verdict_of_runs(runs, scores, next(iter(measures(scores, gate)), None))

    @property
    def report(self) -> Path:
        return RunFolder(self.folder).report_file

    def _repr_html_(self) -> str:
        """The verdict and the last round of each run, for notebooks."""
        verdict = self.verdict
        sentences = "".join(f"<p>{html.escape(text)}</p>" for text in verdict.sentences)
        last = self.rounds.groupby("run", sort=False).tail(1)
        shown = [name for name in ("run", "round", "accuracy", "loss", "seconds") if name in last]
        return (
            f"<div><strong>{html.escape(verdict.word)}</strong>{sentences}"
            f"{last[shown].to_html(index=False, escape=True)}"
            f"<p>{html.escape(str(self.folder))}</p></div>"
        )

    def page(self) -> str:
        """The report as HTML text."""
        return page_of(read_material([self.folder]))


def run(
    scenario: str | Scenario = "quickstart",
    *,
    settings: Mapping[str, Any] | Sequence[str] = (),
    profile: str | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    ray_address: str | None = None,
    quiet: bool = False,
) -> RunResult:
    """Run a scenario end to end, as `fedpriv run` does: train, observe, attack, score, report.

    `settings` overrides single keys: `{"training.lr": 0.1}` or `["training.lr=0.1"]`.
    """
    from fedpriv.simulations.federation.progress import show_on
    from fedpriv.simulations.pipeline import run_all

    chosen = scenario_of(scenario, settings, profile)
    place = RunFolder(Path(out)) if out is not None else new_folder(chosen.name)
    console = Console(file=sys.stderr, quiet=quiet)
    run_all(chosen, place, lambda: show_on(console), resume=resume, ray_address=ray_address)
    return RunResult(place.path)


def load(folder: Path | str) -> RunResult:
    """The result in a run folder."""
    read_material([Path(folder)])
    return RunResult(Path(folder))


def scenario_of(
    scenario: str | Scenario,
    settings: Mapping[str, Any] | Sequence[str] = (),
    profile: str | None = None,
) -> Scenario:
    """A scenario with some keys overridden."""
    if isinstance(scenario, str):
        lines = () if isinstance(settings, Mapping) else settings
        scenario = read(scenario, lines, profile)
    elif profile is not None:
        raise BadOption(f"profile='{profile}' needs the name of a scenario, not a Scenario.")
    rows = [settings] if isinstance(settings, Mapping) else list(map(parsed_setting, settings))
    tables = scenario.plain()
    for row in rows:
        tables = merged(tables, nested(row))
    return from_tables(tables) if rows else scenario
