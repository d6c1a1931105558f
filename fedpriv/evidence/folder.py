"""A folder of evidence: the good files in order, and what is wrong with the others."""

from pathlib import Path

from fedpriv.errors import BadObservation, FedprivError
from fedpriv.evidence.files import read_evidence
from fedpriv.evidence.observation import Observation, check_finite
from fedpriv.evidence.release import SEES, Release

Evidence = Observation | Release


def load_evidence(path: Path) -> Evidence:
    """The update or the release of codes in a file."""
    tensors, facts = read_evidence(path)
    if facts.get("sees") == SEES:
        return Release.of(tensors, facts, path.name)
    seen = Observation.of(tensors, facts, path.name)
    check_finite(seen)
    return seen


def load_folder(folder: Path | str) -> tuple[list[Evidence], list[tuple[Path, FedprivError]]]:
    """The good evidence of a folder in order of round and node, and what is wrong with the rest."""
    folder = Path(folder)
    if not folder.is_dir():
        raise BadObservation(f"'{folder}' is no folder; give the folder that observations are in.")
    good: list[Evidence] = []
    bad: list[tuple[Path, FedprivError]] = []
    for path in sorted(folder.glob("*.safetensors")):
        try:
            good.append(load_evidence(path))
        except FedprivError as error:
            bad.append((path, error))
    return sorted(good, key=lambda seen: (seen.round, str(seen.node).zfill(20))), bad
