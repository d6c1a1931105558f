"""Starting the process of one app, and what came of it."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedpriv.errors import BadInput, BadOption, FedprivError, WorkFailed
from fedpriv.files import write_text
from fedpriv.runfolder import RunFolder, read_json

ERROR, JOB = "error.json", "job.json"
KINDS: dict[int, type[FedprivError]] = {2: BadInput, 3: WorkFailed}


@dataclass(frozen=True)
class Job:
    """What to judge."""

    app: str
    out: str
    minutes: float = 5.0
    clients: int | None = None  # as many as the app names, else `choosing.SIMULATED`
    run_config: tuple[str, ...] = ()
    data: tuple[str, ...] = ()


def launch(job: Job) -> dict[str, Any]:
    """The verdict on an app, which runs in a process of its own.

    Its modules, threads and hooks end with that process. Nothing of it is imported here.
    """
    if not 0 < job.minutes < 10**5:
        raise BadOption(f"--minutes must be above 0, got {job.minutes}.")
    if job.clients is not None and job.clients < 1:
        raise BadOption(f"--clients must be at least 1, got {job.clients}.")
    folder = RunFolder(Path(job.out))
    folder.path.mkdir(parents=True, exist_ok=True)
    (folder.path / ERROR).unlink(missing_ok=True)
    write_text(folder.path / JOB, json.dumps(asdict(job)))
    # -P: the folder that the command is started in must not come first on the path.
    module = "fedpriv.simulations.apps.process"
    command = [sys.executable, "-P", "-m", module, str(folder.path / JOB)]
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    threads["OMP_WAIT_POLICY"] = "PASSIVE"  # spinning takes the core that the other thread needs
    # Nothing is written into the app's folder, compiled files neither.
    environment = {**threads, **os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(command, env=environment) as child:
        try:
            code = child.wait(timeout=120 * job.minutes + 120)
        except subprocess.TimeoutExpired as late:
            child.kill()
            raise WorkFailed(
                f"The app did not stop within twice its {job.minutes:g} minutes; give it more: "
                "--minutes."
            ) from late
        except KeyboardInterrupt:
            code = child.wait()
    error = read_json(folder.path / ERROR, {})
    if error:
        raise KINDS.get(int(error["code"]), WorkFailed)(str(error["message"]))
    if code != 0 or not folder.verdict_file.exists():
        raise WorkFailed(
            f"The app's process ended with {code} and left no verdict; what it printed is in "
            f"'{folder.path / 'app.log'}'."
        )
    return {**folder.verdict(), "report": str(folder.report_file)}
