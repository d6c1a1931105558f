"""What a federation of real processes costs on one machine: memory of its clients and seconds.

    python benchmarks/deployed_memory.py [--plain 3] [--shared 3 32] [--train 32] [--rounds 8]

Memory is PSS: pages that several processes share are divided among them, so that a sum counts every
page once. RSS would count the pages of the loaded parent once for every fork.
"""

import argparse
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from fedpriv.runfolder import RunFolder
from fedpriv.scenario import read
from fedpriv.simulations.deploy.processes import Processes
from fedpriv.simulations.deploy.submission import carried_out, submitted

FILE = Path(__file__).parents[1] / "docker-compose.yml"


def descendants(pid: int) -> list[int]:
    rows = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True).stdout
    children: dict[int, list[int]] = {}
    for child, parent in (map(int, row.split()) for row in rows.splitlines()):
        children.setdefault(parent, []).append(child)
    found, waiting = [], [pid]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return found


def megabytes(pid: int) -> tuple[float, float]:
    """PSS of a process, and how much of it no other process shares."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return 0.0, 0.0
    sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
    return sizes["Pss"], sizes["Private_Clean"] + sizes["Private_Dirty"]


def told(processes: Processes, what: str) -> None:
    found = processes.running()
    total = sum(megabytes(pid)[0] for pid in descendants(found.pid))
    print(f"{what}: all services {total:,.0f} MB PSS")
    for kind in ("superlink", "serverapp", "supernode-", "client-"):
        alive = [one for name, one in found.services.items() if name.startswith(kind) and one.pid]
        sizes = [megabytes(one.pid or 0) for one in alive]
        pss, own = (sum(side) / len(sizes) for side in zip(*sizes, strict=True))
        print(f"  {kind.rstrip('-'):10} x {len(sizes):<3} {pss:6.0f} MB each, {own:.0f} MB its own")


def measured(clients: int, shared: bool, rounds: int) -> None:
    """A federation started, weighed and, if it has rounds to train, trained."""
    how = "one loaded parent" if shared else "one parent each"
    with tempfile.TemporaryDirectory() as place:
        processes = Processes(FILE, Path(place) / "deployment")
        begun = time.monotonic()
        processes.up(1800, clients=clients, shared=shared)
        try:
            print(f"{clients} clients, {how}: up in {time.monotonic() - begun:.0f} s")
            told(processes, "  at rest")
            if rounds:
                trained(processes, clients, rounds, Path(place) / "run")
        finally:
            processes.down()


def trained(processes: Processes, clients: int, rounds: int, out: Path) -> None:
    peak, over = 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(2.0):
            pids = descendants(processes.running().pid)
            peak = max(peak, sum(megabytes(pid)[0] for pid in pids))

    watching = threading.Thread(target=watch)
    watching.start()
    settings = [f"federation.clients={clients}", f"federation.rounds={rounds}"]
    scenario = read("quickstart", settings)
    begun = time.monotonic()
    try:
        number = submitted(processes, scenario, out)
        results = carried_out(processes, number, scenario, RunFolder(out), print)
    finally:
        over.set()
        watching.join()
    last = results["rounds"][-1]
    print(
        f"  quickstart, {rounds} rounds: {time.monotonic() - begun:.0f} s, "
        f"{last['clients']} clients in the last round, accuracy {last.get('accuracy')}, "
        f"at most {peak:,.0f} MB PSS; load average {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plain", type=int, nargs="*", default=[3])
    parser.add_argument("--shared", type=int, nargs="*", default=[3, 32])
    parser.add_argument("--train", type=int, nargs="*", default=[32])
    parser.add_argument("--rounds", type=int, default=8)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for clients in given.plain:
        measured(clients, False, 0)
    for clients in given.shared:
        measured(clients, True, given.rounds if clients in given.train else 0)


if __name__ == "__main__":
    main()
