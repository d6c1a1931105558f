"""RunFolder: every file of a run, with a reader and a writer.

Running and reporting meet here and nowhere else.
"""

import json
import shutil
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import safetensors.torch
from safetensors import SafetensorError

from fedpriv.environment import environment
from fedpriv.errors import BadFolder
from fedpriv.files import write_bytes, write_text
from fedpriv.lock import LOCK
from fedpriv.scenario import Scenario, from_tables
from fedpriv.scenario.sections import why_no_name
from fedpriv.state import State
from fedpriv.tables import Row, read_table, write_table

if TYPE_CHECKING:
    import pandas as pd

    from fedpriv.evidence.candidates import Candidates, Key
    from fedpriv.evidence.claims import Claim
    from fedpriv.evidence.truth import Truth


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run. A property ending in `_file` is a path; the others read."""

    path: Path

    # Settings, and what the run ran on.

    @property
    def scenario_file(self) -> Path:
        """All settings of the run, defaults written out."""
        return self.path / "scenario.toml"

    @property
    def environment_file(self) -> Path:
        """Versions, platform, commit, command, and where the clients' randomness came from."""
        return self.path / "environment.json"

    def clear(self) -> None:
        """Remove all that is in the folder, but for the lock."""
        for path in self.path.iterdir() if self.path.is_dir() else ():
            if path.name == LOCK:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def exists(self) -> bool:
        """Whether a run was started here and a round of it ended."""
        return self.scenario_file.exists() and self.rounds_file.exists()

    def start(self, scenario: Scenario, randomness: str = "") -> None:
        """Make the folder; write down what is run, on what, with which randomness of clients."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if self.rounds_file.exists():
                raise BadFolder(
                    f"'{self.path}' holds a run already; give --resume to continue it, "
                    "or another --out."
                )
            self.write_settings(scenario, randomness)
        except OSError as error:
            raise BadFolder(
                f"The run folder '{self.path}' cannot be written: {error.strerror or error}; "
                "give another --out."
            ) from error

    def write_settings(self, scenario: Scenario, randomness: str = "") -> None:
        facts = environment() | ({"client-randomness": randomness} if randomness else {})
        write_text(self.scenario_file, scenario.toml())
        write_text(self.environment_file, json.dumps(facts, indent=2) + "\n")

    def scenario(self) -> Scenario:
        """The scenario this folder was started with."""
        try:
            tables = tomllib.loads(self.scenario_file.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise BadFolder(f"'{self.path}' is not a run folder: {error}.") from error
        if "name" not in tables:  # every run writes its own
            raise BadFolder(
                f"'{self.scenario_file}' is not the scenario of a run: it has no name. Put the "
                "file back, or start a new run."
            )
        return from_tables(tables)

    def environment(self) -> dict[str, Any]:
        found: dict[str, Any] = read_json(self.environment_file, {})
        return found

    @property
    def app_file(self) -> Path:
        """About somebody's Flower app that was judged: name, commit, hash, facts found."""
        return self.path / "app.json"

    def write_app(self, found: Mapping[str, Any]) -> None:
        write_text(self.app_file, json.dumps(plain_json(found), indent=1) + "\n")

    def app(self) -> dict[str, Any]:
        """The same; empty for a run of our own."""
        found: dict[str, Any] = read_json(self.app_file, {})
        return found

    # Rounds, models, and what --resume needs.

    @property
    def rounds_file(self) -> Path:
        """A line of JSON for every round that ended."""
        return self.path / "rounds.jsonl"

    def add_round(self, record: Mapping[str, Any]) -> None:
        with self.rounds_file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record) + "\n")

    def rounds(self) -> list[dict[str, Any]]:
        """The rounds that ended, in order; a line cut short by a crash is left out."""
        found = []
        for number, record in enumerate(json_lines(self.rounds_file), 1):
            if why := why_no_round(record):
                raise BadFolder(
                    f"'{self.rounds_file}', line {number}, is no round: {why}. Delete the line, or "
                    "start a new run."
                )
            found.append(record)
        return found

    def keep_rounds(self, last: int) -> None:
        """Drop the lines after round `last`: they belong to work that will be done again."""
        kept = [line for line in self.rounds() if line["round"] <= last]
        for line in kept:
            if missing := {*COUNTS, *NUMBERS, "failed"} - line.keys():
                raise BadFolder(
                    f"'{self.rounds_file}' cannot be resumed: round {line['round']} has no "
                    f"{', '.join(sorted(missing))}. Start a new run."
                )
        if [line["round"] for line in kept] != list(range(last - len(kept) + 1, last + 1)):
            raise BadFolder(
                f"'{self.rounds_file}' cannot be resumed: it must hold the rounds up to {last}, "
                "once each and in order. Start a new run."
            )
        write_text(self.rounds_file, "".join(json.dumps(line) + "\n" for line in kept))

    @property
    def model_file(self) -> Path:
        """The last public model."""
        return self.path / "model.safetensors"

    @property
    def checkpoint(self) -> Path:
        """What `--resume` needs."""
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
            if not is_count(found["round"]):
                raise ValueError(f"round is {found['round']!r}")
            return found
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
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
        """Evidence: `<round>-<node>.safetensors`, and facts beside it in `<round>-<node>.json`."""
        return self.path / "observations"

    def evidence_files(self) -> list[Path]:
        return sorted(self.observations.glob("*.safetensors"))

    def has_evidence(self) -> bool:
        return any(self.observations.glob("*.safetensors"))

    @property
    def truth(self) -> Path:
        """The samples that clients used, `<round>-<node>.npz`. No attack reads them."""
        return self.path / "truth"

    def truth_of(self, name: str) -> "Truth | None":
        """The samples behind the evidence `name`, where a client kept them."""
        from fedpriv.evidence.truth import Truth

        path = self.truth / f"{inside(name)}.npz"
        return Truth.load(path) if path.exists() else None

    @property
    def candidates_file(self) -> Path:
        """The samples that an attacker asks about."""
        return self.path / "candidates.npz"

    @property
    def key_file(self) -> Path:
        """Which candidates were trained on, and by whom: for the judge alone."""
        return self.truth / "candidates.key"

    def candidates(self) -> "Candidates | None":
        from fedpriv.evidence.candidates import Candidates

        return Candidates.load(self.candidates_file) if self.candidates_file.exists() else None

    def key(self) -> "Key | None":
        from fedpriv.evidence.candidates import Key

        return Key.load(self.key_file) if self.key_file.exists() else None

    @property
    def attacks(self) -> Path:
        """What attacks claim: a folder each, with `<round>-<node>.npz` and pictures."""
        return self.path / "attacks"

    @property
    def attacks_log(self) -> Path:
        """What attacks in the background had to say."""
        return self.path / "attacks.log"

    def claim_file(self, attack: str, name: str) -> Path:
        return self.attacks / inside(attack) / f"{inside(name)}.npz"

    def picture_file(self, attack: str, name: str) -> Path:
        return self.claim_file(attack, name).with_suffix(".png")

    def claims(self, attack: str) -> "Iterator[Claim]":
        """What an attack claimed, one victim after the other."""
        from fedpriv.evidence.claims import load_claim

        for path in sorted((self.attacks / inside(attack)).glob("*.npz")):
            yield load_claim(path)

    def attacked(self, attack: str, options: Mapping[str, Any]) -> set[str]:
        """The evidence that an attack with these options is done with.

        Files do not tell, because pooled rounds share one claim.
        """
        found = read_json(self.attacks / inside(attack) / "attacked.json", {})
        victims = found.get("victims")
        known = isinstance(victims, list) and found.get("options") == plain_json(options)
        return {name for name in victims if isinstance(name, str)} if known else set()

    def note_attacked(self, attack: str, names: set[str], options: Mapping[str, Any]) -> None:
        known = names | self.attacked(attack, options)
        found = {"options": plain_json(options), "victims": sorted(known)}
        write_text(self.attacks / inside(attack) / "attacked.json", json.dumps(found))

    @property
    def scores_file(self) -> Path:
        """A row for every attacked sample: metrics, and the same for a blind guess."""
        return self.path / "scores.csv"

    def write_scores(self, rows: Sequence[Mapping[str, Any]]) -> None:
        write_table(self.scores_file, rows)

    def scores(self) -> "pd.DataFrame":
        """A row for every attacked sample; empty when nothing was attacked."""
        return read_table(self.scores_file)

    @property
    def findings_file(self) -> Path:
        """What stands in the way of attacks, and which attacks were left out, as JSON."""
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
        """The gates that judged this folder, as JSON."""
        return self.path / "gates.json"

    def write_gates(self, gates: Iterable[str]) -> None:
        """The gates that judge this folder, `psnr>20`, those of the command line included."""
        write_text(self.gates_file, json.dumps(list(gates)) + "\n")

    def gates(self) -> list[str] | None:
        """The gates that judged this folder; None when nothing was judged yet."""
        return read_json(self.gates_file, []) if self.gates_file.exists() else None

    @property
    def verdict_file(self) -> Path:
        """Audits: what was found; the JSON schema is fedpriv/report/verdict.schema.json."""
        return self.path / "verdict.json"

    def write_verdict(self, found: Mapping[str, Any]) -> None:
        write_text(self.verdict_file, json.dumps(dict(found), indent=1) + "\n")

    def verdict(self) -> dict[str, Any]:
        """What an audit found; empty for a run that is no audit."""
        found: dict[str, Any] = read_json(self.verdict_file, {})
        return found or read_json(self.path / "audit.json", {})  # its name before 0.2

    @property
    def verified_file(self) -> Path:
        """What `fedpriv verify-dp` found about the run's ε, as JSON."""
        return self.path / "verify-dp.json"

    def write_verified(self, how: Literal["run", "claim"], found: Mapping[str, Any]) -> None:
        """What was tried against the ε of this run: with canaries, or on paper."""
        known = {**self.verified(), how: dict(found)}
        write_text(self.verified_file, json.dumps(known, indent=1) + "\n")

    def verified(self) -> dict[str, dict[str, Any]]:
        """The same by how it was tried; empty when nothing was."""
        found: dict[str, dict[str, Any]] = read_json(self.verified_file, {})
        return found

    @property
    def card_file(self) -> Path:
        """What the ε of this run is about, as JSON; there where an ε is claimed."""
        return self.path / "dp-card.json"

    def write_card(self, card: Mapping[str, Any]) -> None:
        """What the ε of this run is about."""
        write_text(self.card_file, json.dumps(dict(card), indent=1) + "\n")

    def card(self) -> dict[str, Any]:
        """The same; empty when no ε is claimed."""
        found: dict[str, Any] = read_json(self.card_file, {})
        return found

    def below(self, *parts: str) -> "RunFolder":
        """A run folder inside this one: a variant, a cell of an audit, a start of a round."""
        steps = [inside(step) for part in parts for step in part.split("/")]
        return RunFolder(self.path.joinpath(*steps))

    @property
    def summary_file(self) -> Path:
        """Where codes are shared: a row for every variant and attack."""
        return self.path / "summary.csv"

    def write_summary(self, rows: Sequence[Row]) -> None:
        write_table(self.summary_file, rows)

    @property
    def pareto_file(self) -> Path:
        """`fedpriv pareto`: accuracy against leakage, a row for every run."""
        return self.path / "pareto.csv"

    @property
    def pareto_picture(self) -> Path:
        """The same as a picture."""
        return self.path / "pareto.png"

    @property
    def pareto_page(self) -> Path:
        """The same as a page: what lies under the pointer says all about itself."""
        return self.path / "pareto.html"

    @property
    def report_file(self) -> Path:
        """The page, with pictures and charts inside."""
        return self.path / "report.html"

    @property
    def sheet_file(self) -> Path:
        """The two pages to sign."""
        return self.path / "report.pdf"

    @property
    def manifest_file(self) -> Path:
        """A sum for every file, by which a second run is compared."""
        return self.path / "manifest.json"

    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = read_json(self.manifest_file, {})
        return found


def inside(name: str) -> str:
    """The name, as a part of a path that stays where it is put; BadFolder for any other."""
    if why := why_no_name(name):
        raise BadFolder(f"{name!r:.100} cannot name a file or folder: {why}.")
    return name


def load_state(path: Path) -> State:
    """The tensors of a file in the order of their names: `load` gives a new order every time."""
    try:
        found = safetensors.torch.load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise BadFolder(f"'{path}' cannot be read as safetensors: {error}.") from error
    return {name: found[name] for name in sorted(found)}


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a .jsonl file."""
    if not path.exists():
        return
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFolder(f"'{path}' cannot be read as lines of JSON: {error}.") from error
    for number, line in enumerate(lines, 1):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError) as error:
            if number < len(lines):
                raise BadFolder(f"'{path}', line {number}, is no JSON: {error}.") from error


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


COUNTS = ("round", "clients", "asked", "bytes-up")
NUMBERS = ("accuracy", "loss", "seconds")


def why_no_round(record: Any) -> str:
    """What is wrong with a line of rounds.jsonl.

    Nothing is if it has a round, and counts, numbers and lists where readers expect them.
    """
    if not isinstance(record, dict) or "round" not in record:
        return f"it has no round: {record!r:.60}"
    for key in COUNTS:
        if not is_count(record.get(key, 0)):
            return f"'{key}' must be a count, got {record[key]!r:.60}"
    for key in NUMBERS:
        value = record.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"'{key}' must be a number, got {value!r:.60}"
    failed = record.get("failed", [])
    if not isinstance(failed, list) or not all(isinstance(one, dict) for one in failed):
        return f"'failed' must be a list of tables, got {failed!r:.60}"
    return ""


def plain_json(value: Mapping[str, Any]) -> Any:
    """The value as JSON gives it back: tuples are lists."""
    return json.loads(json.dumps(dict(value), default=str))


def read_json(path: Path, default: Any) -> Any:
    """A JSON file; `default` when it is not there or holds something of another type."""
    if not path.exists():
        return default
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadFolder(f"'{path}' cannot be read as JSON: {error}.") from error
    return found if isinstance(found, type(default)) else default


def new_folder(name: str, root: Path = Path("runs")) -> RunFolder:
    """`runs/<name>-<time>`, a number appended when two start in one second."""
    stem = f"{inside(name)}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, count = root / stem, 1
    while path.exists():
        count += 1
        path = root / f"{stem}-{count}"
    return RunFolder(path)
