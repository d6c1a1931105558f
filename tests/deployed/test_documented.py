"""The commands of the documentation, followed literally."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedpriv.simulations.deploy.processes import Processes

ROOT = Path(__file__).parents[2]
PAGES = [page for page in ("README.md", "docs/deployment.md") if (ROOT / page).exists()]


def commands(page):
    """The lines of the first block that starts a federation."""
    blocks = re.findall(r"```(?:bash|sh|console)\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    found = next((block for block in blocks if "fedpriv deploy up" in block), "")
    lines = (line.partition("#")[0].strip().removeprefix("$ ") for line in found.splitlines())
    return [line for line in lines if line.startswith("fedpriv deploy")]


@pytest.mark.parametrize("page", PAGES)
def test_the_deployment_section_works_as_it_stands(page, tmp_path):
    lines = commands(page)
    if not lines:
        pytest.skip(f"{page} starts no federation")
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
        assert lines[-1].startswith("fedpriv deploy down")
    finally:
        processes = Processes(tmp_path / "docker-compose.yml", tmp_path / "runs" / "deployment")
        found = processes.deployment()
        processes.down()
    assert found is not None and not found.alive
    assert list((tmp_path / "runs").glob("*/rounds.jsonl"))
