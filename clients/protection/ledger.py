"""The ledger: what a client has let out of its data, in all runs. No server can reset it.

    ledger.bin   a digest, and the records: privacy spent, secret keys, releases, divisions of data
    enrolled     how often the ledger was written

Both are made when the first message comes, and each write is on the disk before a reply leaves. A
ledger that is missing, empty, damaged or older than `enrolled` says stops the client: otherwise a
deleted file would give back a budget that was spent. The owner then restores a backup. A backup of
the whole folder looks like the truth; nothing on the same disk can tell.
"""

import hashlib
import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from flwr.app import ConfigRecord, RecordDict
from google.protobuf.message import DecodeError

from fedpriv.clients.protection.folder import alone_in
from fedpriv.errors import Refused
from fedpriv.files import write_bytes
from fedpriv.flower import RecordDict as ProtoRecordDict
from fedpriv.flower import recorddict_from_proto, recorddict_to_proto
from fedpriv.wire import MEMORY

log = logging.getLogger(__name__)
FILE, STAMP, LOCK = "ledger.bin", "enrolled", "ledger.lock"
KEPT = ("secret", "dp")  # the keys of a client's memory that outlive a run
BOOK, TEXT = MEMORY + "book", "json"
DIGEST = hashlib.sha256().digest_size
DAY, MONTH = 86_400.0, 30 * 86_400.0


@dataclass
class Book:
    """What was let out, apart from what plugins count themselves."""

    writes: int = 0
    divisions: dict[str, list[str]] = field(default_factory=dict)  # by data set
    encoders: dict[str, list[str]] = field(default_factory=dict)  # their digests, by data set
    releases: dict[str, list[float]] = field(default_factory=dict)  # last round, how often, when
    days: dict[str, list[float]] = field(default_factory=dict)  # by kind: when, in the last day
    bare: dict[str, int] = field(default_factory=dict)  # answers that no ε counts, by data set

    def admit_division(self, data: str, division: str, most: int) -> None:
        """Refused for one way more of dividing the data than `most`."""
        if not noted(self.divisions, data, division, most):
            raise Refused(
                f"This client has answered for another division of its data ('{data}': seed, "
                "limit, partition, hold-out or number of clients). The difference of two answers "
                "can show single samples. Use the earlier settings, or ask its owner to raise "
                "`splits`."
            )

    def admit_encoder(self, data: str, encoder: str, most: int) -> None:
        """Refused for one encoder more than `most`: enough of them give the samples themselves."""
        if not noted(self.encoders, data, encoder, most):
            raise Refused(
                f"This client has encoded its samples of '{data}' with another encoder before; "
                "ask its owner to raise `encoders`."
            )

    def admit_release(
        self, run: int, kind: str, server_round: int, per_round: int, per_day: int
    ) -> None:
        """Count one answer of this kind; Refused for a round that was answered, or too many."""
        now, key = time.time(), f"{run} {kind}"
        last, count, _ = self.releases.get(key, [0, 0, now])
        count = count if server_round == last else 0
        if server_round < last or count >= per_round:
            raise Refused(
                f"This client has answered '{kind}' of round {server_round} of this run, and "
                f"answers a round {per_round} time(s), in order."
            )
        recent = [at for at in self.days.get(kind, []) if now - at < DAY]
        if len(recent) >= per_day:
            raise Refused(
                f"This client answers '{kind}' {per_day} time(s) in 24 hours, and has done so; "
                "go on later with --resume."
            )
        self.days[kind] = [*recent, now]
        self.releases = {k: v for k, v in self.releases.items() if now - v[2] < MONTH}
        self.releases[key] = [server_round, count + 1, now]

    def count_bare(self, data: str, counted: bool) -> None:
        """Count an answer that no ε counts; tell the owner of an ε that others came before."""
        if not counted:
            self.bare[data] = self.bare.get(data, 0) + 1
        elif self.bare.get(data):
            log.warning(
                "ε counts from the first answer under dp on: %d answer(s) about '%s' left before "
                "without it, and are in no ε",
                self.bare[data],
                data,
            )


def noted(table: dict[str, list[str]], data: str, entry: str, most: int) -> bool:
    """Whether `entry` is among at most `most` of its data set; a new one is added."""
    known = table.setdefault(data, [])
    if entry not in known and len(known) < most:
        known.append(entry)
    return entry in known


@contextmanager
def ledger_in(folder: Path) -> Iterator[tuple[RecordDict, Book]]:
    """The ledger's records and book, for one process; changes are written when the block ends."""
    with alone_in(folder, LOCK):
        if not (folder / STAMP).exists():
            enrol(folder)
        records = read_ledger(folder / FILE)
        book = Book(**json.loads(str(records.config_records[BOOK][TEXT])))
        check_age(folder, book)
        before = serialised(records, book)
        yield records, book
        if serialised(records, book) != before:
            write(folder, records, book)


def enrol(folder: Path) -> None:
    """Begin the ledger, of a folder that never had one or has one of an earlier version."""
    path = folder / FILE
    whole = path.read_bytes() if path.exists() else b""
    if not whole and any(folder.glob("*.bin")):
        raise lost(path, "it is empty or missing, though this client has answered before")
    records, book = RecordDict(), Book()
    if digested(whole):  # a crash came between the first ledger and its stamp
        records = read_ledger(path)
        book = Book(**json.loads(str(records.config_records[BOOK][TEXT])))
    elif whole:
        records = read_memory(path)
    write(folder, records, book)


def check_age(folder: Path, book: Book) -> None:
    """Refused when the ledger was written more often than this one knows of."""
    stamp = folder / STAMP
    try:
        expected = int(stamp.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise lost(stamp, str(error)) from error
    if book.writes < expected:
        raise lost(folder / FILE, f"it is number {book.writes}, and '{stamp}' says {expected}")


def write(folder: Path, records: RecordDict, book: Book) -> None:
    """The ledger first, then the stamp: after a crash in between, the ledger is the newer one."""
    book.writes += 1
    data = serialised(records, book)
    whole = hashlib.sha256(data).digest() + data
    write_bytes(folder / FILE, whole, mode=0o600, durable=True)
    write_bytes(folder / STAMP, f"{book.writes}\n".encode(), mode=0o600, durable=True)


def serialised(records: RecordDict, book: Book) -> bytes:
    records[BOOK] = ConfigRecord({TEXT: json.dumps(asdict(book))})
    found: bytes = recorddict_to_proto(records).SerializeToString(deterministic=True)
    return found


def digested(whole: bytes) -> bool:
    """Whether the bytes begin with the digest of the rest, and there is a rest."""
    data = whole[DIGEST:]
    return bool(data) and hashlib.sha256(data).digest() == whole[:DIGEST]


def read_ledger(path: Path) -> RecordDict:
    """The records of a ledger; Refused when it is missing, empty or damaged."""
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise lost(path, error.strerror or str(error)) from error
    if not digested(whole):
        raise lost(path, "its digest is wrong" if whole else "it is empty")
    return recorddict_from_proto(ProtoRecordDict.FromString(whole[DIGEST:]))


def read_memory(path: Path) -> RecordDict:
    """The records in a file without a digest, none when there is no file; no pickle is involved."""
    if not path.exists():
        return RecordDict()
    try:
        return recorddict_from_proto(ProtoRecordDict.FromString(path.read_bytes()))
    except (OSError, DecodeError) as error:
        raise lost(path, str(error)) from error


def lost(path: Path, why: str) -> Refused:
    """What the server is told; the owner's log has the rest."""
    log.error(
        "'%s' cannot be used: %s. Restore the state folder from a backup. Without one, what this "
        "data has spent is unknown.",
        path,
        why,
    )
    return Refused(
        "This client's own records are missing, damaged or out of date; its owner must restore "
        "them."
    )


def in_ledger(key: str) -> bool:
    return any(key == MEMORY + name or key.startswith(f"{MEMORY}{name}.") for name in KEPT)
