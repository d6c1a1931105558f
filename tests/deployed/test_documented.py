"""The commands of the documentation, followed literally."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import FENCE, PAGES, ROOT, deployed

from fedpriv.simulations.deploy.processes import Processes

PLACES = [page for page in PAGES if "fedpriv deploy down" in deployed(page)]


@pytest.mark.parametrize("page", PLACES, ids=lambda page: page.stem)
def test_the_deployment_section_works_as_it_stands(page, tmp_path):
    lines = deployed(page)
    lines = lines[: lines.index("fedpriv deploy down") + 1]
    for _, title, text in FENCE.findall(page.read_text("utf-8")):
        if title:
            (tmp_path / title).write_text(text, "utf-8")
    for name in ("docker-compose.yml", ".env"):
        shutil.copy(ROOT / name, tmp_path / name)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    try:
        for line in lines:
            done = subprocess.run(
                line,
                shell=True,
                cwd=tmp_path,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                timeout=1500,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    finally:
        processes = Processes(tmp_path / "docker-compose.yml", tmp_path / "runs" / "deployment")
        found = processes.deployment()
        processes.down()
    assert found is not None and not found.alive
    assert list((tmp_path / "runs").glob("*/rounds.jsonl"))
