"""What a report is made of: the files of run folders and sweeps, read once and made uniform."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from fedpriv.errors import BadFolder
from fedpriv.metrics.gates import Gate, gates_of, parsed
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.sections import spelled
from fedpriv.sweepfolder import SweepFolder
from fedpriv.tables import read_table

FAILED = "failed"  # the severity of a finding about an attack that broke down


@dataclass(frozen=True)
class Run:
    """One run folder: its settings, its rounds and a row for every attacked sample."""

    name: str
    folder: RunFolder
    scenario: Scenario
    environment: dict[str, Any]
    rounds: list[dict[str, Any]]
    scores: pd.DataFrame
    partition: pd.DataFrame
    findings: list[dict[str, Any]] = field(default_factory=list)
    audit: dict[str, Any] = field(default_factory=dict)
    gates: list[Gate] = field(default_factory=list)
    app: dict[str, Any] = field(default_factory=dict)  # of somebody's Flower app

    @property
    def doubts(self) -> list[str]:
        """Why what was not found decides nothing: attacks that failed or were left out."""
        broken = [one["attack"] for one in self.findings if one["severity"] == FAILED]
        return [f"The attack {name} failed." for name in dict.fromkeys(broken)]

    @property
    def defence(self) -> str:
        """The plugins as people type them; 'none' without any."""
        return " + ".join(map(spelled, self.scenario.plugins)) or "none"

    @property
    def accuracy(self) -> float | None:
        return self.rounds[-1].get("accuracy") if self.rounds else None

    @property
    def epsilon(self) -> str:
        """ε, and on whose word it is.

        Clients claim the ε of a sample; the server counts the ε of a client.
        """
        last = self.rounds[-1] if self.rounds else {}
        if "user-epsilon" in last:
            how = last.get("user-privacy", {}).get("accountant", "")
            return f"{last['user-epsilon']:.2f} for a client, {how}"
        return f"{last['train-epsilon']:.2f}, as claimed" if "train-epsilon" in last else "–"

    def total(self, key: str) -> float:
        found: float = sum(record.get(key, 0) for record in self.rounds)
        return found


@dataclass(frozen=True)
class Grid:
    """One sweep folder: a row for every cell, and the CAP table when there is one."""

    name: str
    folder: SweepFolder
    results: pd.DataFrame
    cap: pd.DataFrame
    scores: pd.DataFrame
    title: str = ""  # the scenario's name
    scenario_text: str = ""
    environment: dict[str, Any] = field(default_factory=dict)
    gates: list[Gate] = field(default_factory=list)


@dataclass(frozen=True)
class Material:
    """All that one page shows."""

    runs: list[Run]
    grids: list[Grid]
    summaries: list[tuple[str, pd.DataFrame]] = field(default_factory=list)  # name and table
    pictures: list[Path] = field(default_factory=list)


def read_material(paths: Sequence[Path]) -> Material:
    """The runs and sweeps in the folders given; a folder of runs counts as its runs."""
    runs: list[Run] = []
    grids: list[Grid] = []
    for path in paths:
        if not path.is_dir():
            raise BadFolder(f"'{path}' is no folder; give run folders or the folder of a sweep.")
        if SweepFolder(path).exists():
            grids.append(_grid(SweepFolder(path)))
            continue
        below = list(_below(path))
        if not below:
            raise BadFolder(
                f"'{path}' holds neither a run (scenario.toml, rounds.jsonl) nor a sweep "
                "(results.csv); give the folder that `fedpriv run` or `fedpriv sweep` named."
            )
        runs += [_run(folder, name) for folder, name in below]
    folders = [RunFolder(path) for path in paths]
    summaries = [
        (f"{file.parent.resolve().name}: {file.stem}", found)
        for folder in folders
        for file in (folder.summary_file, folder.pareto_file)
        if not (found := read_table(file)).empty
    ]
    pictures = [folder.pareto_picture for folder in folders if folder.pareto_picture.exists()]
    return Material(_distinct(runs), grids, summaries, pictures)


def _below(path: Path) -> Iterator[tuple[RunFolder, str]]:
    """The run at `path`, or the variants right below it."""
    if RunFolder(path).exists():
        yield RunFolder(path), path.resolve().name
        return
    for folder in sorted(path.iterdir()):
        if folder.is_dir() and RunFolder(folder).exists():
            yield RunFolder(folder), folder.name


def _run(folder: RunFolder, name: str) -> Run:
    return Run(
        name=name,
        folder=folder,
        scenario=folder.scenario(),
        environment=folder.environment(),
        rounds=folder.rounds(),
        scores=folder.scores(),
        partition=read_table(folder.partition_file),
        findings=folder.findings(),
        audit=folder.verdict(),
        gates=gates_in(folder),
        app=folder.app(),
    )


def gates_in(folder: RunFolder) -> list[Gate]:
    """The gates that judged the folder, or else those of its scenario."""
    written = folder.gates()
    if written is not None:
        return list(map(parsed, written))
    return gates_of(folder.scenario().gate) if folder.scenario_file.exists() else []


def _grid(folder: SweepFolder) -> Grid:
    file = folder.scenario_file
    return Grid(
        name=folder.path.resolve().name,
        folder=folder,
        results=folder.results(),
        cap=folder.cap(),
        scores=folder.scores(),
        title=folder.scenario().name if file.exists() else "",
        scenario_text=file.read_text("utf-8") if file.exists() else "",
        environment=folder.environment(),
        gates=gates_in(folder),
    )


def _distinct(runs: list[Run]) -> list[Run]:
    """Runs with different names: the parent folder's in front of equal ones, or a number behind."""
    names = Counter(run.name for run in runs)
    seen: Counter[str] = Counter()
    result = []
    for run in runs:
        parent = run.folder.path.resolve().parent.name
        name = run.name if names[run.name] == 1 else f"{parent}/{run.name}"
        seen[name] += 1
        result.append(replace(run, name=name if seen[name] == 1 else f"{name} ({seen[name]})"))
    return result
