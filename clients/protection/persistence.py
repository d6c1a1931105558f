"""A client's memory on its own disk; Flower alone would forget it when a run or a process ends.

Two places, both for the owner only, below the client's own folder:

    ledger.bin       what belongs to the client's data in every run, see `ledger.py`.
    <task>.bin       the rest (secret heads, what the guard has seen), a file per learning task.
                     It is read when a run goes on after a restart, not when a new one begins.

A simulation keeps its clients' memory in the run folder instead.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict

from fedpriv.clients.protection.folder import alone_in, folder_of
from fedpriv.clients.protection.ledger import in_ledger, ledger_in, read_memory
from fedpriv.files import write_bytes
from fedpriv.flower import recorddict_to_proto
from fedpriv.scenario import Scenario
from fedpriv.scenario.sections import Federation
from fedpriv.wire import MEMORY, round_in

STAMP = "persisted"
CallNext = Callable[[Message, Context], Message]


def persistent(message: Message, context: Context, call_next: CallNext) -> Message:
    """A Flower mod: read the memory before every message of a round, and write it afterwards.

    It is also written when the message could not be followed: what a plugin has charged by then
    stays charged.
    """
    folder = folder_of(context)
    if folder is None or (server_round := round_in(message)) is None:
        return call_next(message, context)
    with alone_in(folder):
        recall(folder, server_round, context)
        try:
            return call_next(message, context)
        finally:
            store(folder, context)


def recall(folder: Path, server_round: int, context: Context) -> None:
    """Fill `context.state` from disk.

    Every message is followed by a write, so the files are never older than `context.state`.
    """
    with ledger_in(folder) as (records, _):
        context.state.update({key: value for key, value in records.items() if in_ledger(key)})
    if MEMORY + STAMP in context.state:
        return
    kept = read_memory(folder / f"{task_of(context)}.bin")
    stamp = kept.config_records.get(MEMORY + STAMP)
    same_run = stamp is not None and stamp["run"] == context.run_id
    if same_run or server_round > 1:
        context.state.update({k: v for k, v in kept.items() if not in_ledger(k)})


def store(folder: Path, context: Context) -> None:
    """Write `context.state` to both files, each whole or not at all, mode 0600."""
    context.state[MEMORY + STAMP] = ConfigRecord({"run": context.run_id})
    own = {key: value for key, value in context.state.items() if key.startswith(MEMORY)}
    with ledger_in(folder) as (records, _):
        records.update({key: value for key, value in own.items() if in_ledger(key)})
    rest = RecordDict({key: value for key, value in own.items() if not in_ledger(key)})
    data = recorddict_to_proto(rest).SerializeToString(deterministic=True)
    write_bytes(folder / f"{task_of(context)}.bin", data, mode=0o600, durable=True)


def task_of(context: Context) -> str:
    """A name for what is learned: the scenario without its clients, rounds and attacks."""
    scenario = Scenario.of(context.run_config)
    bare = replace(
        scenario,
        federation=Federation(),
        attacks=(),
        gate={},
        malicious=None,
        keep_truth=None,
        summary="",
        paper="",
    )
    text = json.dumps([bare.text(), str(context.node_config.get("partition-id"))])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
