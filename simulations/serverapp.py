"""The ServerApp of `flwr run .`: it trains, attacks, judges and writes the page."""

import logging
import os
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedpriv.evidence.truth import TRUTH_VARIABLE
from fedpriv.metrics.gates import gates_of
from fedpriv.runfolder import RunFolder, new_folder
from fedpriv.scenario import Scenario
from fedpriv.simulations.checks import check
from fedpriv.simulations.federation.cluster import is_running
from fedpriv.simulations.federation.ray_token import is_closed
from fedpriv.simulations.judging.gate import check as check_gates
from fedpriv.simulations.judging.recordings import truths_in
from fedpriv.simulations.pipeline import concluded, judge
from fedpriv.simulations.stopping import stoppable
from fedpriv.strategies.app import server_app

log = logging.getLogger(__name__)
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Scores need the truth, which clients keep in the folder that $FEDPRIV_TRUTH names."""
    if is_running() and not is_closed():
        log.warning(
            "Flower started a Ray that asks nobody for a token: whoever reaches it runs code as "
            "you. Set RAY_AUTH_MODE=token before you start the SuperLink."
        )
    scenario = Scenario.of(context.run_config)
    check(scenario)
    out = str(context.run_config.get("out", ""))
    folder = RunFolder(Path(out)) if out else new_folder(scenario.name)
    context.run_config = {**context.run_config, "out": str(folder.path)}
    server_app()(grid, context)
    result: dict[str, Any] = {"folder": str(folder.path), "rounds": folder.rounds()}
    kept = os.environ.get(TRUTH_VARIABLE)
    since = folder.scenario_file.stat().st_mtime
    truth_of = truths_in(Path(kept), since) if kept else None
    with stoppable() as progress:
        judge(result, folder, scenario, truth_of=truth_of, progress=progress)
    log.warning("report: %s", concluded(folder, {"": result})["report"])
    failed = [failure["attack"] for failure in result.get("attacks-failed", [])]
    check_gates(
        gates_of(scenario.gate), result.get("scores", []), bool(result.get("partial")), failed
    )
