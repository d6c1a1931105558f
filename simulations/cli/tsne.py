"""`fedpriv tsne`: the codes of runs in two dimensions."""

from pathlib import Path
from typing import Annotated

import typer


def tsne(
    folders: Annotated[
        list[Path], typer.Argument(help="Run folders that share codes, or folders of variants.")
    ],
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("tsne.png"),
    samples: Annotated[int, typer.Option(help="At most so many codes of each run.", min=10)] = 1000,
    party: Annotated[
        int | None, typer.Option(help="Codes of this party alone. Default: of all.", min=0)
    ] = None,
    seed: Annotated[int, typer.Option(help="Which codes are taken, and how they begin.")] = 0,
) -> None:
    """Draw shared codes by t-SNE, a panel a run and a colour a label; needs scikit-learn."""
    from fedpriv.report.embedding import draw
    from fedpriv.simulations.cli.values import writable
    from fedpriv.simulations.judging.codes_shared import codes_in

    writable(out)
    draw(codes_in(folders, samples, party, seed), out, seed)
    typer.echo(out)
