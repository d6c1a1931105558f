"""A client's memory on its own disk: Flower keeps it in the SuperNode's memory and drops it between runs.

The folder is the client's own, $FEDPRIV_STATE or `state-folder` in its node configuration; without one
nothing is kept, and a simulation keeps its clients' memory in the run folder instead.
Two files, for the owner's eyes only:

    ledger.bin       what is true of the client's data whatever is learned from it: its secret seed, the
                     privacy it has spent. A server cannot reset it by starting another run.
    <task>.bin       the rest (secret heads, what the guard has seen), one file per learning task. It
                     comes back when a run goes on after a restart, not when a new one begins.
"""

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict
from google.protobuf.message import DecodeError

from fedpriv.errors import BadFolder
from fedpriv.files import write_bytes
from fedpriv.scenario import Scenario
from fedpriv.scenario.sections import Federation
from fedpriv.wire import MEMORY, round_in

FOLDER, VARIABLE, SIMULATED = "state-folder", "FEDPRIV_STATE", "secret-seed"
LEDGER = ("secret", "dp")  # the keys of memory that outlive a run
STAMP = "persisted"
CallNext = Callable[[Message, Context], Message]


def persistent(message: Message, context: Context, call_next: CallNext) -> Message:
    """A Flower mod: memory is read before a message that needs it and written after every one."""
    folder = folder_of(context)
    if folder is None or (server_round := round_in(message)) is None:
        return call_next(message, context)
    with alone_in(folder):
        recall(folder, server_round, context)
        reply = call_next(message, context)
        store(folder, context)
    return reply


def simulated(context: Context) -> bool:
    """Whether this client is a simulation's, ours or Flower's own (its clients are Ray actors)."""
    ray = sys.modules.get("ray")
    return SIMULATED in context.node_config or (ray is not None and ray.is_initialized())


def folder_of(context: Context) -> Path | None:
    """A real client's own folder."""
    given = context.node_config.get(FOLDER) or os.environ.get(VARIABLE)
    return Path(str(given)) if given and not simulated(context) else None


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Two runs at once are two processes; neither may overwrite what the other has spent."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise BadFolder(
            f"The state folder '{folder}' cannot be used: {error.strerror}; name a folder of the client's own."
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def recall(folder: Path, server_round: int, context: Context) -> None:
    """Fill `context.state` from disk.

    Every message is followed by a write, so the file is always the newest state.
    """
    context.state.update(read(folder / "ledger.bin"))
    if MEMORY + STAMP in context.state:
        return
    kept = read(folder / f"{task_of(context)}.bin")
    stamp = kept.config_records.get(MEMORY + STAMP)
    same_run = stamp is not None and stamp["run"] == context.run_id
    if same_run or server_round > 1:
        context.state.update({k: v for k, v in kept.items() if not in_ledger(k)})


def store(folder: Path, context: Context) -> None:
    """Write `context.state`, each file whole or not at all, mode 0600."""
    context.state[MEMORY + STAMP] = ConfigRecord({"run": context.run_id})
    own = {key: value for key, value in context.state.items() if key.startswith(MEMORY)}
    ledger = RecordDict({key: value for key, value in own.items() if in_ledger(key)})
    rest = RecordDict({key: value for key, value in own.items() if not in_ledger(key)})
    for name, records in (("ledger", ledger), (task_of(context), rest)):
        data = recorddict_to_proto(records).SerializeToString(deterministic=True)
        write_bytes(folder / f"{name}.bin", data, mode=0o600)


def read(path: Path) -> RecordDict:
    """The records in a file, none when there is no file; no pickle is involved."""
    if not path.exists():
        return RecordDict()
    try:
        return recorddict_from_proto(ProtoRecordDict.FromString(path.read_bytes()))
    except (OSError, DecodeError) as error:
        raise BadFolder(
            f"The client's memory '{path}' is damaged ({error}); restore it from a backup."
        ) from error


def in_ledger(key: str) -> bool:
    return any(key == MEMORY + name or key.startswith(f"{MEMORY}{name}.") for name in LEDGER)


def task_of(context: Context) -> str:
    """What is learned: the scenario less who takes part, for how long, and who attacks it."""
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
