"""Run bad inputs through the real command line, each in a forked process with a time limit.

`python tests/helpers/fuzzing.py [COUNT] [SEED]` prints a table of exit codes by kind. It exits with
1 if a command ended wrongly.
"""

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import tomli_w
from bad_inputs import TINY, Case, World, cases

LIMIT = float(os.environ.get("FUZZ_LIMIT", "60"))  # seconds
PRELOADED = (
    "fedpriv.simulations.api",
    "fedpriv.simulations.audit",
    "fedpriv.simulations.pipeline",
    "fedpriv.simulations.judging.judge",
    "fedpriv.simulations.sweep.sweep",
    "fedpriv.simulations.search.correlation",
)
KILLED = -1


@dataclass(frozen=True)
class Ending:
    case: Case
    code: int
    seconds: float
    said: str

    @property
    def wrong(self) -> str:
        if self.code == KILLED:
            return f"took more than {LIMIT:g} s"
        if "Traceback (most recent call last)" in self.said:
            return "traceback"
        if self.code not in self.case.allowed:
            return f"exit code {self.code}, not {sorted(self.case.allowed)}"
        return "" if self.code == 0 or self.said.strip() else "no message"


def ended(case: Case, place: Path) -> Ending:
    """What came of a case, in a process of its own."""
    place.mkdir()
    arguments, log, started = case.make(place), place / "said.txt", time.monotonic()
    child = os.fork()
    if child == 0:
        _become(arguments, place, log)
    while time.monotonic() - started < LIMIT:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            break
        time.sleep(0.01)
    else:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        code = KILLED
    return Ending(case, code, time.monotonic() - started, log.read_text("utf-8", "replace"))


def _become(arguments: list[str], place: Path, log: Path) -> None:
    """The command line, in this process; never comes back."""
    code = 99
    try:
        os.setpgid(0, 0)
        os.chdir(place)
        sys.path.insert(0, str(place))
        said = os.open(log, os.O_WRONLY | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(said, stream)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.argv = ["fedpriv", *arguments]
        from fedpriv.simulations import cli

        cli.err.file = sys.stderr
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except BaseException:
            import traceback

            traceback.print_exc()
            code = 1
    finally:
        try:
            sys.stdout.flush(), sys.stderr.flush()
        finally:
            os._exit(code)


def good_run(place: Path) -> World:
    """A small run with evidence, truth and scores."""
    place.mkdir()
    (place / "good.toml").write_text(tomli_w.dumps(TINY))
    arguments = ["run", str(place / "good.toml"), "--out", str(place / "R")]
    found = ended(Case("good", "good", lambda _: arguments, frozenset({0})), place / "made")
    assert not found.wrong, found.said
    return World(place / "R")


def fuzzed(count: int, seed: int, place: Path) -> list[Ending]:
    for name in PRELOADED:  # once here, not once a case
        import_module(name)
    world = good_run(place / "good")
    found = []
    for number, case in enumerate(cases(seed, count, world)):
        found.append(ended(case, place / str(number)))
        if found[-1].wrong:
            print(f"{found[-1].wrong}: {case.kind}: {case.what}", flush=True)
            print(found[-1].said[-600:], flush=True)
    return found


def table(endings: list[Ending]) -> str:
    """Exit codes by kind."""
    counts = Counter((one.case.kind, one.code) for one in endings)
    codes = sorted({one.code for one in endings})
    lines = ["kind," + ",".join(map(str, codes)) + ",wrong,slowest"]
    for kind in dict.fromkeys(one.case.kind for one in endings):
        own = [one for one in endings if one.case.kind == kind]
        figures = [counts[kind, code] for code in codes] + [sum(bool(o.wrong) for o in own)]
        lines.append(f"{kind},{','.join(map(str, figures))},{max(o.seconds for o in own):.1f}")
    return "\n".join(lines)


if __name__ == "__main__":
    count, seed = (int(one) for one in (*sys.argv[1:], *("500", "0")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as scratch:
        endings = fuzzed(count, seed, Path(scratch))
    print(table(endings))
    wrong = sum(bool(one.wrong) for one in endings)
    print(f"{wrong} of {len(endings)} ended wrongly")
    sys.exit(int(wrong > 0))
