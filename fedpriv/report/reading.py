"""What a report is made of: the files of run folders and sweeps, read once and made uniform."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from fedpriv.errors import BadFolder
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.sections import Spec

# Tables and pictures that some scenarios end in, beside what every run has.
SUMMARIES, PICTURES = ("summary", "pareto"), ("pareto.png",)


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

    @property
    def defence(self) -> str:
        """The plugins as people type them; 'none' without any."""
        return " + ".join(map(spelled, self.scenario.plugins)) or "none"

    @property
    def accuracy(self) -> float | None:
        return self.rounds[-1].get("accuracy") if self.rounds else None

    @property
    def epsilon(self) -> float | None:
        return self.rounds[-1].get("train-epsilon") if self.rounds else None

    def total(self, key: str) -> float:
        return sum(record.get(key, 0) for record in self.rounds)


@dataclass(frozen=True)
class Grid:
    """One sweep folder: a row for every cell, and the CAP table when there is one."""

    name: str
    path: Path
    results: pd.DataFrame
    cap: pd.DataFrame
    scenario_text: str = ""
    environment: dict[str, Any] = field(default_factory=dict)


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
        below = list(_below(path))
        if not below and not (path / "results.csv").exists():
            raise BadFolder(
                f"'{path}' holds neither a run (scenario.toml, rounds.jsonl) nor a sweep "
                "(results.csv); give the folder that `fedpriv run` or `fedpriv sweep` named."
            )
        if (path / "results.csv").exists():
            grids.append(_grid(path))
            continue
        runs += [_run(folder, name) for folder, name in below]
    summaries = [
        (f"{path.resolve().name}: {name}", found)
        for path in paths
        for name in SUMMARIES
        if not (found := table(path / f"{name}.csv")).empty
    ]
    pictures = [path / name for path in paths for name in PICTURES if (path / name).exists()]
    return Material(_distinct(runs), grids, summaries, pictures)


def _below(path: Path) -> Iterator[tuple[RunFolder, str]]:
    """The run at `path`, or the variants right below it."""
    if _is_run(path):
        yield RunFolder(path), path.resolve().name
        return
    for folder in sorted(path.iterdir()):
        if folder.is_dir() and _is_run(folder):
            yield RunFolder(folder), folder.name


def _is_run(path: Path) -> bool:
    return (path / "scenario.toml").exists() and (path / "rounds.jsonl").exists()


def _run(folder: RunFolder, name: str) -> Run:
    return Run(
        name=name,
        folder=folder,
        scenario=folder.scenario(),
        environment=_json(folder.environment_file, {}),
        rounds=folder.rounds(),
        scores=table(folder.scores_file),
        partition=table(folder.partition_file),
        findings=_json(folder.path / "preflight.json", []),
        audit=_json(folder.path / "audit.json", {}),
    )


def _grid(path: Path) -> Grid:
    scenario = path / "scenario.toml"
    return Grid(
        name=path.resolve().name,
        path=path,
        results=table(path / "results.csv"),
        cap=table(path / "cap.csv"),
        scenario_text=scenario.read_text("utf-8") if scenario.exists() else "",
        environment=_json(path / "environment.json", {}),
    )


def _distinct(runs: list[Run]) -> list[Run]:
    """Runs that share a name get their parent folder's in front, and a number if that does not help."""
    names = Counter(run.name for run in runs)
    seen: Counter[str] = Counter()
    result = []
    for run in runs:
        parent = run.folder.path.resolve().parent.name
        name = run.name if names[run.name] == 1 else f"{parent}/{run.name}"
        seen[name] += 1
        result.append(replace(run, name=name if seen[name] == 1 else f"{name} ({seen[name]})"))
    return result


def table(path: Path) -> pd.DataFrame:
    """A CSV file with column names in one spelling; empty when the file is not there."""
    if not path.exists():
        return pd.DataFrame()
    try:
        frame = pd.read_csv(path)
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
    except (OSError, UnicodeDecodeError, pd.errors.ParserError) as error:
        raise BadFolder(f"'{path}' cannot be read as CSV: {error}.") from error
    return frame.rename(columns=lambda name: str(name).strip().replace("-", "_").replace(" ", "_"))


def _json(path: Path, default: Any) -> Any:
    if not path.exists():
        return default
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadFolder(f"'{path}' cannot be read as JSON: {error}.") from error
    return found if isinstance(found, type(default)) else default


def spelled(spec: Spec) -> str:
    """`pruning(fraction=0.05)`."""
    options = ", ".join(f"{key}={value}" for key, value in spec.options.items())
    return f"{spec.name}({options})" if options else spec.name
