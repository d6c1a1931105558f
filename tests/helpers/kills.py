"""Kill commands at random moments, resume them, and compare what they leave with a whole run.

`python tests/helpers/kills.py [KILLS] [SEED]` prints a line for every kill.
"""

import csv
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tomli_w

TINY = {
    "name": "killed",
    "seed": 3,
    "data": {"name": "synthetic", "limit": 60},
    "model": {"name": "mlp", "hidden": [8]},
    "training": {"lr": 0.1, "batch-size": 4},
    "federation": {"clients": 3, "rounds": 12, "backend": "inline"},
    "plugins": [{"name": "noise", "scale": 0.01}],
    "attacks": [{"name": "adam+cosine", "steps": 400, "rounds": "every 3"}, {"name": "linear"}],
}
GRID = {
    **{key: TINY[key] for key in ("name", "seed", "data", "model", "training", "federation")},
    "defences": [
        {"name": "none"},
        {"name": "noise", "plugins": [{"name": "noise"}], "vary": "noise.scale",
         "values": [0.01, 0.1]},
    ],
    "sweep": {"attacks": ["linear", "adam+cosine"], "victims": 3,
              "options": {"adam+cosine": {"steps": 200}}},
}  # fmt: skip
LOOKED = {**GRID, "federation": {**GRID["federation"], "rounds": 4}, "sweep": None}
COMMANDS = {
    "run": (TINY, ["run", "s.toml", "--out", "out"], ["--resume"]),
    "sweep": (GRID, ["sweep", "s.toml", "--workers", "2", "--out", "out"], ["--resume"]),
    "search": (None, ["search", "--data", "synthetic", "--model", "mlp", "--candidates", "60",
                      "--images", "16", "--epochs", "3", "--keep", "3", "--out", "out/p.json"], []),
    # By units: minutes become units by the speed of the machine, which differs between two audits.
    "audit": (LOOKED, ["audit", "s.toml", "--work", "2000000", "--out", "out"], ["--resume"]),
}  # fmt: skip
# What says how long something took, not what it gave. The cost of a search is its seconds, and how
# many scores were not in its journal yet.
TIMES = re.compile(r"[\w-]*seconds[\w-]*|minutes|cost")


@dataclass(frozen=True)
class Left:
    """What a command left: bytes of what must be equal, and tables without their seconds."""

    files: dict[str, bytes | str]
    code: int


def command(name: str, place: Path, *more: str) -> subprocess.Popen[str]:
    tables, arguments, _ = COMMANDS[name]
    place.mkdir(exist_ok=True)
    if tables is not None:
        plain = {key: value for key, value in tables.items() if value is not None}
        (place / "s.toml").write_text(tomli_w.dumps(plain))
    return subprocess.Popen(
        [sys.executable, "-m", "fedpriv", *arguments, *more], cwd=place, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def whole(name: str, place: Path) -> tuple[Left, float]:
    """An uninterrupted command: what it left, and the seconds it took."""
    started = time.monotonic()
    process = command(name, place)
    _, said = process.communicate(timeout=900)
    assert "Traceback" not in said, said
    return left(place / "out", process.returncode), time.monotonic() - started


def killed(name: str, place: Path, after: float) -> Left:
    """The command killed after some seconds, and resumed to its end."""
    process = command(name, place)
    try:
        process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    started = (place / "out").exists() and any((place / "out").iterdir())
    has_scenario = (place / "out" / "scenario.toml").exists()
    more = COMMANDS[name][2] if started and has_scenario else []
    again = command(name, place, *more)
    _, said = again.communicate(timeout=900)
    assert "Traceback" not in said, said
    return left(place / "out", again.returncode)


def left(out: Path, code: int) -> Left:
    """Weights, evidence, truth, claims, scores and findings of a folder."""
    found: dict[str, bytes | str] = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if path.suffix in (".safetensors", ".npz", ".bin"):
            found[name] = without_seconds(path)
        elif path.suffix == ".csv":
            found[name] = table_of(path.read_text())
        elif path.name == "manifest.json":
            found[name] = untimed_sums(path.read_text())
        elif path.suffix in (".json", ".jsonl") and path.name != "environment.json":
            found[name] = untimed(path.read_text())
        assert not path.name.startswith(".writing-"), f"left behind: {name}"
    return Left(found, code)


def without_seconds(path: Path) -> bytes | str:
    """The bytes; of a claim its arrays and its facts, but for the seconds it took."""
    if path.suffix != ".npz" or "attacks" not in path.parts:
        return path.read_bytes()
    import numpy as np

    with np.load(path, allow_pickle=False) as file:
        facts = untimed(str(file["facts"]))
        arrays = (
            f"{key} {file[key].dtype} {file[key].shape} {file[key].tobytes().hex()}"
            for key in sorted(set(file.files) - {"facts"})
        )
        return "\n".join((facts, *arrays))


def table_of(text: str) -> str:
    rows = list(csv.DictReader(io.StringIO(text)))
    kept = [{k: v for k, v in row.items() if "seconds" not in k} for row in rows]
    return json.dumps(kept)


def untimed(text: str) -> str:
    """JSON without the keys that tell of time."""

    def bare(value: object) -> object:
        if isinstance(value, dict):
            return {k: bare(v) for k, v in value.items() if not TIMES.fullmatch(k)}
        return [bare(one) for one in value] if isinstance(value, list) else value

    try:
        return json.dumps(bare(json.loads(text)))
    except ValueError:
        return json.dumps([bare(json.loads(line)) for line in text.splitlines()])


def untimed_sums(text: str) -> str:
    """A manifest's sums: where a file tells of time, only the sum without it."""
    facts = json.loads(text)
    facts["files"] = {k: v.get("untimed", v["sha256"]) for k, v in facts["files"].items()}
    return json.dumps(facts)


def unlike(one: Left, other: Left) -> list[str]:
    """The files in which two folders differ."""
    names = sorted(one.files.keys() | other.files.keys())
    found = [name for name in names if one.files.get(name) != other.files.get(name)]
    return found + ([f"exit {one.code} and {other.code}"] if one.code != other.code else [])


def all_kills(
    count: int, seed: int, scratch: Path, names: tuple[str, ...] = tuple(COMMANDS)
) -> int:
    """So many kills in all, in turn; how many of them left something else."""
    draw, wrong = random.Random(seed), 0
    for number, name in enumerate(names):
        reference, seconds = whole(name, scratch / name)
        print(f"{name}: {seconds:.1f} s, {len(reference.files)} files compared", flush=True)
        assert reference.files
        for turn in range(number, count, len(names)):
            after = draw.uniform(0.15, 1.0) * seconds
            found = unlike(reference, killed(name, scratch / f"{name}-{turn}", after))
            wrong += bool(found)
            print(f"  killed after {after:.1f} s: {found[:6] or 'the same'}", flush=True)
    return wrong


if __name__ == "__main__":
    count, seed = (int(one) for one in (*sys.argv[1:], *("20", "0")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(all_kills(count, seed, Path(scratch)) > 0)
