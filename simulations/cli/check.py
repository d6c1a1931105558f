"""`fedpriv check`: everything that can be known of a scenario before the start."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from fedpriv.simulations.cli.options import AsJson, Profile, Settings
from fedpriv.simulations.cli.terminal import err, out


def check(
    scenario: Annotated[str, typer.Argument(help="A built-in name or a TOML file.")],
    settings: Settings = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Look for mistakes in a scenario, and estimate what it takes; trains nothing."""
    if not as_json:  # before the imports, which take seconds
        err.print(f"looking at {scenario} …", highlight=False, markup=False)
    from fedpriv.errors import BadScenario
    from fedpriv.scenario import read
    from fedpriv.simulations.checks import problems
    from fedpriv.simulations.forecast import forecast
    from fedpriv.simulations.variants import variants_of

    chosen = read(scenario, settings or [], profile)
    found: dict[str, dict[str, str]] = {}
    for name, variant in variants_of(chosen):
        wrong = problems(variant)
        known = {text for other in found.values() for text in other.values()}
        found[name] = {about: text for about, text in wrong.items() if text not in known}
    count = sum(len(wrong) for wrong in found.values())
    expected = None if count else forecast(next(variants_of(chosen))[1])
    if as_json:
        plain = {"problems": found, "forecast": expected and asdict(expected)}
        typer.echo(json.dumps(plain))
    else:
        for name, wrong in found.items():
            for about, text in wrong.items():
                where = f"variant {name}, {about}" if name else about
                out.print(f"{where}: {text}", highlight=False, markup=False)
        for line in expected.lines if expected else ():
            out.print(line, highlight=False, markup=False)
        if len(found) > 1 and expected:
            out.print(f"variants: {len(found)}, so that it takes about that many times as long")
        if not count:
            out.print(f"nothing is wrong with '{scenario}'", highlight=False, markup=False)
    if count:
        raise BadScenario(f"{count} {'problem' if count == 1 else 'problems'} in '{scenario}'.")
