"""What Typer cannot check of an option: numbers that are finite, places that can be written."""

import os
import tempfile
from pathlib import Path

from fedpriv.errors import BadFolder, BadOption


def within(name: str, value: float, low: float, high: float) -> None:
    """BadOption unless low <= value <= high; nan is in no range."""
    if not low <= value <= high:
        raise BadOption(f"{name} must be between {low:g} and {high:g}, got {value}.")


def writable(file: Path) -> None:
    """BadFolder unless `file` can be written, said before hours of work are done for it."""
    try:
        folder = file.parent
        folder.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            raise IsADirectoryError(f"'{file}' is a folder")
        descriptor, path = tempfile.mkstemp(prefix=".writable-", dir=folder)
        os.close(descriptor)
        Path(path).unlink()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadFolder(f"'{file}' cannot be written: {why}; give another --out.") from error
