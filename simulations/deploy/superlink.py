"""`python -m fedpriv.simulations.deploy.superlink`: Flower's SuperLink that forgets what it carried.

It takes the options of `flower-superlink`. Flower keeps every message's arrays in its database until
the receiver has confirmed them, and what nobody confirmed for good: a reply that came too late, the
messages of a run that broke down. Here a run's messages and arrays go when the run ends, whatever
its end was, and when the SuperLink starts again after it was killed. SQLite overwrites what it
deletes, and its journal is emptied. What a file system keeps of blocks that are free again is beyond
this: keep the state on an encrypted disk.
"""

import os
import sqlite3
import threading
import time
from logging import WARNING
from typing import Any

from fedpriv.flower import SqlLinkState, flower_superlink, linkstate_factory, log, sql_mixin

FINISHED, FILE, TRIES, PAUSE = "finished", "sqlite:///", 60, 0.5


class ForgetfulLinkState(SqlLinkState):  # type: ignore[misc]
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
    """Move the journal into the database, where deleted content is overwritten.

    This waits for a moment in which nobody reads or writes; whoever does is not kept waiting.
    """
    for _ in range(TRIES):
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


def main() -> None:
    os.umask(0o077)
    vars(sql_mixin)["SQLITE_PRAGMAS"] = (*sql_mixin.SQLITE_PRAGMAS, ("secure_delete", "ON"))
    vars(linkstate_factory)["SqlLinkState"] = ForgetfulLinkState
    flower_superlink()


if __name__ == "__main__":
    main()
