"""Files that are whole or absent: written beside, then moved into place."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path, mode: int | None = None) -> Iterator[Path]:
    """A path to write to; it becomes `path` when the block ends well, and leaves nothing if not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        if mode is not None:
            os.close(os.open(beside, os.O_CREAT | os.O_WRONLY, mode))
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with whole(path) as beside:
        beside.write_text(text, encoding="utf-8")


def write_bytes(path: Path, data: bytes, mode: int | None = None) -> None:
    with whole(path, mode) as beside:
        beside.write_bytes(data)
