"""What `fedpriv attack` and `fedpriv preflight` are pointed at: run folders and foreign recordings."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedpriv.errors import BadFolder, BadOption
from fedpriv.evidence.observation import Observation
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import parsed_setting
from fedpriv.scenario.binding import kebab, nearest
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.judging.attacking import Recording, built_model, of_run, recorded

SETTABLE = {f.name for f in fields(Observation)} - {"sent", "received", "model", "round", "node"}


def facts_from(settings: Sequence[str]) -> dict[str, Any]:
    """`lr=0.1` and the like as facts of an observation."""
    facts: dict[str, Any] = {}
    for setting in settings:
        for key, value in parsed_setting(setting).items():
            name = key.replace("-", "_")
            if name not in SETTABLE:
                known = ", ".join(sorted(map(kebab, SETTABLE)))
                raise BadOption(
                    f"An observation has no fact '{key}'.{nearest(kebab(key), map(kebab, SETTABLE))} "
                    f"It has: {known}."
                )
            facts[name] = tuple(value) if isinstance(value, list) else value
    return facts


def run_folder_of(path: Path) -> RunFolder | None:
    """The run folder at `path`, or the one whose observations `path` holds."""
    for place in (path, path.parent):
        if (place / "scenario.toml").exists() and (place / "observations").is_dir():
            return RunFolder(place)
    return None


def opened(
    path: Path, model: str | None, settings: Sequence[str], truth: Path | None
) -> tuple[Recording, Path, Path | None]:
    """The recording, where its guesses go, and the truth when there is one."""
    facts = facts_from(settings)
    if truth is not None and not truth.is_dir():
        raise BadFolder(f"--truth '{truth}' is no folder; leave it out to attack without scores.")
    run = run_folder_of(path)
    if run is not None and model is None:
        kept = truth or (run.truth if run.truth.is_dir() else None)
        return of_run(run, facts), run.path, kept
    if model is None:
        raise BadOption(
            f"'{path}' is not part of a run folder: say which model its clients train, "
            "--model pkg.module:Net."
        )
    recording = recorded(path, built_model(model), facts, {"run": path.name, "plugins": "unknown"})
    return recording, path.parent, truth


def attacks_named(
    names: Sequence[str], options: Sequence[str], victims: int | None
) -> list[Attack]:
    """Attacks as people type them, all with the same options."""
    given: dict[str, Any] = {}
    for option in options:
        given |= parsed_setting(option)
    return [Attack(name=name, victims=victims, options=given) for name in names]
