"""How a run shows itself: a live line on a terminal, a plain line a round elsewhere."""

import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fedpriv.strategies.rounds import Record


class Show(Protocol):
    """What shows a run: open while it lasts, told of rounds and of single replies."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def on_start(self, first: int, last: int) -> None: ...

    def on_reply(self, node: int) -> None: ...

    def on_round(self, record: Record) -> None: ...


def described(record: Record) -> str:
    """A round in words."""
    text = f"accuracy {record['accuracy']:.1%}  loss {record['loss']:.3f}"
    text += f"  clients {record['clients']}/{record['asked']}"
    if "train-epsilon" in record:
        text += f"  ε {record['train-epsilon']:.2f} so far"
    return text


class PlainLines:
    """One line a round, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.first = self.last = 0
        self.started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        return None

    def on_start(self, first: int, last: int) -> None:
        self.first, self.last, self.started = first, last, time.monotonic()

    def on_reply(self, node: int) -> None:
        return None

    def on_round(self, record: Record) -> None:
        done = record["round"] - self.first + 1
        left = (time.monotonic() - self.started) / done * (self.last - record["round"])
        self.console.print(
            f"round {record['round']}/{self.last}  {described(record)}  {left:.0f} s left",
            highlight=False,
        )


class LiveBar:
    """A bar of rounds with the clients that have answered, on a terminal."""

    def __init__(self, console: Console) -> None:
        self.bar = Progress(
            TextColumn("round {task.completed}/{task.total}"),
            BarColumn(),
            TextColumn("{task.fields[figures]}  {task.fields[replies]} replies"),
            TimeRemainingColumn(),
            console=console,
        )
        self.task = self.bar.add_task("rounds", total=None, figures="", replies=0)
        self.replies = 0

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *about: object) -> None:
        self.bar.stop()

    def on_start(self, first: int, last: int) -> None:
        self.bar.update(self.task, total=last, completed=first - 1)

    def on_reply(self, node: int) -> None:
        self.replies += 1
        self.bar.update(self.task, replies=self.replies)

    def on_round(self, record: Record) -> None:
        self.replies = 0
        self.bar.update(self.task, completed=record["round"], figures=described(record), replies=0)


def show_on(console: Console) -> Show:
    return LiveBar(console) if console.is_terminal else PlainLines(console)
