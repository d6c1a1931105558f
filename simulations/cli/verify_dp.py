"""`fedpriv verify-dp`: whether a claimed ε holds."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from fedpriv.errors import BadInput
from fedpriv.scenario.binding import kebab
from fedpriv.simulations.cli.tables import finite
from fedpriv.simulations.cli.terminal import err, out

app = typer.Typer(
    help="Does the claimed ε hold: of a mechanism, of a run with canaries, of a claim on paper?",
    no_args_is_help=True,
)
Unit = Literal["sample", "client"]
Neighbours = Literal["add-remove", "replace"]
Epsilon = Annotated[float, typer.Option(help="The ε that is claimed.")]
Delta = Annotated[float, typer.Option(help="The δ that is claimed.")]
AsUnit = Annotated[Unit, typer.Option(help="Whom the claim is about: a sample or a client.")]
AsNeighbours = Annotated[
    Neighbours, typer.Option(help="Whether one unit is added or removed, or replaced.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command("mechanism")
def mechanism(
    target: Annotated[
        str,
        typer.Argument(
            help="gaussian, laplace, one of our plugins, a Flower mod or strategy, or any "
            "pkg.module:callable from update to update."
        ),
    ],
    epsilon: Epsilon,
    delta: Delta = 1e-5,
    unit: AsUnit = "client",
    neighbours: AsNeighbours = "add-remove",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="An option of it: sensitivity=1. Repeatable.")
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="The norm it clips to. Default: from its options, else 1.")
    ] = None,
    public: Annotated[
        list[str] | None,
        typer.Option(help="A part of the release that its owner declares public. Repeatable."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="The time that draws may take.")] = 5.0,
    draws: Annotated[
        int | None, typer.Option(help="Draws of each world that are counted, instead of a time.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed numpy's and torch's global draws, to repeat a result.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw from a mechanism as a black box, and bound its ε from below."""
    from fedpriv.simulations.dp.checks import mechanism_checked

    result = mechanism_checked(
        target,
        settings or [],
        (epsilon, delta, unit, neighbours),
        clip=clip,
        public=public or [],
        seconds=seconds,
        draws=draws,
        seed=seed,
        tell=_tell,
    )
    _end(result.plain(), result.exit_code, as_json)


@app.command("claim")
def claim(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(help="A run folder whose ε is checked. Default: the options.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="The ε that is claimed.")] = None,
    delta: Delta = 1e-5,
    noise_multiplier: Annotated[
        float | None, typer.Option(help="σ: the noise over the sensitivity.")
    ] = None,
    sensitivity: Annotated[
        float | None, typer.Option(help="What the noise is scaled to. Default: the clip norm.")
    ] = None,
    clip: Annotated[float, typer.Option(help="The norm that updates or gradients have.")] = 1.0,
    rate: Annotated[float, typer.Option(help="The chance of a unit to be in a step.")] = 1.0,
    steps: Annotated[int, typer.Option(help="Steps of one round.")] = 1,
    epochs: Annotated[int | None, typer.Option(help="Epochs of one round.")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds that a unit takes part in.")] = 1,
    sampling: Annotated[
        Literal["poisson", "fixed", "none"], typer.Option(help="How batches are drawn.")
    ] = "none",
    runs: Annotated[int, typer.Option(help="Trainings on the same data, tuning included.")] = 1,
    unit: AsUnit = "sample",
    neighbours: AsNeighbours = "add-remove",
    as_json: AsJson = False,
) -> None:
    """Compute the ε of noise, sampling and steps, and what explains a claim below it."""
    from fedpriv.runfolder import RunFolder
    from fedpriv.simulations.dp.card import written_card
    from fedpriv.simulations.dp.checks import folder_checked, paper_checked

    if folder is not None:
        given = _given(context) - {"folder", "epsilon", "unit", "as_json"}
        if given:
            raise BadInput(
                f"A run folder has its own {', '.join(sorted(map(kebab, given)))}; leave them out. "
                "Only --epsilon and --unit go with a folder."
            )
        verdict = folder_checked(folder, epsilon, unit if "unit" in _given(context) else None)
        RunFolder(folder).write_verified("claim", finite(verdict.plain()))
        written_card(RunFolder(folder))
    else:
        facts: dict[str, Any] = {
            "clip": clip,
            "rate": rate,
            "steps": steps,
            "rounds": rounds,
            "delta": delta,
            "neighbours": neighbours,
            "sampling": sampling,
            "runs": runs,
        }
        verdict = paper_checked(epsilon, noise_multiplier, sensitivity, epochs, unit, facts)
    found = verdict.plain()
    if not as_json:
        table = Table("by", "ε", title=f"claimed: {verdict.claim}")
        table.add_row("PLD (dp-accounting)", f"{verdict.low:.5g} to {verdict.high:.5g}")
        for name, value in verdict.formulas.items():
            table.add_row(name, f"{value:.5g}" if value == value else "too large for its grid")
        out.print(table)
        for words in verdict.explained:
            out.print(f"what explains the claim: {words} (by {verdict.by}).", highlight=False)
    _end(found, verdict.exit_code, as_json)


@app.command("run")
def run(
    scenario: Annotated[str, typer.Argument(help="A built-in name, a TOML file, or a run folder.")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Override: training.lr=0.1. Repeatable.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="The ε that is claimed. Default: what the run reports.")
    ] = None,
    delta: Delta = 1e-5,
    canaries: Annotated[
        int,
        typer.Option(help="Canary samples, each in or out by a coin; or canary clients, all in."),
    ] = 1000,
    unit: AsUnit = "sample",
    kind: Annotated[
        Literal["gradient", "mislabelled", "noise"],
        typer.Option(
            help="Canaries: worst-case gradients, real samples with a wrong label, or pictures of "
            "noise."
        ),
    ] = "gradient",
    folder: Annotated[
        Path | None, typer.Option("--out", help="Run folder. Default: runs/verify-NAME-TIME.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a federation with canaries once, and bound its ε from updates and from the model."""
    from fedpriv.simulations.dp.run import run_checked

    result = run_checked(
        scenario,
        settings or [],
        epsilon=epsilon,
        delta=delta,
        canaries=canaries,
        kind=kind,
        unit=unit,
        folder=folder,
        tell=_tell,
    )
    if not as_json:
        for line in result.lines:
            out.print(line, highlight=False)
    _end(result.examination.plain() | result.facts, result.examination.exit_code, as_json)


def _given(context: typer.Context) -> set[str]:
    """The options that were typed."""
    default = ("DEFAULT", "DEFAULT_MAP")
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source and source.name not in default}


def _tell(line: str) -> None:
    err.print(line, highlight=False, markup=False)


def _end(found: dict[str, Any], code: int, as_json: bool) -> None:
    """Print the answer; the exit code says it too."""
    if as_json:
        typer.echo(json.dumps(finite(found)))
        raise typer.Exit(code)
    for bound in found.get("bounds", []):
        out.print(
            f"ε ≥ {bound['epsilon-at-least']:.3g} by {bound['method']}, {bound['game']}, "
            f"{bound['score']}; n = {bound['draws']}; assumes {bound['assumes']}.",
            highlight=False,
        )
    for finding in found.get("findings", []):
        word = "in no ε" if finding["refutes"] else "seen" if finding["bare"] else "note"
        out.print(f"{word}: {finding['cause']}. {finding['detail']}", highlight=False, markup=False)
    for line in found.get("left-out", []):
        out.print(f"left out: {line}", highlight=False, markup=False)
    if found.get("tests"):
        out.print(
            f"every bound also assumes: {'; '.join(found['all-assume'])}. "
            f"{found['tests']} tests, each wrong with a chance of at most "
            f"{found['chance-of-each']:.2g} where its assumptions hold; what was chosen from draws "
            "was tested on others.",
            highlight=False,
        )
    if "seconds" in found:
        out.print(f"{found['draws']} draws, {found['seconds']:.1f} s", highlight=False)
    out.print(f"[bold]{found['sentence']}[/]", highlight=False)
    raise typer.Exit(code)
