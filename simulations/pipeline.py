"""A scenario and its variants, one after another: train, attack, score, and one page of it all."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fedpriv.errors import BadFolder
from fedpriv.lock import alone
from fedpriv.metrics.gates import Gate, gates_of
from fedpriv.progress import Progress, Told, go_on
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.checks import check
from fedpriv.simulations.federation.follow import following
from fedpriv.simulations.federation.progress import Show
from fedpriv.simulations.federation.run import deliberate_threads, simulate
from fedpriv.simulations.judging.attacking import Tell, silent
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
    progress: Progress = go_on,
    begins: Callable[[str], object] = str,
) -> dict[str, Any]:
    """Every variant in its folder; what came of each, by name. `begins` hears each name.

    `partial` is true when `progress` cut training or attacks short: then later variants are left
    out.
    """
    deliberate_threads()
    told = Told(progress)
    rows: dict[str, Any] = {}
    variants = list(variants_of(scenario))
    places = {name: folder.below(name) if name else folder for name, _ in variants}
    if resume and not any(place.scenario_file.exists() for place in places.values()):
        raise BadFolder(f"'{folder.path}' holds no run to resume; leave --resume out.")
    for _, variant in variants:
        # A gate is over all variants: one that nobody attacks has nothing to be judged by.
        check(variant, gates if variant.attacks else ())
    for name, variant in variants:
        place = places[name]
        again = resume and place.scenario_file.exists()
        if name:
            begins(name)
        with following(place, variant, told):
            simulate(
                variant,
                place,
                show(),
                resume=again,
                ray_address=ray_address,
                insecure_ray=insecure_ray,
                progress=told,
            )
        rows[name] = {"folder": str(place.path), "rounds": place.rounds()}
        if not told.stopped:
            judge(rows[name], place, variant, tell, gates, progress=told)
        if told.stopped:
            break
    return concluded(folder, rows, told.stopped)


def judge(
    result: dict[str, Any],
    place: RunFolder,
    scenario: Scenario,
    tell: Tell = silent,
    gates: Sequence[Gate] | None = None,
    truth_of: "TruthOf | None" = None,
    progress: Progress = go_on,
) -> None:
    """Put what attacks found into a variant's result; `gates` are the scenario's by default."""
    from fedpriv.simulations.dp.card import written_card
    from fedpriv.simulations.judging.judge import judged  # pandas, when training is over

    written_card(place)
    gates = gates_of(scenario.gate) if gates is None else gates
    place.write_gates(map(str, gates))
    found = judged(
        place,
        scenario,
        truth_of=truth_of,
        metrics=[gate.metric for gate in gates],
        tell=tell,
        progress=progress,
    )
    result |= found.plain()


def concluded(folder: RunFolder, rows: dict[str, Any], stopped: bool = False) -> dict[str, Any]:
    """The summary of variants that share codes, and the page of those that have a round."""
    from fedpriv.report.page import write_report
    from fedpriv.simulations.judging.summary import write_summary

    ended = {name: row for name, row in rows.items() if row["rounds"]}
    summary = write_summary(folder, ended) if ended else []
    report = str(write_report([folder.path])) if ended else ""
    return {
        "folder": str(folder.path),
        "rows": rows,
        "summary": summary,
        "report": report,
        "partial": stopped or any(row.get("partial") for row in rows.values()),
    }
