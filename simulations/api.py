"""fedpriv from Python and from notebooks: run, attack, sweep and audit, and get tables back."""

import html
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console

from fedpriv.errors import BadOption, Interrupted
from fedpriv.report.about_runs import all_scores
from fedpriv.report.leakage import deciding
from fedpriv.report.page import page_of
from fedpriv.report.reading import Run, read_material
from fedpriv.report.verdict import Verdict, verdict_of_runs
from fedpriv.runfolder import RunFolder, new_folder
from fedpriv.scenario import Scenario, from_tables, merged, parsed_setting, read
from fedpriv.simulations.stopping import stoppable
from fedpriv.simulations.variants import nested
from fedpriv.sweepfolder import SweepFolder

if TYPE_CHECKING:
    from torch import nn

    from fedpriv.simulations.judging.judge import Judged

Settings = Mapping[str, Any] | Sequence[str]  # {"training.lr": 0.1} or ["training.lr=0.1"]


@dataclass(frozen=True)
class RunResult:
    """A finished run, or the variants of one: its tables, its verdict and its page.

    Args:
        folder: The run folder. The result reads it anew each time it is asked.

    Example:
        >>> from pathlib import Path
        >>> from fedpriv import RunResult
        >>> RunResult(Path("runs/mine")).report.name
        'report.html'
    """

    folder: Path

    @property
    def runs(self) -> list[Run]:
        return read_material([self.folder]).runs

    @property
    def rounds(self) -> pd.DataFrame:
        """A row a round: run, round, accuracy, loss, bytes, seconds."""
        frames = [pd.DataFrame(run.rounds).assign(run=run.name) for run in self.runs]
        return pd.concat(frames, ignore_index=True)

    @property
    def scores(self) -> pd.DataFrame:
        """A row an attacked sample; empty when nothing was attacked."""
        return all_scores(self.runs)

    @property
    def verdict(self) -> Verdict:
        runs, scores = self.runs, self.scores
        gates = next((run.gates for run in runs if run.gates), [])
        return verdict_of_runs(runs, scores, deciding(scores, gates))

    @property
    def report(self) -> Path:
        return RunFolder(self.folder).report_file

    def _repr_html_(self) -> str:
        """The verdict and the last round of each run, for notebooks."""
        verdict = self.verdict
        sentences = "".join(f"<p>{html.escape(text)}</p>" for text in verdict.sentences)
        last = self.rounds.groupby("run", sort=False).tail(1)
        shown = [name for name in ("run", "round", "accuracy", "loss", "seconds") if name in last]
        return (
            f"<div><strong>{html.escape(verdict.word)}</strong>{sentences}"
            f"{last[shown].to_html(index=False, escape=True)}"
            f"<p>{html.escape(str(self.folder))}</p></div>"
        )

    def page(self) -> str:
        """The report as HTML text."""
        return page_of(read_material([self.folder]))


@dataclass(frozen=True)
class SweepResult:
    """A sweep that is on disk: its tables and its page.

    Args:
        folder: The sweep's folder. The result reads it anew each time it is asked.

    Example:
        >>> from pathlib import Path
        >>> from fedpriv import SweepResult
        >>> SweepResult(Path("runs/grid")).report.name
        'report.html'
    """

    folder: Path

    @property
    def results(self) -> pd.DataFrame:
        """A row for every cell: defence, value, attack, batch size, seed."""
        return SweepFolder(self.folder).results()

    @property
    def cap(self) -> pd.DataFrame:
        """CAP of every defence against every attack, with its spread over seeds."""
        return SweepFolder(self.folder).cap()

    @property
    def scores(self) -> pd.DataFrame:
        """A row for every attacked sample."""
        return SweepFolder(self.folder).scores()

    @property
    def report(self) -> Path:
        return SweepFolder(self.folder).report_file


def run(
    scenario: str | Scenario = "quickstart",
    *,
    settings: Settings = (),
    profile: str | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    ray_address: str | None = None,
    insecure_ray: bool = False,
    quiet: bool = False,
) -> RunResult:
    """Run a scenario end to end, as `fedpriv run` does: train, observe, attack, score, report.

    A gate is not checked here. Look at `result.verdict` and `result.scores`.

    Args:
        scenario: The name of a built-in scenario, a TOML file, or a Scenario.
        settings: Keys to override: `{"training.lr": 0.1}` or `["training.lr=0.1"]`.
        profile: One of the scenario's profiles.
        out: The run folder. Default: `runs/<name>-<time>`.
        resume: Continue the run in `out`.
        ray_address: Join this Ray cluster. `$RAY_AUTH_TOKEN` is its token.
        insecure_ray: Join a cluster that asks for no token.
        quiet: Print no progress.

    Returns:
        The result, with `rounds` and `scores` as pandas tables, `verdict` and `report`.

    Example:
        >>> from fedpriv import run
        >>> small = {"data.name": "synthetic", "federation.clients": 2, "federation.rounds": 1}
        >>> result = run("quickstart", settings=small, out="runs/small", quiet=True)
        >>> list(result.rounds["round"])
        [1]
    """
    from fedpriv.simulations.federation.progress import show_on
    from fedpriv.simulations.pipeline import run_all

    chosen = scenario_of(scenario, settings, profile)
    place = RunFolder(Path(out)) if out is not None else new_folder(chosen.name)
    console = Console(file=sys.stderr, quiet=quiet)
    with stoppable() as progress:
        found = run_all(
            chosen,
            place,
            lambda: show_on(console),
            resume=resume,
            ray_address=ray_address,
            insecure_ray=insecure_ray,
            progress=progress,
        )
    check_whole(found["partial"], place.path)
    return RunResult(place.path)


def check_whole(partial: bool, folder: Path) -> None:
    """Interrupted when work was cut short: a part of a result must not pass for all of it."""
    if partial:
        raise Interrupted(
            f"Interrupted; what was found so far is kept in '{folder}'. Give out='{folder}' and "
            "resume=True to go on."
        )


def load(folder: Path | str) -> RunResult | SweepResult:
    """The result of a run, an audit or a sweep that is on disk already.

    Args:
        folder: A run folder, or the folder of an audit or a sweep.

    Example:
        >>> from fedpriv import load
        >>> load("runs/nowhere")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        fedpriv.errors.BadFolder: 'runs/nowhere' is no folder; ...
    """
    if SweepFolder(Path(folder)).exists():
        return SweepResult(Path(folder))
    read_material([Path(folder)])
    return RunResult(Path(folder))


def audit(
    scenario: str | Scenario = "quickstart",
    *,
    minutes: float = 10.0,
    work: int | None = None,
    fail_if: Sequence[str] = (),
    settings: Settings = (),
    profile: str | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    workers: int = 1,
    ray_address: str | None = None,
    insecure_ray: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Find out whether a federation leaks and which defence stops it, as `fedpriv audit` does.

    Args:
        scenario: The name of a built-in scenario, a TOML file, or a Scenario.
        minutes: The time that the audit may take.
        work: Units of work instead of minutes. The same number repeats an audit.
        fail_if: Gates such as `psnr>20`. Default: the scenario's `[gate]`, or else a bound for
            every kind of claim.
        settings: Keys to override: `{"training.lr": 0.1}` or `["training.lr=0.1"]`.
        profile: One of the scenario's profiles.
        out: The folder. Default: `runs/audit-<name>-<time>`.
        resume: Continue the audit in `out`.
        workers: How many attacks run side by side on this machine.
        ray_address: Join this Ray cluster. `$RAY_AUTH_TOKEN` is its token.
        insecure_ray: Join a cluster that asks for no token.
        quiet: Print no progress.

    Returns:
        What `verdict.json` holds: `outcome` (leaks, holds or undecided), its `sentence`, the
        `questions` behind it, `possible` (what a server could make clients do), `coverage`,
        `defences`, `cheapest`, `advice`, `missing`, `work`, `minutes` and `report` (the page).

    Example:
        >>> from fedpriv import audit
        >>> small = {"data.name": "synthetic", "model.name": "mlp", "federation.clients": 2}
        >>> found = audit("quickstart", minutes=0.02, settings=small, out="runs/audit", quiet=True)
        >>> found["schema"]
        'fedpriv-verdict-1'
    """
    from fedpriv.simulations.audit import audit as audited

    chosen = scenario_of(scenario, settings, profile)
    place = RunFolder(Path(out)) if out is not None else new_folder(f"audit-{chosen.name}")
    console = Console(file=sys.stderr, quiet=quiet)
    with stoppable() as progress:
        return audited(
            chosen,
            place,
            minutes=minutes,
            work=work,
            fail_if=fail_if,
            resume=resume,
            workers=workers,
            ray_address=ray_address,
            insecure_ray=insecure_ray,
            console=console,
            progress=progress,
        )


def sweep(
    scenario: str | Scenario,
    *,
    settings: Settings = (),
    profile: str | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    ray_address: str | None = None,
    insecure_ray: bool = False,
    workers: int | None = None,
) -> dict[str, Any]:
    """Train and attack a grid of defences on Ray, as `fedpriv sweep` does.

    Args:
        scenario: The name of a built-in scenario, a TOML file, or a Scenario; it needs `[sweep]`.
        settings: Keys to override: `{"sweep.victims": 4}` or `["sweep.victims=4"]`.
        profile: One of the scenario's profiles.
        out: The sweep folder. Default: `runs/<name>-<time>`.
        resume: Do only the cells that `out` lacks.
        ray_address: Join this Ray cluster. `$RAY_AUTH_TOKEN` is its token.
        insecure_ray: Join a cluster that asks for no token.
        workers: How many cells at a time on this machine; 1 works without Ray. Default: its cores.

    Returns:
        `folder`, `rows` (one for each cell; `error` says why one failed), `cap` (the CAP table),
        `scores` (one row for each victim and claim) and `report` (the page).

    Example:
        >>> from fedpriv import sweep
        >>> sweep("quickstart")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        fedpriv.errors.BadScenario: Scenario 'quickstart' has no [sweep]; ...
    """
    from fedpriv.simulations.sweep.sweep import sweep as swept

    chosen = scenario_of(scenario, settings, profile)
    place = Path(out) if out is not None else new_folder(chosen.name).path
    with stoppable() as progress:
        found = swept(
            chosen,
            SweepFolder(place),
            resume=resume,
            ray_address=ray_address,
            insecure_ray=insecure_ray,
            workers=workers,
            progress=progress,
        )
    check_whole(found["partial"], place)
    return found


def attack(
    evidence: Path | str,
    attacks: Sequence[str] = ("dlg",),
    *,
    options: Mapping[str, Any] | None = None,
    model: "nn.Module | str | None" = None,
    facts: Mapping[str, Any] | None = None,
    truth: Path | str | None = None,
    out: Path | str | None = None,
    victims: int | None = None,
    device: str | None = None,
    workers: int = 1,
    ray_address: str | None = None,
    insecure_ray: bool = False,
    gpus_per_worker: float = 0.0,
) -> "Judged":
    """Attack what any Flower app recorded, as `fedpriv attack` does.

    Args:
        evidence: A run folder, or a folder that `record_to` wrote.
        attacks: Names of attacks, or `pkg.module:Name`.
        options: Options of all these attacks: `{"steps": 100}`.
        model: The model that clients train: a module, or `pkg.module:Net`. A run folder needs none.
        facts: Facts that the recording lacks: `{"lr": 0.1}`.
        truth: The folder where clients kept their samples. Without it a stranger's recording has
            no scores; a run folder has its own.
        out: Where the claims go. Default: beside the evidence.
        victims: At most so many victims, over all rounds together.
        device: Where to compute: `auto`, `cpu`, `cuda`, `cuda:1`. Default: that of the run, or
            `auto`. On Ray it is what Ray gave to the worker.
        workers: Processes on this machine that attacks run in.
        ray_address: Join this Ray cluster. `$RAY_AUTH_TOKEN` is its token.
        insecure_ray: Join a cluster that asks for no token.
        gpus_per_worker: GPUs of each worker on Ray. A fraction shares one.

    Returns:
        An object with `rows` (the scores, as in scores.csv), `failures` (attacks that broke down)
        and `partial` (whether work was cut short).

    Example:
        >>> import torch
        >>> from fedpriv import Observation, attack
        >>> net = torch.nn.Linear(4, 2)
        >>> sent = net.state_dict()
        >>> net(torch.tensor([[0.1, 0.2, 0.3, 0.4]])).logsumexp(1).backward()
        >>> gradient = {name: value.grad for name, value in net.named_parameters()}
        >>> seen = Observation.of_gradient(sent, gradient, classes=2, input_shape=(4,))
        >>> folder = seen.save("seen").parent
        >>> found = attack(folder, ["linear"], model=net)
        >>> found.failures
        []
    """
    from fedpriv.scenario.sections import Attack
    from fedpriv.simulations.judging.judge import scored_claims
    from fedpriv.simulations.judging.on_ray import spread_over
    from fedpriv.simulations.judging.recordings import facts_from, of_stranger, opened, truths_in

    where = Path(evidence)
    lines = [f"{key}={json.dumps(value)}" for key, value in (facts or {}).items()]
    if model is None or isinstance(model, str):
        recording, place = opened(where, model, lines, device)
    else:
        recording = of_stranger(where, model, facts_from(lines), device)
        place = RunFolder(where.parent)
    chosen = [Attack(name=name, victims=victims, options=options or {}) for name in attacks]
    with (
        stoppable() as progress,
        spread_over(ray_address, workers, gpus_per_worker, insecure_ray) as spread,
    ):
        return scored_claims(
            recording,
            chosen,
            RunFolder(Path(out)) if out is not None else place,
            truth_of=truths_in(Path(truth)) if truth is not None else None,
            spread=spread,
            progress=progress,
        )


def scenario_of(
    scenario: str | Scenario,
    settings: Settings = (),
    profile: str | None = None,
) -> Scenario:
    """A scenario with some keys overridden."""
    if isinstance(scenario, str):
        lines = () if isinstance(settings, Mapping) else settings
        scenario = read(scenario, lines, profile)
    elif profile is not None:
        raise BadOption(f"profile='{profile}' needs the name of a scenario, not a Scenario.")
    rows = [settings] if isinstance(settings, Mapping) else list(map(parsed_setting, settings))
    tables = scenario.plain()
    for row in rows:
        tables = merged(tables, nested(row))
    return from_tables(tables) if rows else scenario
