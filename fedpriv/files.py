"""Files that are whole or absent: written beside, then moved into place.

A `durable` file is on the disk itself when the block ends, so that it outlives a power cut.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path, mode: int | None = None, durable: bool = False) -> Iterator[Path]:
    """A path to write to; it becomes `path` when the block ends well, and leaves nothing if not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        if mode is not None:
            os.close(os.open(beside, os.O_CREAT | os.O_WRONLY, mode))
        yield beside
        if durable:
            flushed(beside)
        beside.replace(path)
        if durable:
            flushed(path.parent)  # the name is an entry of the folder
    finally:
        beside.unlink(missing_ok=True)


def flushed(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_text(path: Path, text: str) -> None:
    with whole(path) as beside:
        beside.write_text(text, encoding="utf-8")


def write_bytes(path: Path, data: bytes, mode: int | None = None, durable: bool = False) -> None:
    with whole(path, mode, durable) as beside:
        beside.write_bytes(data)
