"""`fedpriv search`: augmentation policies (ATS)."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fedpriv.simulations.cli.options import (
    AsJson,
    Device,
    GpusPerWorker,
    InsecureRay,
    RayAddress,
    Workers,
)
from fedpriv.simulations.cli.terminal import err, out
from fedpriv.simulations.cli.values import within, writable

if TYPE_CHECKING:
    from fedpriv.policies import Policy, PolicySet
    from fedpriv.simulations.search.correlation import Correlation
    from fedpriv.simulations.search.subject import Subject

EVERY = 5.0  # seconds between two lines where there is no bar


def search(
    data: Annotated[str, typer.Option(help="The data set the policies are for.")] = "cifar100",
    model: Annotated[str, typer.Option(help="The model that judges them.")] = "resnet20",
    candidates: Annotated[int, typer.Option(help="Random policies to judge.")] = 1500,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            help="Judge this instead of random ones; singles is each transformation. Repeatable.",
        ),
    ] = None,
    keep: Annotated[int, typer.Option(help="How many to keep.")] = 10,
    threshold: Annotated[
        float | None, typer.Option(help="The least accuracy score, instead of --quantile.")
    ] = None,
    quantile: Annotated[
        float, typer.Option(help="The share of candidates turned away by their accuracy score.")
    ] = 0.15,
    images: Annotated[int, typer.Option(help="Images a privacy score rests on.")] = 100,
    rounds: Annotated[int, typer.Option(help="Batches an accuracy score rests on.")] = 10,
    points: Annotated[int, typer.Option(help="Interpolation points of a privacy score.")] = 10,
    longest: Annotated[int, typer.Option(help="Transformations in a policy, at most.")] = 3,
    layerwise: Annotated[
        bool,
        typer.Option(
            help="Take the mean of the layers' cosines, as the paper's released code does."
        ),
    ] = False,
    trapezoid: Annotated[
        bool, typer.Option(help="Use the trapezoid rule, as the paper's released code does.")
    ] = False,
    share: Annotated[
        float, typer.Option(help="The share of the training data that the model is trained on.")
    ] = 0.1,
    epochs: Annotated[int, typer.Option(help="Epochs on that share.")] = 50,
    verify: Annotated[
        str | None, typer.Option(help="Attack some candidates: does the score foretell the PSNR?")
    ] = None,
    verified: Annotated[
        int, typer.Option(help="How many candidates --verify attacks.", min=2)
    ] = 20,
    attacked: Annotated[int, typer.Option(help="Images of each that --verify attacks.", min=1)] = 8,
    evolve: Annotated[
        bool, typer.Option(help="Breed candidates from the best so far; fewer of them do.")
    ] = False,
    in_full: Annotated[
        bool, typer.Option(help="Score every candidate in full, without dropping any early.")
    ] = False,
    seed: Annotated[int, typer.Option(help="The seed of everything that is drawn.")] = 0,
    root: Annotated[str | None, typer.Option(help="Folder of the data.")] = None,
    file: Annotated[Path, typer.Option("--out", help="Where the result goes.")] = Path(
        "policies.json"
    ),
    workers: Workers = 1,
    ray_address: RayAddress = None,
    insecure_ray: InsecureRay = False,
    device: Device = None,
    gpus_per_worker: GpusPerWorker = 0.0,
    as_json: AsJson = False,
) -> None:
    """Search for transformation policies that stop gradient inversion (ATS).

    A search that was stopped goes on when the same command is given again.
    """
    within("--gpus-per-worker", gpus_per_worker, 0, 64)
    writable(file)
    if verify:
        from fedpriv.attacks.catalogue import ATTACKS

        ATTACKS[verify]  # an unknown name is refused before hours of search
    import torch

    from fedpriv.policies.search import Search
    from fedpriv.simulations.search.search import Places, search_policies
    from fedpriv.simulations.search.subject import Subject
    from fedpriv.simulations.stopping import stoppable

    subject = Subject(
        data=data,
        model=model,
        root=root,
        share=share,
        epochs=epochs,
        points=points,
        reduction="layer" if layerwise else "global",
        rule="trapezoid" if trapezoid else "left",
    )
    torch.set_num_threads(1)  # small batches: two threads are slower, far slower on busy cores
    chosen = _chosen(policies or [])
    settings = Search(
        candidates=len(chosen) or candidates,
        keep=keep,
        threshold=threshold,
        quantile=quantile,
        images=images,
        rounds=rounds,
        longest=longest,
        evolve=evolve,
        race=not in_full,
        seed=seed,
    )
    with _shown(err) as shown, stoppable() as progress:
        told = (shown.begin, shown.advance, progress)
        found = search_policies(
            subject,
            settings,
            file,
            workers=workers,
            ray_address=ray_address,
            insecure_ray=insecure_ray,
            gpus_per_worker=gpus_per_worker,
            device=device or "auto",
            policies=chosen,
            on_stage=shown.begin,
            on_done=shown.advance,
            progress=progress,
        )
        checked = verify and _checked(found, subject, file, verify, verified, attacked, told)
    if as_json:
        typer.echo(json.dumps(json.loads(file.read_text(encoding="utf-8"))))
        return
    rows = {row.policy: row for row in found.candidates}
    table = Table(title=f"{len(found.policies)} of {len(rows)} policies, {model} on {data}")
    for column in ("policy", "S_pri", "S_acc", "transformations"):
        table.add_column(column, justify="left" if column[0] in "pt" else "right")
    for name in found.policies:
        row = rows[name]
        table.add_row(name, f"{row.privacy:.4f}", f"{row.accuracy:.3f}", _described(name))
    out.print(table)
    out.print(f"hybrid: {found.hybrid()}", highlight=False)
    if checked:
        out.print(f"S_pri and PSNR of {verify}: {checked}", highlight=False)
    seconds = found.cost["seconds-per-candidate"]
    bought = found.cost["scores"]
    out.print(f"{seconds:.2f} s a candidate, {bought} new scores", highlight=False)
    places = Places(file)
    left = [file, places.figure, places.curves, places.verified, places.layers]
    files = ", ".join(str(path) for path in left if path.exists())
    out.print(f"files: {files}", highlight=False, soft_wrap=True)


def _checked(
    found: "PolicySet",
    subject: "Subject",
    file: Path,
    attack: str,
    policies: int,
    images: int,
    told: tuple[Any, ...],
) -> "Correlation":
    from fedpriv.simulations.search.correlation import verify
    from fedpriv.simulations.search.layers import watch

    checked = verify(found, subject, file, attack, policies, images, *told)
    watch(found, subject, file, attack, images, *told)
    return checked


def _chosen(texts: list[str]) -> "list[Policy]":
    from fedpriv.policies import TRANSFORMATIONS, Policy

    singles = list(map(str, range(len(TRANSFORMATIONS))))
    names = [name for text in texts for name in (singles if text == "singles" else [text])]
    return [Policy.parse(name) for name in dict.fromkeys(names)]


def _described(name: str) -> str:
    from fedpriv.policies import Policy

    return Policy.parse(name).described()


class _Shown:
    """What a search is at: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console, bar: Progress | None) -> None:
        self.console, self.bar = console, bar
        self.what, self.total, self.done = "", 0, 0
        self.began = self.told = time.monotonic()
        self.task = bar.add_task("", total=None) if bar else None

    def begin(self, what: str, total: int) -> None:
        self.what, self.total, self.done, self.began = what, total, 0, time.monotonic()
        if self.bar is not None and self.task is not None:
            self.bar.reset(self.task, total=total, description=what)
        else:
            self.console.print(f"{what}: {total} to do", highlight=False)

    def advance(self) -> None:
        self.done += 1
        if self.bar is not None and self.task is not None:
            self.bar.advance(self.task)
        elif time.monotonic() - self.told > EVERY:
            self.told = time.monotonic()
            left = (self.told - self.began) / self.done * (self.total - self.done)
            line = f"{self.what}: {self.done}/{self.total}  {left:.0f} s left"
            self.console.print(line, highlight=False)


@contextmanager
def _shown(console: Console) -> Iterator[_Shown]:
    if not console.is_terminal:
        yield _Shown(console, None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
        yield _Shown(console, bar)
