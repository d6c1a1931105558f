"""A federation of real processes: started, submitted to, watched."""

import threading
import time
from pathlib import Path

import yaml

from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.simulations.deploy.processes import Processes
from fedpriv.simulations.deploy.submission import carried_out, submitted

FILE = Path(__file__).parents[2] / "docker-compose.yml"
PATIENCE = 900.0
SMALL = {
    "name": "small",
    "seed": 3,
    "data": {"name": "synthetic"},
    "model": {"name": "mlp"},
    "training": {"lr": 0.1, "batch-size": 8},
    "federation": {"clients": 3, "rounds": 2, "timeout": 60.0},
}


def small(**sections):
    return from_tables({**SMALL, **sections})


# Wide enough for curious servers, whose batches of one sample are what they are after.
TERMS = """
tasks = ["synthetic", "mnist-5k"]
batch-size = [1, 4096]
extra-plugins = ["spn", "dp"]
keep-truth = true
"""


def up(folder, file=FILE, terms=TERMS, shared=False):
    """A federation on its feet, its clients with these terms."""
    processes = Processes(file, folder)
    for client in range(3):
        state = folder / "volumes" / f"client-{client}-state"
        state.mkdir(parents=True)
        (state / "terms.toml").write_text(terms)
    processes.up(PATIENCE, shared=shared)
    return processes


def besieged_file(folder, server=False):
    """The compose file with an enemy in the place of a client and, if so asked, of the server."""
    tables = yaml.safe_load(FILE.read_text())
    command = tables["services"]["client-1"]["command"]
    command[command.index("fedpriv.clients.protection.executor")] = "hostile_executor"
    if server:
        command = tables["services"]["serverapp"]["command"]
        command[:1] = ["python", "-m", "hostile_server"]
    path = folder / "docker-compose.yml"
    path.write_text(yaml.safe_dump(tables))
    (folder / ".env").write_text((FILE.parent / ".env").read_text())
    return path


def run(processes, scenario, out, resume=False, tell=lambda line: None):
    """Submit a scenario and wait; what came of it."""
    number = submitted(processes, scenario, out, resume=resume)
    return carried_out(processes, number, scenario, RunFolder(out), tell)


class InBackground(threading.Thread):
    """A run that goes on while the test does something to the federation."""

    def __init__(self, processes, scenario, out):
        super().__init__(daemon=True)
        self.arguments, self.folder = (processes, scenario, out), RunFolder(out)
        self.results, self.error = None, None
        self.start()

    def run(self):
        try:
            self.results = run(*self.arguments)
        except Exception as error:
            self.error = error

    def after_round(self, number):
        until(lambda: len(self.folder.rounds()) >= number or self.error)
        assert self.error is None, self.error

    def done(self):
        self.join(PATIENCE)
        assert not self.is_alive(), "the run did not end"
        assert self.error is None, self.error
        return self.results


def until(condition, seconds=PATIENCE):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not happen in time"
        time.sleep(0.2)
