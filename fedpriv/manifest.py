"""The manifest of a folder: a SHA-256 for every file, so that a second run can be compared.

Two runs of one scenario write the same bytes, but for what a clock, a place or a machine says.
Tables and JSON files therefore have a second sum, without those entries. Pages, sheets and logs
are made from the other files and are left out.
"""

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from fedpriv.errors import BadFolder, FedprivError
from fedpriv.files import write_bytes
from fedpriv.runfolder import RunFolder, read_json
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of
from fedpriv.state import digest

SCHEMA = "fedpriv-manifest-1"
LEFT_OUT = {"manifest.json", "report.html", "report.pdf", "attacks.log", "stop"}
# Entries of JSON files and columns of tables that tell of a clock, a place or a command.
TIMED = {"run", "minutes", "date", "folder", "report", "command"}  # and all `seconds`
TOLD = {"advice", "next"}  # sentences of a verdict that name seconds, or the folder
MACHINE = "environment.json"  # another machine is no other result
FACTS = "facts"  # the array of a claim that holds JSON
BLOCK = 1 << 20


def write_manifest(folder: RunFolder) -> Path:
    """Write `manifest.json`. What went in is summed once: a page made later changes nothing of it.

    Only its owner may read it: the sum of a private sample tells whether it is a certain one.
    """
    found: dict[str, Any] = {"schema": SCHEMA, "inputs": {}, "files": sums(folder.path)}
    scenarios = {
        path: one for path, one in found["files"].items() if Path(path).name == "scenario.toml"
    }
    known = folder.manifest()
    if known.get("inputs", {}).get("scenarios") == _only_sums(scenarios):
        found["inputs"] = known["inputs"]
    else:
        found["inputs"] = inputs(folder) | {"scenarios": _only_sums(scenarios)}
    text = json.dumps(found, indent=1) + "\n"
    write_bytes(folder.manifest_file, text.encode("utf-8"), mode=0o600)
    return folder.manifest_file


def sums(folder: Path) -> dict[str, dict[str, str]]:
    """The sums of every file below a folder, by its path there."""
    return {str(path.relative_to(folder)): _sum(path) for path in _files(folder)}


def inputs(folder: RunFolder) -> dict[str, Any]:
    """What decides a run beside its scenario: the lock, the packages installed, the data."""
    lock = Path(__file__).parents[1] / "requirements.lock"  # there in a checkout
    installed = sorted({f"{one.name}=={one.version}" for one in distributions()})
    return {
        "lock": _of_bytes(lock.read_bytes()) if lock.exists() else None,
        "packages": _of_bytes("\n".join(installed).encode()),
        "data": {
            scenario.data.name: data_sum(scenario)
            for scenario in _scenarios(folder)  # of variants, where there are some
        },
    }


def data_sum(scenario: Scenario) -> str | None:
    """A sum over the samples and labels of a scenario; None where this machine does not have them.

    A server of a real federation has its own test samples, not those of its clients.
    """
    try:
        data = dataset_of(scenario)
    except (FedprivError, ImportError, OSError):
        return None
    parts = ("x_train", "y_train", "x_test", "y_test")
    return digest({name: getattr(data, name) for name in parts})


@dataclass(frozen=True)
class Comparison:
    """Two folders file by file: equal, equal but for times, different, or in one of them only."""

    equal: list[str]
    timed: list[str]
    different: list[str]
    missing: list[str]
    added: list[str]
    changed: list[str]  # files that are not as the folder's own manifest has them

    @property
    def same(self) -> bool:
        return not (self.different or self.missing or self.added)


def compare(one: Path, other: Path) -> Comparison:
    """Files of `one` against those of `other`: folders, or the manifest of one."""
    ours, theirs = found_in(one), found_in(other)
    both = sorted(ours.keys() & theirs.keys())
    equal = [path for path in both if ours[path]["sha256"] == theirs[path]["sha256"]]
    rest = [path for path in both if path not in set(equal)]
    timed = [path for path in rest if _untimed(ours[path]) == _untimed(theirs[path])]
    return Comparison(
        equal=equal,
        timed=timed,
        different=[path for path in rest if path not in set(timed)],
        missing=sorted(ours.keys() - theirs.keys()),
        added=sorted(theirs.keys() - ours.keys()),
        changed=[f"{place}: {path}" for place in (one, other) for path in changed_in(place)],
    )


def found_in(place: Path) -> dict[str, dict[str, str]]:
    """The sums of a folder as it is now, or those that a manifest holds."""
    if place.is_dir():
        found = sums(place)
    elif place.exists():
        found = _read(place)["files"]
    else:
        found = {}
    if not found:
        raise BadFolder(f"'{place}' is no folder with files and no manifest.json; give one.")
    return found


def changed_in(place: Path) -> Iterator[str]:
    """Files of a folder that are no longer as its manifest has them."""
    known = RunFolder(place).manifest().get("files", {}) if place.is_dir() else {}
    if not known:
        return
    now = sums(place)
    for path in sorted(known.keys() | now.keys()):
        if known.get(path) != now.get(path):
            yield path


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_json(path, {})
    files = found.get("files")
    whole = isinstance(files, dict) and all(
        isinstance(one, dict) and isinstance(one.get("sha256"), str) for one in files.values()
    )
    if found.get("schema") != SCHEMA or not whole:
        raise BadFolder(f"'{path}' is no manifest ({SCHEMA}); `fedpriv report FOLDER` writes one.")
    return found


def _files(folder: Path) -> Iterator[Path]:
    """Every file that is a result: none that is hidden, made from others, or not of this folder."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not path.is_symlink() and not hidden and path.name not in LEFT_OUT:
            yield path


def _scenarios(folder: RunFolder) -> Iterator[Scenario]:
    places = [folder, *(RunFolder(path) for path in sorted(folder.path.iterdir()) if path.is_dir())]
    for place in places:
        if place.scenario_file.exists():
            yield place.scenario()


def _sum(path: Path) -> dict[str, str]:
    """`sha256` of the bytes, and `untimed` of what a clock and a place have no part in."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            total.update(block)
    found = {"sha256": total.hexdigest()}
    if path.name == MACHINE:
        return found | {"untimed": ""}
    readers = {".csv": _rows, ".json": _tables, ".jsonl": _lines, ".npz": _arrays}
    if path.suffix in readers:
        try:
            plain = readers[path.suffix](path.read_bytes())
        except (ValueError, EOFError, csv.Error, BadZipFile, RecursionError):
            return found  # damaged: its bytes are all there is
        text = json.dumps(plain, sort_keys=True)
        found["untimed"] = _of_bytes(text.encode())
    return found


def _rows(data: bytes) -> Any:
    """The rows of a table; cells beyond its header are kept under a name that sorts like others."""
    rows = csv.DictReader(io.StringIO(data.decode("utf-8")), restkey="")
    return [_without_times(row) for row in rows]


def _tables(data: bytes) -> Any:
    return _without_times(json.loads(data))


def _lines(data: bytes) -> Any:
    return [_without_times(json.loads(line)) for line in data.splitlines()]


def _arrays(data: bytes) -> Any:
    """Sums of the arrays of a claim or a truth; its facts are JSON."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files if name != FACTS}
        facts = _without_times(json.loads(str(file[FACTS]))) if FACTS in file.files else {}
    return facts, {
        name: [str(value.dtype), value.shape, _of_bytes(value.tobytes())]
        for name, value in arrays.items()
        if not _timed(name)
    }


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_times(v) for k, v in value.items() if not _timed(str(k))}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def _timed(key: str) -> bool:
    return "seconds" in key or key in TIMED | TOLD


def _untimed(one: Mapping[str, str]) -> str:
    return one.get("untimed", one["sha256"])


def _only_sums(files: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {path: one["sha256"] for path, one in files.items()}


def _of_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
