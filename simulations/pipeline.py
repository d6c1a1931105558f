"""A scenario and its variants, one after another: train, attack, score, and one page of it all."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fedpriv.lock import alone
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.checks import check
from fedpriv.simulations.federation.follow import following
from fedpriv.simulations.federation.progress import Show
from fedpriv.simulations.federation.run import deliberate_threads, simulate
from fedpriv.simulations.judging.attacking import Tell, silent
from fedpriv.simulations.judging.gate import Gate
from fedpriv.simulations.stopping import stoppable
from fedpriv.simulations.variants import variants_of

if TYPE_CHECKING:
    from fedpriv.simulations.judging.judge import TruthOf


@alone()
def run_all(
    scenario: Scenario,
    folder: RunFolder,
    show: Callable[[], Show],
    *,
    resume: bool = False,
    ray_address: str | None = None,
    insecure_ray: bool = False,
    gates: Sequence[Gate] | None = None,
    tell: Tell = silent,
) -> dict[str, Any]:
    """Every variant in its folder; what came of each, by name.

    `partial` is true when Ctrl-C cut attacks short: then later variants are left out.
    """
    deliberate_threads()
    rows: dict[str, Any] = {}
    variants = list(variants_of(scenario))
    for _, variant in variants:
        # A gate is over all variants: one that nobody attacks has nothing to be judged by.
        check(variant, gates if variant.attacks else ())
    for name, variant in variants:
        place = folder.below(name) if name else folder
        going_on = resume and place.scenario_file.exists()
        try:
            with following(place, variant):
                simulate(
                    variant,
                    place,
                    show(),
                    resume=going_on,
                    ray_address=ray_address,
                    insecure_ray=insecure_ray,
                )
        except KeyboardInterrupt:
            if not rows:
                raise
            return concluded(folder, rows) | {"partial": True}  # what the variants before gave
        rows[name] = {"folder": str(place.path), "rounds": place.rounds()}
        if judge(rows[name], place, variant, tell, gates or ()):
            break
    return concluded(folder, rows)


def judge(
    result: dict[str, Any],
    place: RunFolder,
    scenario: Scenario,
    tell: Tell = silent,
    gates: Sequence[Gate] = (),
    truth_of: "TruthOf | None" = None,
) -> bool:
    """Put what attacks found into a variant's result; whether they were cut short."""
    from fedpriv.simulations.judging.judge import judged  # pandas, when training is over

    with stoppable() as progress:
        found = judged(
            place,
            scenario,
            truth_of=truth_of,
            metrics=[gate.metric for gate in gates],
            tell=tell,
            progress=progress,
        )
    result |= found.plain()
    return found.partial


def concluded(folder: RunFolder, rows: dict[str, Any]) -> dict[str, Any]:
    """The summary of variants that share codes, and the page."""
    from fedpriv.report.page import write_report
    from fedpriv.simulations.judging.summary import write_summary

    summary = write_summary(folder, rows)
    report = str(write_report([folder.path]))
    return {
        "folder": str(folder.path),
        "rows": rows,
        "summary": summary,
        "report": report,
        "partial": any(row.get("partial") for row in rows.values()),
    }
