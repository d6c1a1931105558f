"""How a run shows itself: a live line on a terminal, a plain line a round elsewhere."""

import time
from collections.abc import Callable
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

    EVERY = 5.0  # seconds without a line before a round says how many have answered

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console, self.clock = console, clock
        self.first = self.last = self.round = self.replies = 0
        self.started = self.said = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        return None

    def on_start(self, first: int, last: int) -> None:
        self.first = self.round = first
        self.last, self.started = last, self.clock()
        if first <= last:
            self._print(f"round {first}/{last} begins")

    def on_reply(self, node: int) -> None:
        self.replies += 1
        if self.clock() - self.said >= self.EVERY:
            left = self._left(self.round - self.first)
            self._print(f"round {self.round}/{self.last}  {self.replies} replies{left}")

    def on_round(self, record: Record) -> None:
        left = self._left(record["round"] - self.first + 1)
        self._print(f"round {record['round']}/{self.last}  {described(record)}{left}")
        self.round, self.replies = record["round"] + 1, 0

    def _left(self, done: int) -> str:
        """The time left, once a round is done."""
        if not done:
            return ""
        left = (self.clock() - self.started) / done * (self.last - self.first + 1 - done)
        return f"  {max(left, 0):.0f} s left"

    def _print(self, line: str) -> None:
        self.said = self.clock()
        self.console.print(line, highlight=False)


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
