"""A scenario and its variants, one after another: train, and report what came out."""

from collections.abc import Callable
from typing import Any

from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from simulations.progress import Show
from simulations.run import deliberate_threads, simulate
from simulations.variants import variants_of


def run_all(
    scenario: Scenario,
    folder: RunFolder,
    show: Callable[[], Show],
    *,
    resume: bool = False,
    ray_address: str | None = None,
) -> dict[str, Any]:
    """Every variant in its folder; the rounds of each, by name."""
    deliberate_threads()
    rows: dict[str, Any] = {}
    for name, variant in variants_of(scenario):
        place = RunFolder(folder.path / name) if name else folder
        going_on = resume and place.scenario_file.exists()
        simulate(variant, place, show(), resume=going_on, ray_address=ray_address)
        rows[name] = {"folder": str(place.path), "rounds": place.rounds()}
    from fedpriv.report.page import write_report  # pandas, when training is over

    return {"folder": str(folder.path), "rows": rows, "report": str(write_report([folder.path]))}
