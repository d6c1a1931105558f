"""Every file name of a run folder; the only interface between running and reporting."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError

from fedpriv.errors import BadFolder
from fedpriv.files import write_bytes, write_text
from fedpriv.scenario import Scenario, from_tables
from fedpriv.state import State

PACKAGES = ("fedpriv", "flwr", "torch", "torchvision", "opacus", "ray", "numpy", "flwr-datasets")


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, by file name."""

    path: Path

    @property
    def scenario_file(self) -> Path:
        return self.path / "scenario.toml"

    @property
    def environment_file(self) -> Path:
        return self.path / "environment.json"

    @property
    def rounds_file(self) -> Path:
        return self.path / "rounds.jsonl"

    @property
    def model_file(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def clients(self) -> Path:
        """Private client state of a simulation, mode 0700."""
        return self.checkpoint / "clients"

    @property
    def observations(self) -> Path:
        return self.path / "observations"

    @property
    def truth(self) -> Path:
        return self.path / "truth"

    @property
    def attacks(self) -> Path:
        return self.path / "attacks"

    @property
    def scores_file(self) -> Path:
        return self.path / "scores.csv"

    @property
    def partition_file(self) -> Path:
        return self.path / "partition.csv"

    @property
    def report_file(self) -> Path:
        return self.path / "report.html"

    def start(self, scenario: Scenario) -> None:
        """Make the folder and write down what is run, on what."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if self.rounds_file.exists():
                raise BadFolder(
                    f"'{self.path}' holds a run already; give --resume to continue it, "
                    "or another --out."
                )
            write_text(self.scenario_file, scenario.toml())
            write_text(self.environment_file, json.dumps(environment(), indent=2) + "\n")
        except OSError as error:
            raise BadFolder(
                f"The run folder '{self.path}' cannot be written: {error.strerror or error}; "
                "give another --out."
            ) from error

    def scenario(self) -> Scenario:
        """The scenario this folder was started with."""
        import tomllib

        try:
            return from_tables(tomllib.loads(self.scenario_file.read_text("utf-8")))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadFolder(f"'{self.path}' is not a run folder: {error}.") from error

    def add_round(self, record: Mapping[str, Any]) -> None:
        with self.rounds_file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record) + "\n")

    def rounds(self) -> list[dict[str, Any]]:
        """The rounds that ended, in order; a line cut short by a crash is left out."""
        return list(json_lines(self.rounds_file))

    def keep_rounds(self, last: int) -> None:
        """Drop the lines after round `last`: they belong to work that will be done again."""
        kept = [line for line in self.rounds() if line["round"] <= last]
        write_text(self.rounds_file, "".join(json.dumps(line) + "\n" for line in kept))

    def save_model(self, state: State, facts: Mapping[str, Any]) -> None:
        """The public model, and in `checkpoint/` the round it belongs to, as one whole."""
        data = safetensors.torch.save(dict(state))
        stem = f"round-{facts['round']}"
        write_bytes(self.checkpoint / f"{stem}.safetensors", data)
        write_text(self.checkpoint / "latest.json", json.dumps(dict(facts)))
        write_bytes(self.model_file, data)
        for old in self.checkpoint.glob("round-*.safetensors"):
            if old.stem != stem:
                old.unlink(missing_ok=True)

    def last_round(self) -> dict[str, Any]:
        """What `save_model` wrote last; round 0 when nothing was."""
        path = self.checkpoint / "latest.json"
        if not path.exists():
            return {"round": 0}
        try:
            return json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise BadFolder(f"'{path}' is damaged ({error}); start a new run.") from error

    def checkpoint_state(self) -> State:
        """The public model of the last round saved."""
        path = self.checkpoint / f"round-{self.last_round()['round']}.safetensors"
        return load_state(path)


def load_state(path: Path) -> State:
    try:
        return safetensors.torch.load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise BadFolder(f"'{path}' cannot be read as safetensors: {error}.") from error


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a .jsonl file."""
    if not path.exists():
        return
    for line in path.read_text("utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


def new_folder(name: str, root: Path = Path("runs")) -> RunFolder:
    """`runs/<name>-<time>`, a number appended when two start in one second."""
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, count = root / stem, 1
    while path.exists():
        count += 1
        path = root / f"{stem}-{count}"
    return RunFolder(path)


def environment() -> dict[str, Any]:
    """Versions, machine and commit: what a stranger needs to reproduce a run."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "commit": _commit(),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    folder = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
