"""Options that several commands take, in the same words."""

from typing import Annotated

import typer

Scenario = Annotated[
    str | None, typer.Argument(help="A built-in name or a TOML file. Default: quickstart.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Override: training.lr=0.1. Repeatable.")
]
Profile = Annotated[str | None, typer.Option(help="One of the scenario's profiles.")]
Resume = Annotated[bool, typer.Option(help="Continue the run in --out.")]
RayAddress = Annotated[
    str | None, typer.Option(help="Join this Ray cluster; $RAY_AUTH_TOKEN is its token.")
]
InsecureRay = Annotated[
    bool, typer.Option("--insecure-ray", help="Join a Ray cluster that asks for no token.")
]
Device = Annotated[
    str | None,
    typer.Option(help="Where to compute: auto (a GPU if there is one), cpu, cuda, cuda:1."),
]
Workers = Annotated[int, typer.Option(help="Processes on this machine.", min=1)]
GpusPerWorker = Annotated[float, typer.Option(help="GPUs of each worker; a fraction shares one.")]
FailIf = Annotated[
    list[str] | None, typer.Option(help="Exit with 1 if a score is beyond a bound: 'psnr>20'.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")]


def named_or(scenario: str | None, default: str) -> str:
    """The scenario that was named, or the default; an empty name is a mistake, not a default."""
    return default if scenario is None else scenario
