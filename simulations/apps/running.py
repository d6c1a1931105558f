"""An app run as it is, in this process: its two parts loaded, its loop watched."""

import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import torch
from flwr.app import Context, RecordDict

from fedpriv.clients.noticing import Eyes
from fedpriv.errors import BadInput, FedprivError, WorkFailed
from fedpriv.registry import FOREIGN, said
from fedpriv.simulations.apps.moving import serve_moved
from fedpriv.simulations.apps.source import Source
from fedpriv.simulations.apps.spending import Mechanism, mechanisms
from fedpriv.simulations.apps.summing import sums
from fedpriv.simulations.apps.support import NotSupported
from fedpriv.simulations.apps.watching import (
    Enough,
    Stopped,
    Watched,
    WatchedGrid,
    contexts_for,
)
from fedpriv.simulations.federation.contexts import RUN_ID, SERVER_NODE

QUIET = {"WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


def loaded(source: Source) -> tuple[Any, Any]:
    """The ServerApp and the ClientApp; the app's folder is last on the path."""
    sys.path.append(str(source.folder))
    serve_moved()
    found = []
    for part in (source.server, source.client):
        module, _, name = part.partition(":")
        try:
            found.append(getattr(importlib.import_module(module), name))
        except ModuleNotFoundError as error:
            raise BadInput(lacking(str(error.name))) from error
        except FOREIGN as error:
            raise BadInput(f"The app's '{part}' cannot be loaded: {said(error)}.") from error
    return found[0], found[1]


def lacking(name: str) -> str:
    """What to do about a module that the app imports and that is not there."""
    package = name.partition(".")[0]
    if package == name:
        return (
            f"The app needs the package '{name}', which is not installed here: install it beside "
            f"fedpriv (pip install {name}) and start again."
        )
    here = next(iter(packages_distributions().get(package, ())), "")
    which = f"{here} {version(here)}" if here else f"the package '{package}'"
    return (
        f"The app imports '{name}', which {which}, installed here, does not have: the app is "
        f"written for another version of {package}."
    )


@contextmanager
def one_process() -> Iterator[None]:
    """Data loaders without workers of their own: hooks see only this process."""
    real = torch.utils.data.DataLoader.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        named |= {"num_workers": 0}
        for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
            named.pop(name, None)
        real(self, *arguments, **named)

    torch.utils.data.DataLoader.__init__ = init  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.utils.data.DataLoader.__init__ = real  # type: ignore[method-assign]


@contextmanager
def apart(log: Path, scratch: Path) -> Iterator[None]:
    """What the app prints goes to a file, and what it writes to a folder of its own."""
    scratch.mkdir(parents=True, exist_ok=True)
    before, kept = Path.cwd(), [os.dup(1), os.dup(2)]
    sys.stdout.flush()
    sys.stderr.flush()
    with log.open("ab") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    os.chdir(scratch)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.chdir(before)
        for number, own in zip((1, 2), kept, strict=True):
            os.dup2(own, number)
            os.close(own)


def watched_run(
    source: Source,
    folder: Path,
    *,
    clients: int,
    seconds: float,
    going_on: Callable[[], bool],
    seed: int = 0,
) -> tuple[Watched, list[Mechanism], bool]:
    """What was seen of the app, what it gave to Opacus, and whether its loop came to its end."""
    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    ends = time.monotonic() + seconds
    eyes = Eyes()
    watched = Watched(folder / "truth", eyes)
    whole = False
    with (
        apart(folder / "app.log", folder / "scratch"),
        one_process(),
        mechanisms() as private,
        sums(watched.heard),
        eyes,
    ):
        server, client = loaded(source)
        torch.manual_seed(seed)
        grid = WatchedGrid(
            client,
            watched,
            contexts_for(clients, source.config),
            lambda: time.monotonic() < ends and going_on(),
        )
        context = Context(
            run_id=RUN_ID,
            node_id=SERVER_NODE,
            node_config={},
            state=RecordDict(),
            run_config=dict(source.config),
        )
        try:
            server(grid, context)
            whole = True
        except Stopped as stopped:
            raise stopped.why from None
        except Enough:
            pass
        except FedprivError:
            raise
        except FOREIGN as error:
            if not watched.evidence:
                raise WorkFailed(
                    f"The app itself failed with {clients} simulated clients (--clients sets how "
                    f"many): {said(error)[:300].rstrip('.')}. What it printed is in "
                    f"'{folder / 'app.log'}'."
                ) from error
        finally:
            grid.close()
        if eyes.random and not watched.summed:
            grid.ask_bystanders()
    check_trained(watched, folder)
    return watched, private, whole


def check_trained(watched: Watched, folder: Path) -> None:
    """An error in one sentence where nothing was seen to attack."""
    if watched.evidence or (watched.summed and watched.public):
        return
    if watched.failed:
        raise WorkFailed(
            f"The app's clients failed: {watched.failed[0][:300]}. What they printed is in "
            f"'{folder / 'app.log'}'."
        )
    raise NotSupported(
        "no update of a PyTorch model was seen: the app's clients answered with no weights that "
        "were sent to them."
    )
