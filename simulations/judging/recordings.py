"""What is attacked: evidence of a run folder or of anybody's app, bound to its model."""

import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedpriv.catalogue import MODELS
from fedpriv.device import device_of
from fedpriv.errors import BadFolder, BadObservation, BadOption
from fedpriv.evidence.folder import Evidence, load_folder
from fedpriv.evidence.naming import fitted_to
from fedpriv.evidence.observation import FACTS, Observation
from fedpriv.evidence.release import Release
from fedpriv.evidence.truth import Truth
from fedpriv.registry import FOREIGN, imported, said
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import parsed_setting
from fedpriv.scenario.binding import fitted, kebab, nearest
from fedpriv.scenario.built import model_of
from fedpriv.scenario.sections import Attack, spelled
from fedpriv.simulations.judging.attacking import Recording

log = logging.getLogger(__name__)
SIZES = (28, 32, 48, 64, 96, 128, 160, 224, 256, 299)  # of images, tried when nobody says
SETTABLE = set(FACTS) - {"round", "node"}


def of_run(
    folder: RunFolder, facts: Mapping[str, Any] | None = None, device: str | None = None
) -> Recording:
    """What the server of a run saw, attacked on `device`, or on that of the run."""
    scenario = folder.scenario()
    where = device_of(device or scenario.federation.device)
    about = {
        "run": folder.path.name,
        "plugins": " + ".join(map(spelled, scenario.plugins)) or "none",
    }
    good = good_evidence(folder.observations)
    if any(isinstance(seen, Observation) for seen in good):
        good = bound_to(good, model_of(scenario), facts or {})
    return Recording(good, scenario.federation.rounds, scenario, about, where)


def of_stranger(
    folder: Path, model: nn.Module, facts: Mapping[str, Any], device: str | None = None
) -> Recording:
    """What somebody else's app recorded."""
    where = device_of(device or "auto")
    ready = bound_to(good_evidence(folder), model, facts)
    about = {"run": folder.name, "plugins": "unknown"}
    return Recording(ready, max(seen.round for seen in ready), None, about, where)


def good_evidence(folder: Path) -> list[Evidence]:
    """The usable evidence of a folder; the rest is named and left out."""
    good, bad = load_folder(folder)
    for path, error in bad:
        log.warning("left out %s: %s", path.name, error)
    if not good:
        raise BadObservation(
            f"'{folder}' holds no usable observation ({len(bad)} damaged); record some with "
            "Curious(strategy, record_to(folder))."
        )
    return good


def bound_to(
    evidence: Sequence[Evidence], model: nn.Module, facts: Mapping[str, Any]
) -> list[Evidence]:
    """Updates with their model and with facts that the recording lacks."""
    found: list[Evidence] = []
    shape: tuple[int, ...] = ()
    for seen in evidence:
        if isinstance(seen, Release):
            found.append(seen)
            continue
        seen = seen.told(**facts)
        if not seen.input_shape:
            shape = shape or input_shape_of(model)
            seen = seen.told(input_shape=shape)
        found.append(fitted_to(seen, model).on(model))
    return found


@torch.no_grad()
def input_shape_of(model: nn.Module) -> tuple[int, ...]:
    """The shape of an image the model takes, found by trying; BadOption when none fits."""
    first = next((m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)), None)
    candidates: list[tuple[int, ...]] = []
    if isinstance(first, nn.Conv2d):
        candidates = [(first.in_channels, side, side) for side in SIZES]
    elif isinstance(first, nn.Linear):
        pictures = [(c, side, side) for side in SIZES for c in (1, 3)]
        candidates = [shape for shape in pictures if math.prod(shape) == first.in_features]
        candidates.append((first.in_features,))
    training = model.training
    model.eval()
    for shape in candidates:
        try:
            model(torch.zeros(1, *shape))
        except (RuntimeError, ValueError):
            continue
        model.train(training)
        return shape
    raise BadOption(
        "The observations do not say what an input looks like and no usual image fits the model; "
        "give --set input-shape=[3,32,32]."
    )


def built_model(path: str, shape: Sequence[int] = (), classes: int | None = None) -> nn.Module:
    """The module at `pkg.module:Net`, called without arguments unless it is one already.

    A name of the catalogue is built for inputs of `shape`. Modules are also looked for in the
    folder that the command was started in, after all others.
    """
    if ":" not in path:
        return catalogued(path, shape, classes)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    found = imported(path, "model")
    try:
        model = found if isinstance(found, nn.Module) else found()
    except FOREIGN as error:
        raise BadOption(f"model '{path}' cannot be built: {said(error)}.") from error
    if not isinstance(model, nn.Module):
        raise BadOption(f"model '{path}' gives a {type(model).__name__}, not a torch module.")
    return model


def catalogued(name: str, shape: Sequence[int], classes: int | None) -> nn.Module:
    """A model of `fedpriv list models` for recorded inputs."""
    MODELS[name]  # which says what there is, where there is no such name
    if not shape or classes is None:
        raise BadOption(
            f"--model {name} needs to know its inputs: give --set input-shape=[3,32,32], "
            "or the app's own class as pkg.module:Net."
        )
    channels, size = (shape[0], shape[1]) if len(shape) == 3 else (math.prod(shape), 1)
    return MODELS.build(name, {}, channels=channels, size=size, classes=classes)


def facts_from(settings: Sequence[str]) -> dict[str, Any]:
    """`lr=0.1` and the like as facts of an observation."""
    facts: dict[str, Any] = {}
    for setting in settings:
        for key, value in parsed_setting(setting).items():
            name = key.replace("-", "_")
            if name not in SETTABLE:
                known = ", ".join(sorted(map(kebab, SETTABLE)))
                raise BadOption(
                    f"An observation has no fact '{key}'."
                    f"{nearest(kebab(key), map(kebab, SETTABLE))} It has: {known}."
                )
            facts |= fitted(Observation, {key: value}, "an observation")
    return facts


def run_folder_of(path: Path) -> RunFolder | None:
    """The run folder at `path`, or the one whose observations `path` holds."""
    for place in (RunFolder(path), RunFolder(path.parent)):
        if place.scenario_file.exists() and place.observations.is_dir():
            return place
    return None


def opened(
    path: Path, model: str | None, settings: Sequence[str], device: str | None = None
) -> tuple[Recording, RunFolder]:
    """The recording at `path`, and the folder that its claims go into."""
    facts = facts_from(settings)
    run = run_folder_of(path)
    if run is not None and model is None:
        return of_run(run, facts, device), run
    if model is None:
        raise BadOption(
            f"'{path}' is not part of a run folder: say which model its clients train, "
            "--model pkg.module:Net."
        )
    first = next((one for one in good_evidence(path) if isinstance(one, Observation)), None)
    shape = facts.get("input_shape") or (first.input_shape if first else ())
    classes = facts.get("classes") or (first.classes if first else None)
    found = built_model(model, shape, classes)
    return of_stranger(path, found, facts, device), RunFolder(path.parent)


def truths_in(path: Path, since: float = 0.0) -> Callable[[str], Truth | None]:
    """The truth by the name of the evidence, from a folder that clients wrote.

    A file older than `since` is of an earlier run, and is none.
    """
    if not path.is_dir():
        raise BadFolder(f"--truth '{path}' is no folder; leave it out to attack without scores.")

    def truth_of(name: str) -> Truth | None:
        file = path / f"{name}.npz"
        return Truth.load(file) if file.exists() and file.stat().st_mtime >= since else None

    return truth_of


def attacks_named(
    names: Sequence[str], options: Sequence[str], victims: int | None
) -> list[Attack]:
    """Attacks as people type them, all with the same options."""
    given: dict[str, Any] = {}
    for option in options:
        given |= parsed_setting(option)
    return [Attack(name=name, victims=victims, options=given) for name in names]
