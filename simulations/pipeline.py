"""A scenario and its variants, one after another: train, and report what came out."""

from collections.abc import Callable, Mapping
from typing import Any

from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.checks import check
from fedpriv.simulations.federation.follow import following
from fedpriv.simulations.federation.progress import Show
from fedpriv.simulations.federation.run import deliberate_threads, simulate
from fedpriv.simulations.variants import variants_of
from fedpriv.strategies.catalogue import SHARING_CODES

SHARING_NOTHING = ("standalone",)


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
    variants = list(variants_of(scenario))
    for _, variant in variants:
        check(variant)
    for name, variant in variants:
        place = RunFolder(folder.path / name) if name else folder
        going_on = resume and place.scenario_file.exists()
        with following(place, variant):
            simulate(variant, place, show(), resume=going_on, ray_address=ray_address)
        rows[name] = {"folder": str(place.path), "rounds": place.rounds()}
        if variant.federation.strategy in SHARING_CODES:
            from fedpriv.simulations.representation.summary import leakage_of

            rows[name]["leakage"] = leakage_of(variant, place, again=not going_on)
        elif variant.attacks and variant.federation.strategy not in SHARING_NOTHING:
            from fedpriv.simulations.judging.attacking import attack_run
            from fedpriv.simulations.judging.sums import join_truths

            if variant.federation.secagg:
                join_truths(place, variant.federation.clients)
            scores, failures = attack_run(place, variant)
            rows[name] |= {"scores": scores, "attacks-failed": [vars(f) for f in failures]}
    summary = summary_of(folder, rows)
    from fedpriv.report.page import write_report  # pandas, when training is over

    report = str(write_report([folder.path]))
    return {"folder": str(folder.path), "rows": rows, "summary": summary, "report": report}


def summary_of(folder: RunFolder, rows: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What leaked from shared codes, side by side; empty when no variant shares codes."""
    if all("leakage" not in result for result in rows.values()):
        return []
    from fedpriv.simulations.representation.summary import summarised, write_summary

    found = summarised(rows)
    write_summary(folder.path, found)
    return found
