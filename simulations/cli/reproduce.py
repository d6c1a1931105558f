"""`fedpriv reproduce`: the papers' tables and figures, judged."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table

from fedpriv.simulations.cli.options import InsecureRay, RayAddress
from fedpriv.simulations.cli.terminal import err, out


def reproduce(
    what: Annotated[
        str, typer.Argument(help="spn, ats, ars, ran, arl, pareto, all, or one experiment.")
    ],
    profile: Annotated[
        str, typer.Option(help="small: hours on two cores. paper: the paper's own settings.")
    ] = "small",
    folder: Annotated[
        Path, typer.Option("--out", help="Where measured/*.csv and papers.md go.")
    ] = Path("docs"),
    work: Annotated[Path, typer.Option(help="Where the runs go.")] = Path("runs/reproduce"),
    trial: Annotated[
        bool,
        typer.Option(help="Only a hundredth of the steps: does it run, and for how many hours?"),
    ] = False,
    resume: Annotated[bool, typer.Option(help="Do only the seeds and cells that lack.")] = False,
    workers: Annotated[int, typer.Option(help="Cells at a time; 1 works without Ray.", min=1)] = 1,
    ray_address: RayAddress = None,
    insecure_ray: InsecureRay = False,
) -> None:
    """Test the claims of the papers: a CSV file an experiment, and a page of all verdicts."""
    from fedpriv.errors import BadData, BadOption, Interrupted, WorkFailed
    from fedpriv.files import write_text
    from fedpriv.progress import Told
    from fedpriv.simulations.reproduce.carrying import Hands, Place, missing_data
    from fedpriv.simulations.reproduce.carrying import reproduce as carried
    from fedpriv.simulations.reproduce.catalogue import PAPERS, experiments_of
    from fedpriv.simulations.reproduce.page import page
    from fedpriv.simulations.reproduce.trial import tried
    from fedpriv.simulations.stopping import stoppable

    profiles: tuple[Literal["small", "paper"], ...] = ("small", "paper")
    if profile not in profiles:
        raise BadOption(f"--profile must be one of {', '.join(profiles)}, got '{profile}'.")
    chosen = experiments_of(what)
    place = Place(folder, work / profile)
    lacking = missing_data(chosen, profile)
    for name, why in lacking.items():
        err.print(f"left out, {name}: {why}", highlight=False, markup=False, soft_wrap=True)
    chosen = [one for one in chosen if one.name not in lacking]
    if lacking and not chosen:
        raise BadData("The data of every experiment asked for are missing; see above.")

    def tell(text: str) -> None:
        err.print(text, highlight=False, markup=False)

    with stoppable() as progress:
        told = Told(progress)
        if trial:
            failed = tried(chosen, place, profile, resume=resume, tell=tell, told=told)
        else:
            failed = carried(
                PAPERS,
                chosen,
                place,
                profile,
                resume=resume,
                hands=Hands(workers, ray_address, insecure_ray),
                tell=tell,
                told=told,
            )
    write_text(place.page, page(PAPERS, folder / "measured"))
    if not trial:
        out.print(verdicts(what, profile, folder))
    out.print(f"page: {place.page}", highlight=False, soft_wrap=True)
    if told.stopped:
        again = ["fedpriv", "reproduce", what, "--profile", profile, "--resume"]
        again += [*["--trial"] * trial, "--out", str(folder), "--work", str(work)]
        raise Interrupted(f"Interrupted; what was done is kept. Go on with: {shlex.join(again)}")
    if failed:
        raise WorkFailed(f"{len(failed)} experiments failed. {' '.join(failed)}")


def verdicts(what: str, profile: str, folder: Path) -> Table:
    """The rows of the page that the command was about."""
    from fedpriv.simulations.reproduce.catalogue import PAPERS, experiments_of
    from fedpriv.simulations.reproduce.experiment import concluded
    from fedpriv.simulations.reproduce.page import judged

    names = {one.name for one in experiments_of(what)}
    table = Table("paper", "where", "verdict", "result")
    for paper in PAPERS:
        for item in paper.items:
            if item.experiment in names:
                found = concluded(item, judged(item, folder / "measured", profile))
                table.add_row(paper.name, item.where, found.verdict, found.result)
    return table
