"""`python -m fedpriv.simulations.deploy.superlink`: a SuperLink that forgets what it carried.

It takes the options of `flower-superlink`. Flower keeps a message's arrays in its database until
the receiver has confirmed them, and what nobody confirmed for good: a reply that came too late, the
messages of a run that broke down. Here a run's messages and arrays go when the run ends, whatever
its end was, and when the SuperLink starts again after it was killed. SQLite overwrites what it
deletes, and its journal is emptied. What a file system keeps of blocks that are free again is
beyond this: keep the state on an encrypted disk.

Transactions take turns. SQLite lets one write at a time and gives up after seconds of waiting. With
32 clients that answered at once, this SuperLink lost replies before it had turns. Overwriting makes
every write slower; whether Flower's own SuperLink loses any was not tried.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from logging import WARNING
from typing import Any

from fedpriv.flower import SqlLinkState, flower_superlink, linkstate_factory, log, sql_mixin

FINISHED, FILE, TRIES, PAUSE = "finished", "sqlite:///", 60, 0.5


TURN = threading.RLock()
PRAGMAS = (("busy_timeout", "60000"), ("secure_delete", "ON"))


def in_turn(
    session: Callable[[Any], AbstractContextManager[Any]],
) -> Callable[[Any], AbstractContextManager[Any]]:
    """Flower's transactions, one at a time in this process."""

    @contextmanager
    def taken(state: Any) -> Iterator[Any]:
        with TURN, session(state) as opened:
            yield opened

    return taken


class ForgetfulLinkState(SqlLinkState):
    """A SuperLink's database without the messages and arrays of runs that are over."""

    def initialize(self, *arguments: Any, **options: Any) -> Any:
        done = super().initialize(*arguments, **options)
        self.forget_finished()
        return done

    def finish_task(self, task_id: int, sub_status: str, details: str) -> bool:
        ended = bool(super().finish_task(task_id, sub_status, details))
        if ended:
            self.forget_finished()
        return ended

    def _on_task_tokens_expired(self, tasks: list[Any]) -> None:
        super()._on_task_tokens_expired(tasks)
        if tasks:
            self.forget_finished()

    def forget_finished(self) -> None:
        """Delete what is left of runs that have ended, and empty the journal."""
        for run in self.get_run_info():
            if run.status.status == FINISHED:
                self.cleanup_run(run.run_id)
        if self.database_url.startswith(FILE):
            path = self.database_url.removeprefix(FILE)
            threading.Thread(target=empty_journal, args=(path,), daemon=True).start()


def empty_journal(path: str) -> None:
    """Move the journal into the database, where deleted content is overwritten."""
    for _ in range(TRIES):
        with TURN:
            connection = sqlite3.connect(path, timeout=PAUSE)
            try:
                busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.OperationalError:
                busy = 1
            finally:
                connection.close()
        if not busy:
            return
        time.sleep(PAUSE)
    log(WARNING, "The database's journal is in use; it is emptied when the next run ends.")


def prepare() -> None:
    """Change what Flower's SuperLink uses as its database."""
    own, state = vars(sql_mixin), sql_mixin.SqlMixin
    own["SQLITE_PRAGMAS"] = (*own["SQLITE_PRAGMAS"], *PRAGMAS)
    setattr(state, "session", in_turn(state.session))  # noqa: B010 (mypy refuses an assignment)
    vars(linkstate_factory)["SqlLinkState"] = ForgetfulLinkState


def main() -> None:
    os.umask(0o077)
    prepare()
    flower_superlink()


if __name__ == "__main__":
    main()
