"""Bad command lines, scenarios, run folders and evidence folders, drawn from a seed."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import tomli_w

GOOD, BAD = frozenset({0}), frozenset({2})
EITHER = GOOD | BAD  # the value may happen to be a good one
FAILS = EITHER | {3}  # what can be read, and that no attack or search succeeds on

TINY = {
    "name": "fuzzed",
    "seed": 3,
    "data": {"name": "synthetic", "limit": 60},
    "model": {"name": "mlp", "hidden": [8]},
    "training": {"lr": 0.1, "batch-size": 4, "local-steps": 1},
    "federation": {"clients": 2, "rounds": 1, "backend": "inline"},
    "attacks": [{"name": "dlg", "steps": 2, "victims": 1}],
}

OWN = """
import sys, torch
from torch import nn
def exits(**about): sys.exit(7)
def raises(**about): raise KeyError("boom")
def nothing(**about): return None
def text(**about): return "a model"
class Leaves(nn.Module):
    def __init__(self, **about): super().__init__()
    def forward(self, x): sys.exit(9)
class Wide(nn.Module):
    def __init__(self, **about): super().__init__(); self.w = nn.Parameter(torch.zeros(1))
    def forward(self, x): return x.flatten(1)[:, :1] * self.w
class Tuple(nn.Module):
    def __init__(self, **about): super().__init__(); self.w = nn.Parameter(torch.zeros(1))
    def forward(self, x): return (x, x)
class Picky:
    def __init__(self, a, b, c): pass
number = 5
"""


@dataclass(frozen=True)
class Case:
    """A command, what makes its files in a folder of its own, and how it may end."""

    kind: str
    what: str
    make: Callable[[Path], list[str]]
    allowed: frozenset[int]


@dataclass(frozen=True)
class World:
    """A good run, which cases damage copies of."""

    run: Path


def plain(*arguments: object) -> Callable[[Path], list[str]]:
    return lambda place: [str(one).replace("{here}", str(place)) for one in arguments]


NUMBERS = ("nan", "inf", "-inf", "-1", "x", "", "1e999", "0x", "--", "[]", "1,5", "½")
COMMANDS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("audit", "quickstart", "--out", "{here}/A"), ("--minutes",)),
    (("search", "--data", "synthetic", "--model", "mlp", "--candidates", "4", "--keep", "1",
      "--images", "2", "--rounds", "1", "--epochs", "0", "--out", "{here}/p.json"),
     ("--candidates", "--keep", "--threshold", "--quantile", "--images", "--rounds", "--points",
      "--longest", "--share", "--epochs", "--verified", "--attacked", "--workers",
      "--gpus-per-worker", "--seed")),
    (("sweep", "ats-table1", "--out", "{here}/S"), ("--workers",)),
    (("deploy", "up", "--engine", "local", "--folder", "{here}/D", "--file", "{here}/no.yml"),
     ("--patience",)),
    (("watch", "{here}"), ("--port",)),
    (("attack", "{here}"), ("--victims",)),
    (("new", "{here}/n.toml", "--yes"), ("--clients", "--rounds")),
    (("verify-dp", "claim", "--epsilon", "1", "--noise-multiplier", "1", "--steps", "5"),
     ("--epsilon", "--delta", "--noise-multiplier", "--sensitivity", "--clip", "--rate", "--steps",
      "--epochs", "--rounds", "--runs")),
    (("verify-dp", "mechanism", "gaussian", "--epsilon", "1"),
     ("--epsilon", "--delta", "--clip", "--seconds", "--draws")),
    (("verify-dp", "run", "quickstart", "--out", "{here}/V"),
     ("--epsilon", "--delta", "--canaries")),
    (("audit", "--app", "{here}", "--out", "{here}/A"), ("--clients", "--work", "--minutes")),
    (("reproduce", "spn", "--out", "{here}", "--work", "{here}"), ("--workers",)),
)  # fmt: skip
FIXED: tuple[tuple[str, ...], ...] = (
    ("run", "nosuch"), ("run", "{here}"), ("run", "{here}/x.toml"), ("run", "/dev/null"),
    ("run", "/proc/self/mem"), ("run", "\udcff.toml"), ("run", "a" * 5000 + ".toml"),
    ("run", "quickstart", "--out", "/proc/x"), ("run", "quickstart", "--out", "/dev/null"),
    ("run", "quickstart", "--out", "/dev/null/x"), ("run", "quickstart", "--out", "/" + "a" * 300),
    ("run", "quickstart", "--profile", "no"), ("run", "--resume"), ("run", "--nosuch"),
    ("run", "quickstart", "extra"),
    ("run", "quickstart", "--fail-if", "nosuch>1", "--out", "{here}/R"),
    ("run", "quickstart", "--fail-if", "psnr>nan", "--out", "{here}/R"),
    ("run", "quickstart", "--fail-if", "psnr", "--out", "{here}/R"),
    ("run", "quickstart", "--fail-if", "psnr>1e999", "--out", "{here}/R"),
    ("run", "quickstart", "--ray-address", "127.0.0.1:1", "--set", "federation.backend=\"ray\"",
     "--out", "{here}/R"),
    ("audit", "quickstart", "--fail-if", "psrn>1", "--out", "{here}/A"),
    ("audit", "quickstart", "--fail-if", "psnr>inf", "--out", "{here}/A"),
    ("audit", "quickstart", "--out", "/proc/x"), ("audit", "nosuch"),
    ("sweep", "quickstart"), ("sweep", "nosuch"), ("sweep", "ats-table1", "--out", "/proc/x"),
    ("sweep", "ats-table1", "--resume"), ("sweep", "ats-table1", "--fail-if", "psnr<", "--out",
     "{here}/S"),
    ("search", "--out", "/proc/x"), ("search", "--out", "{here}", "--data", "synthetic"),
    ("search", "--data", "nosuch"), ("search", "--data", "synthetic", "--model", "nosuch"),
    ("search", "--data", "synthetic", "--policy", "99-99"), ("search", "--policy", "x"),
    ("search", "--data", "synthetic", "--model", "mlp", "--verify", "nosuch", "--out",
     "{here}/p.json"),
    ("report",), ("report", "{here}"), ("report", "/nosuch"), ("report", "/dev/null"),
    ("export", "{here}", "--to", "tensorboard"), ("export", "{here}", "--to", "nosuch"),
    ("pareto", "{here}"), ("pareto", "/dev/null"), ("preflight", "{here}"),
    ("preflight", "/nosuch"), ("attack", "/nosuch"), ("attack", "{here}", "--model", "nosuch:x"),
    ("attack", "{here}", "--model", "os:nosuch"), ("attack", "{here}", "--model", "os:path"),
    ("attack", "{here}", "--model", ":"), ("attack", "{here}", "--model", "..:x"),
    ("attack", "{here}", "--set", "nosuch=1"), ("attack", "{here}", "--truth", "/nosuch"),
    ("list", "nosuch"), ("list", "plugins", "nosuch"), ("list", "models", "os:nosuch"),
    ("list", "models", "nosuch:x"), ("nosuch",), ("deploy", "nosuch"),
    ("deploy", "status", "--engine", "local", "--file", "{here}/no.yml", "--folder", "{here}/D"),
    ("deploy", "run", "nosuch", "--engine", "local", "--folder", "{here}/D"),
    ("deploy", "logs", "nosuch", "--engine", "local", "--folder", "{here}/D"),
    ("deploy", "up", "--engine", "nosuch"), ("watch", "/nosuch"), ("watch", "{here}", "--host",
     "nosuch.invalid"),
    ("check", "nosuch"), ("check", "{here}"), ("check", "/dev/null"), ("check", "/proc/self/mem"),
    ("check", "quickstart", "--set", "training.lr=nan"), ("check", "quickstart", "--profile", "no"),
    ("check", "quickstart", "--set", "attacks=[{name=\"nosuch\"}]"),
    ("new", "/proc/x", "--yes"), ("new", "/dev/null/x.toml", "--yes"), ("new", "{here}", "--yes"),
    ("new", "{here}/n.toml", "--yes", "--data", "nosuch"),
    ("new", "{here}/n.toml", "--yes", "--model", "os:path"),
    ("new", "{here}/n.toml", "--yes", "--plugin", "nosuch"),
    ("facts", "/nosuch"), ("facts", "{here}"), ("facts", "/dev/null"), ("facts", ""),
    ("verify-dp", "nosuch"), ("verify-dp", "claim"), ("verify-dp", "claim", "/nosuch"),
    ("verify-dp", "claim", "{here}"), ("verify-dp", "claim", "--epsilon", "1"),
    ("verify-dp", "mechanism", "nosuch", "--epsilon", "1"),
    ("verify-dp", "mechanism", "os:path", "--epsilon", "1"),
    ("verify-dp", "mechanism", "os:nosuch", "--epsilon", "1"),
    ("verify-dp", "mechanism", "nosuch:x", "--epsilon", "1"),
    ("verify-dp", "mechanism", "gaussian", "--epsilon", "1", "--set", "nosuch=1"),
    ("verify-dp", "run", "nosuch"), ("verify-dp", "run", "quickstart", "--kind", "nosuch"),
    ("reproduce", "nosuch"), ("reproduce", "spn", "--profile", "no"), ("reproduce",),
    ("audit", "--app", "/nosuch"), ("audit", "--app", "{here}"), ("audit", "--app", "/dev/null"),
    ("audit", "quickstart", "--app", "{here}"), ("audit", "quickstart", "--clients", "3"),
    ("report", "{here}", "--compare", "/nosuch"),
)  # fmt: skip
SETTINGS = (
    "training.lr=nan", "training.lr=-inf", "training.lr=0", "training.lr=fast", "training.lr",
    "=1", ".=1", "training..lr=1", "training.lr.x=1", "training=5", "nosuch.x=1",
    "training.nosuch=1",
    "federation.rounds=0", "federation.rounds=1.5", "federation.rounds=true",
    "federation.clients=0",
    "federation.clients=-3", "federation.fraction=2", "federation.fraction=nan",
    "federation.timeout=inf", "federation.timeout=nan", "federation.device=nosuch",
    "federation.device=cuda:7", "federation.device=meta", "federation.strategy=nosuch",
    "federation.backend=nosuch", "federation.min-clients=99", "federation.cpus-per-client=nan",
    "federation.gpus-per-client=inf", "data.name=nosuch", "data.options=5", "data.options.nosuch=1",
    "data.limit=0", "data.alpha=nan", "data.partition=vertical", "data.root=\"\\u0000\"",
    "model.name=nosuch", "model.hidden=[999999999]", "model.hidden=[-1]", "model.hidden=[0.5]",
    "model.nosuch=1", "model.batchnorm=no", "model=[]", "training.momentum=2",
    "training.momentum=nan", "training.batch-size=0", "training.holdout=1", "training.mode=x",
    "training.schedule-factor=0", "training.weight-decay=inf", "gate.psnr=nan", "gate.psnr=inf",
    "gate.nosuch=1", "gate.psnr=x", "gate=1", "name=\"../../../x\"", "name=\"/x\"", "name=\"\"",
    "name=\"a\\u0000b\"", "name=\".\"", "name=\"..\"", f"name=\"{'n' * 300}\"", "name=5",
    "seed=x", "seed=1.5", f"seed={10**40}", "seed=true", "plugins=5", "plugins=[5]",
    "plugins=[{}]", "plugins=[{name=\"nosuch\"}]", "plugins=[{name=\"noise\", scale=nan}]",
    "plugins=[{name=\"guard\", tolerance=nan}]", "plugins=[{name=\"dp\", epsilon=nan}]",
    "plugins=[{name=\"dp\", noise-multiplier=inf}]",
    "plugins=[{name=\"dp\", epsilon=1, delta=nan}]",
    "plugins=[{name=\"ars\"}]", "plugins=[{name=\"pruning\", fraction=2}]",
    "plugins=[{name=\"augment\", policy=\"99\"}]", "attacks=[{name=\"nosuch\"}]",
    "attacks=[{name=\"dlg\", rounds=\"often\"}]", "attacks=[{name=\"dlg\", rounds=[9]}]",
    "attacks=[{name=\"dlg\", steps=nan}]", "attacks=[{name=\"dlg\", victims=0}]",
    "attacks=[{name=\"dlg\", nosuch=1}]", "attacks=5", "malicious.name=nosuch",
    "malicious={name=\"imprint\", victims=[77]}", "malicious={name=\"imprint\", from-round=0}",
    "strategy.nosuch=1", "strategy=5", "representation.lr=nan", "variants=[{name=\"../x\"}]",
    "variants=[{name=\"truth\"}]", "variants=[{name=\"a\"}, {name=\"a\"}]", "variants=[{}]",
    "variants=[{name=\"a\", set={\"training.lr\"=nan}}]", "extends=\"quickstart\"",
)  # fmt: skip
PARTS = {
    "model": ("own:exits", "own:raises", "own:nothing", "own:text", "own:Leaves", "own:Wide",
              "own:Tuple", "own:Picky", "own:number", "own:nosuch", "broken:Net", "leaves:Net",
              "nosuch:Net", "own:", ":x", "own.py:model", "own:model:x"),
    "plugins": ("own:exits", "own:raises", "own:nothing", "own:Picky", "own:number", "own:nosuch",
                "broken:X", "leaves:X"),
    "attacks": ("own:exits", "own:raises", "own:Picky", "own:number", "broken:X", "leaves:X"),
    "data": ("own:exits", "own:raises", "own:nothing", "own:text", "own:number", "broken:X"),
}  # fmt: skip
JUNK = (5, -1, 0, 10**30, 1.5, float("nan"), float("inf"), "", "x", True, [], [[]], {}, {"x": 1},
        "\x00", "é" * 500, ["x"], [float("nan")])  # fmt: skip
FILES = ("rounds.jsonl", "scenario.toml", "checkpoint/latest.json", "model.safetensors",
         "checkpoint/round-1.safetensors", "environment.json", "scores.csv", "partition.csv",
         "findings.json", "verdict.json", "attacks/dlg/attacked.json",
         "observations/1-0.json", "observations/1-0.safetensors", "truth/1-0.npz",
         "attacks/dlg/1-0.npz", "observations", "truth", "attacks", "checkpoint")  # fmt: skip
TEXTS = (b"", b"\x00\xff\xfe" * 99, b"{", b"[]", b"null", b"5", b'{"x": 1}\n', b"[" * 100_000,
         b'{"round": "x"}\n', b'{"round": 1}\n{"round": 1}\n', b"a,b\n1,2,3,4\n", b'"' * 999,
         b'{"round": 1e999}\n', b"round,attack\n\xff,1\n", b"PK\x03\x04", b"\n\n\n",
         b'{"round": 99999999999999999999}')  # fmt: skip


def command_lines() -> Iterator[Case]:
    for arguments in FIXED:
        yield Case("command line", " ".join(arguments)[:90], plain(*arguments), BAD)
    for base, options in COMMANDS:
        for option in options:
            for value in NUMBERS:
                said = f"{base[0]} {option} {value}"
                good = value == "-1" and option in ("--threshold", "--seed")
                allowed = FAILS if good else BAD  # a threshold may be above every candidate
                yield Case("command line", said, plain(*base, option, value), allowed)


def scenario(tables: object, *more: object) -> Callable[[Path], list[str]]:
    def make(place: Path) -> list[str]:
        text = tables if isinstance(tables, bytes) else tomli_w.dumps(tables).encode()
        (place / "s.toml").write_bytes(text.replace(b"{here}", str(place).encode()))
        (place / "own.py").write_text(OWN)
        (place / "broken.py").write_text("class X(:\n")
        (place / "leaves.py").write_text("import sys; sys.exit(0)\n")
        (place / "b.toml").write_text('extends = "c.toml"\n')
        (place / "c.toml").write_text('extends = "b.toml"\n')
        return ["run", "s.toml", "--out", str(place / "R"), *map(str, more)]

    return make


def scenarios(draw: random.Random) -> Iterator[Case]:
    for setting in SETTINGS:
        allowed = EITHER if setting.startswith("extends") else BAD
        yield Case("scenario", setting[:90], scenario(TINY, "--set", setting), allowed)
    for section, names in PARTS.items():
        for name in names:
            one = {"name": name}
            value: object = one if section in ("model", "data") else [one]
            yield Case("scenario", f"own {section} {name}", scenario({**TINY, section: value}), BAD)
    whole = tomli_w.dumps(TINY).encode()
    texts = [
        b"",
        b"\xff\xfe",
        b"[",
        b"x = [" + b"[" * 5000,
        b'extends = "b.toml"',
        b"extends = 5",
        b'extends = "s.toml"',
        b'extends = "/proc/self/mem"',
        b'extends = "./s.toml"',
    ]
    for text in texts:
        allowed = EITHER if not text else BAD
        yield Case("scenario", f"text {text[:30]!r}", scenario(text), allowed)
    for _ in range(60):
        cut, other = draw.randrange(1, len(whole)), bytes([draw.randrange(256)])
        text = whole[:cut] + other + whole[cut + draw.randrange(2) :]
        yield Case("scenario", f"byte {cut} = {other!r}", scenario(text), FAILS)
    keys = [(section, key) for section, table in TINY.items() if isinstance(table, dict)
            for key in table] + [("", key) for key in TINY]  # fmt: skip
    for _ in range(400):
        (section, key), value = draw.choice(keys), draw.choice(JUNK)
        tables = json.loads(json.dumps(TINY))
        (tables[section] if section else tables)[key] = value
        said = f"{section}.{key} = {value!r}"[:90]
        yield Case("scenario", said, scenario(tables), FAILS)


def damaged(
    world: World, file: str, text: bytes | None, command: list[str]
) -> Callable[[Path], list[str]]:
    def make(place: Path) -> list[str]:
        shutil.copytree(world.run, place / "R")
        target = place / "R" / file
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        if text == b"a folder":
            target.mkdir(parents=True)
        elif text is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
        return [one.replace("{here}", str(place)) for one in command]

    return make


READERS = (["report", "{here}/R"], ["run", "--resume", "--out", "{here}/R"],
           ["export", "{here}/R", "--to", "tensorboard", "--out", "{here}/tb"],
           ["attack", "{here}/R", "--attack", "dlg", "--option", "steps=1"],
           ["preflight", "{here}/R"], ["pareto", "{here}/R", "--out", "{here}"],
           ["verify-dp", "claim", "{here}/R"],
           ["report", "{here}/R", "--compare", "{here}/R"])  # fmt: skip


def run_folders(draw: random.Random, world: World) -> Iterator[Case]:
    choices = [
        (file, text, command)
        for file in FILES
        for text in (*TEXTS, None, b"a folder")
        for command in READERS
    ]
    draw.shuffle(choices)
    for file, text, command in choices:
        said = f"{command[0]}: {file} = {text[:24] if text is not None else 'gone'!r}"
        yield Case("run folder", said, damaged(world, file, text, command), FAILS)


def evidence_folders(draw: random.Random, world: World) -> Iterator[Case]:
    facts = json.loads((world.run / "observations/1-0.json").read_text())
    while True:
        key, value = draw.choice([*facts, "nosuch"]), draw.choice((*JUNK, "../../../x", -5, 1e308))
        text = json.dumps({**facts, key: value}).encode()
        command = draw.choice([READERS[3], READERS[4]])
        said = f"{command[0]}: {key} = {value!r}"[:90]
        yield Case("evidence", said, damaged(world, "observations/1-0.json", text, command), FAILS)


def cases(seed: int, count: int, world: World) -> list[Case]:
    """So many cases of all four kinds; the same for the same seed."""
    draw = random.Random(seed)
    lines, settings = list(command_lines()), list(scenarios(draw))
    shares = {"lines": 0.30, "settings": 0.34, "folders": 0.22}
    draw.shuffle(lines), draw.shuffle(settings)
    found = lines[: round(shares["lines"] * count)]
    found += settings[: round(shares["settings"] * count)]
    folders = run_folders(draw, world)
    found += [next(folders) for _ in range(round(shares["folders"] * count))]
    evidence = evidence_folders(draw, world)
    return found + [next(evidence) for _ in range(count - len(found))]
