"""The manifest of a folder: a SHA-256 for every file, so that a second run can be compared.

Two runs of one scenario write the same bytes, but for what a clock or a place says: seconds, and
the folder's own name. Tables and JSON files therefore have a second sum, without those entries.
Pages, sheets and logs are made from the other files and are left out.
"""

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedpriv.errors import BadFolder, FedprivError
from fedpriv.files import write_bytes
from fedpriv.lock import LOCK
from fedpriv.runfolder import RunFolder, read_json
from fedpriv.scenario.built import dataset_of
from fedpriv.state import digest

SCHEMA = "fedpriv-manifest-1"
LEFT_OUT = {LOCK, "manifest.json", "report.html", "report.pdf", "attacks.log", "stop"}
# Entries of JSON files and columns of tables that tell of a clock, a place or a command.
TIMED = {"seconds", "minutes", "unit-seconds", "folder", "report", "command", "date"}
TOLD = {"advice", "next"}  # sentences of verdict.json that name seconds or the folder
BLOCK = 1 << 20


def write_manifest(folder: RunFolder) -> Path:
    """Write `manifest.json`; the sums of what went in are those of its first writing.

    Only its owner may read it: the sum of a private sample says whether it is a certain one.
    """
    found = manifest_of(folder.path)
    known = read_json(folder.manifest_file, {})
    fresh = found["inputs"] if folder.scenario_file.exists() else inputs_below(folder)
    same = known.get("inputs", {}).get("scenario") == fresh["scenario"]
    found["inputs"] = known["inputs"] if same else fresh | sums_of_inputs(folder)
    text = json.dumps(found, indent=1) + "\n"
    write_bytes(folder.manifest_file, text.encode("utf-8"), mode=0o600)
    return folder.manifest_file
