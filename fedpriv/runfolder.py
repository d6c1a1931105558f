"""RunFolder: every file of a run, with a reader and a writer; the only interface between running
and reporting.
"""

import json
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.torch
from safetensors import SafetensorError

from fedpriv.environment import environment
from fedpriv.errors import BadFolder
from fedpriv.files import write_bytes, write_text
from fedpriv.scenario import Scenario, from_tables
from fedpriv.state import State
from fedpriv.tables import Row, read_table, write_table

if TYPE_CHECKING:
    import pandas as pd

    from fedpriv.evidence.claims import Claim
    from fedpriv.evidence.truth import Truth


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run. A property ending in `_file` is a path; the others read."""

    path: Path

    # Settings, and what the run ran on.

    @property
    def scenario_file(self) -> Path:
        return self.path / "scenario.toml"

    @property
    def environment_file(self) -> Path:
        return self.path / "environment.json"

    def exists(self) -> bool:
        """Whether a run was started here and a round of it ended."""
        return self.scenario_file.exists() and self.rounds_file.exists()

    def start(self, scenario: Scenario) -> None:
        """Make the folder and write down what is run, on what."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if self.rounds_file.exists():
                raise BadFolder(
                    f"'{self.path}' holds a run already; give --resume to continue it, "
                    "or another --out."
                )
            self.write_settings(scenario)
        except OSError as error:
            raise BadFolder(
                f"The run folder '{self.path}' cannot be written: {error.strerror or error}; "
                "give another --out."
            ) from error

    def write_settings(self, scenario: Scenario) -> None:
        write_text(self.scenario_file, scenario.toml())
        write_text(self.environment_file, json.dumps(environment(), indent=2) + "\n")

    def scenario(self) -> Scenario:
        """The scenario this folder was started with."""
        try:
            return from_tables(tomllib.loads(self.scenario_file.read_text("utf-8")))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadFolder(f"'{self.path}' is not a run folder: {error}.") from error

    def environment(self) -> dict[str, Any]:
        found: dict[str, Any] = read_json(self.environment_file, {})
        return found

    # Rounds, models, and what --resume needs.

    @property
    def rounds_file(self) -> Path:
        return self.path / "rounds.jsonl"

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
    def _latest_file(self) -> Path:
        return self.checkpoint / "latest.json"

    def save_model(self, state: State, facts: Mapping[str, Any]) -> None:
        """The public model, and in `checkpoint/` the round it belongs to, as one whole."""
        data = safetensors.torch.save(dict(state))
        stem = f"round-{facts['round']}"
        write_bytes(self.checkpoint / f"{stem}.safetensors", data)
        write_text(self._latest_file, json.dumps(dict(facts)))
        write_bytes(self.model_file, data)
        for old in self.checkpoint.glob("round-*.safetensors"):
            if old.stem != stem:
                old.unlink(missing_ok=True)

    def last_round(self) -> dict[str, Any]:
        """What `save_model` wrote last; round 0 when nothing was."""
        if not self.has_checkpoint():
            return {"round": 0}
        try:
            found: dict[str, Any] = json.loads(self._latest_file.read_text("utf-8"))
            return found
        except (OSError, ValueError) as error:
            raise BadFolder(
                f"'{self._latest_file}' is damaged ({error}); start a new run."
            ) from error

    def has_checkpoint(self) -> bool:
        """Whether there is a public model to go on from; that of round 0 counts."""
        return self._latest_file.exists()

    def checkpoint_state(self) -> State:
        """The public model of the last round saved."""
        return load_state(self.checkpoint / f"round-{self.last_round()['round']}.safetensors")

    @property
    def partition_file(self) -> Path:
        """Samples per class of every client."""
        return self.path / "partition.csv"

    # Evidence, truth, claims and scores.

    @property
    def observations(self) -> Path:
        return self.path / "observations"

    def has_evidence(self) -> bool:
        return any(self.observations.glob("*.safetensors"))

    @property
    def truth(self) -> Path:
        return self.path / "truth"

    def truth_of(self, name: str) -> "Truth | None":
        """The samples behind the evidence `name`, where a client kept them."""
        from fedpriv.evidence.truth import Truth

        path = self.truth / f"{name}.npz"
        return Truth.load(path) if path.exists() else None

    @property
    def attacks(self) -> Path:
        return self.path / "attacks"

    @property
    def attacks_log(self) -> Path:
        """What attacks in the background had to say."""
        return self.path / "attacks.log"

    def claim_file(self, attack: str, name: str) -> Path:
        return self.attacks / attack / f"{name}.npz"

    def picture_file(self, attack: str, name: str) -> Path:
        return self.claim_file(attack, name).with_suffix(".png")

    def claims(self, attack: str) -> "Iterator[Claim]":
        """What an attack claimed, one victim after the other."""
        from fedpriv.evidence.claims import load_claim

        for path in sorted((self.attacks / attack).glob("*.npz")):
            yield load_claim(path)

    def attacked(self, attack: str, options: Mapping[str, Any]) -> set[str]:
        """The evidence that an attack is done with; pooled rounds share one claim, so files do not
        tell. With other options it is to be done again.
        """
        found = read_json(self.attacks / attack / "attacked.json", {})
        return set(found["victims"]) if found.get("options") == plain_json(options) else set()

    def note_attacked(self, attack: str, names: set[str], options: Mapping[str, Any]) -> None:
        found = {"options": plain_json(options), "victims": sorted(names)}
        write_text(self.attacks / attack / "attacked.json", json.dumps(found))

    @property
    def scores_file(self) -> Path:
        return self.path / "scores.csv"

    def write_scores(self, rows: Sequence[Mapping[str, Any]]) -> None:
        write_table(self.scores_file, rows)

    def scores(self) -> "pd.DataFrame":
        """A row for every attacked sample; empty when nothing was attacked."""
        return read_table(self.scores_file)

    @property
    def findings_file(self) -> Path:
        return self.path / "findings.json"

    def write_findings(self, findings: Sequence[Mapping[str, Any]]) -> None:
        write_text(self.findings_file, json.dumps(list(findings), indent=1) + "\n")

    def findings(self) -> list[dict[str, Any]]:
        """What stands in the way of attacks, and which were left out; see judging.findings."""
        found: list[dict[str, Any]] = read_json(self.findings_file, [])
        return found or read_json(self.path / "preflight.json", [])  # its name before 0.2

    # What a run, an audit or a comparison ends in.

    @property
    def gates_file(self) -> Path:
        return self.path / "gates.json"

    def write_gates(self, gates: Iterable[str]) -> None:
        """The gates that judge this folder, `psnr>20`, those of the command line included."""
        write_text(self.gates_file, json.dumps(list(gates)) + "\n")

    def gates(self) -> list[str] | None:
        """The gates that judged this folder; None when nothing was judged yet."""
        return read_json(self.gates_file, []) if self.gates_file.exists() else None

    @property
    def verdict_file(self) -> Path:
        return self.path / "verdict.json"

    def write_verdict(self, found: Mapping[str, Any]) -> None:
        write_text(self.verdict_file, json.dumps(dict(found), indent=1) + "\n")

    def verdict(self) -> dict[str, Any]:
        """What an audit found; empty for a run that is no audit."""
        found: dict[str, Any] = read_json(self.verdict_file, {})
        return found or read_json(self.path / "audit.json", {})  # its name before 0.2

    def below(self, *parts: str) -> "RunFolder":
        """A run folder inside this one: a variant, a cell of an audit, a start of a round."""
        return RunFolder(self.path.joinpath(*parts))

    @property
    def summary_file(self) -> Path:
        return self.path / "summary.csv"

    def write_summary(self, rows: Sequence[Row]) -> None:
        write_table(self.summary_file, rows)

    @property
    def pareto_file(self) -> Path:
        return self.path / "pareto.csv"

    @property
    def pareto_picture(self) -> Path:
        return self.path / "pareto.png"

    @property
    def report_file(self) -> Path:
        return self.path / "report.html"


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


def plain_json(value: Mapping[str, Any]) -> Any:
    """The value as JSON gives it back: tuples are lists."""
    return json.loads(json.dumps(dict(value), default=str))


def read_json(path: Path, default: Any) -> Any:
    """A JSON file; `default` when it is not there or holds something of another type."""
    if not path.exists():
        return default
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadFolder(f"'{path}' cannot be read as JSON: {error}.") from error
    return found if isinstance(found, type(default)) else default


def new_folder(name: str, root: Path = Path("runs")) -> RunFolder:
    """`runs/<name>-<time>`, a number appended when two start in one second."""
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, count = root / stem, 1
    while path.exists():
        count += 1
        path = root / f"{stem}-{count}"
    return RunFolder(path)
