"""Attack recorded observations: guesses, pictures and, where the truth is known, scores."""

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.errors import BadFolder, BadObservation, BadOption, FedprivError
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.observation import Observation, load_folder
from fedpriv.evidence.truth import Truth
from fedpriv.evidence.victims import alike
from fedpriv.files import write_text
from fedpriv.registry import imported
from fedpriv.report.figures import save_grid
from fedpriv.report.reading import spelled
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import model_of
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.judging.findings import examined, write_findings
from fedpriv.simulations.judging.scoring import Row, Scored, scored, trace, write_scores
from fedpriv.simulations.judging.theorem import promised

log = logging.getLogger(__name__)
SIZES = (28, 32, 48, 64, 96, 128, 160, 224, 256, 299)  # of images, tried when nobody says

INFORMED = frozenset({"pruning-aware", "noise-aware", "policy-aware", "spn-aware"})

Tell = Callable[[str, int, int], None]  # attack, victims done, victims in all


def silent(attack: str, done: int, total: int) -> None:
    pass


@dataclass(frozen=True)
class Recording:
    """What is attacked: observations with their model, and what is publicly known of the run."""

    observations: list[Observation]
    rounds: int
    about: Mapping[str, Any] = field(default_factory=dict)  # columns of every score

    def chosen(self, attack: Attack) -> list[Observation]:
        """The observations an attack wants: its rounds, and of each the first victims."""
        taken: dict[int, int] = {}
        result = []
        for seen in self.observations:
            number = taken.get(seen.round, 0)
            if attack.wants(seen.round, self.rounds) and number < (attack.victims or 10**9):
                taken[seen.round] = number + 1
                result.append(seen)
        return result


@dataclass(frozen=True)
class Failure:
    attack: str
    victims: tuple[str, ...]
    why: str


def labels_of(attacks: Sequence[Attack]) -> list[str]:
    """A folder name for each attack: its own, numbered when several share it."""
    seen: dict[str, int] = {}
    labels = []
    for attack in attacks:
        seen[attack.name] = number = seen.get(attack.name, 0) + 1
        label = attack.name.replace(":", ".").replace("/", ".")
        labels.append(label if number == 1 else f"{label}-{number}")
    return labels


def recorded(
    folder: Path, model: nn.Module, facts: Mapping[str, Any], about: Mapping[str, Any]
) -> Recording:
    """The good observations of a folder, bound to the model; the others are named and left out."""
    good, bad = load_folder(folder)
    for path, error in bad:
        log.warning("left out %s: %s", path.name, error)
    if not good:
        raise BadObservation(
            f"'{folder}' holds no usable observation ({len(bad)} damaged); record some with "
            "Curious(strategy, record_to(folder))."
        )
    bound = [replace(seen, **facts) if facts else seen for seen in good]
    if any(not seen.input_shape for seen in bound):
        shape = input_shape_of(model)
        bound = [seen if seen.input_shape else replace(seen, input_shape=shape) for seen in bound]
    ready = [seen.on(model) for seen in bound]
    return Recording(ready, max(seen.round for seen in ready), about)


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


def built_model(path: str) -> nn.Module:
    """The module at `pkg.module:Net`, called without arguments unless it is one already."""
    found = imported(path, "model")
    model = found if isinstance(found, nn.Module) else found()
    if not isinstance(model, nn.Module):
        raise BadOption(f"model '{path}' gives a {type(model).__name__}, not a torch module.")
    return model


def of_run(folder: RunFolder, facts: Mapping[str, Any] | None = None) -> Recording:
    """What the server of a run saw."""
    scenario = folder.scenario()
    about = {
        "run": folder.path.name,
        "plugins": " + ".join(map(spelled, scenario.plugins)) or "none",
    }
    recording = recorded(folder.observations, model_of(scenario), facts or {}, about)
    return replace(recording, rounds=scenario.federation.rounds)


def reconstructed(
    recording: Recording, attack: Attack, label: str, out: Path, tell: Tell = silent
) -> list[Failure]:
    """Run one attack on its victims and save the guesses; those saved before are not redone.

    What goes wrong with some victims is returned, and stops nobody else.
    """
    method = ATTACKS.build(attack.name, attack.options)
    chosen = recording.chosen(attack)
    journal = out / label / "attacked.json"  # pooled rounds share one guess: files are no record
    before = set(json.loads(journal.read_text())) if journal.exists() else set()
    waiting = [seen for seen in chosen if seen.name not in before]
    failures, done = [], len(chosen) - len(waiting)
    for group in alike(waiting):
        tell(label, done, len(chosen))
        names = tuple(seen.name for seen in group)
        try:
            found = method(group)
            for number, name in enumerate(found.names):
                found.of(number).save(out / label / f"{name}.npz")
        except Exception as error:
            why = (
                str(error)
                if isinstance(error, FedprivError)
                else f"{type(error).__name__}: {error}"
            )
            failures.append(Failure(label, names, why))
            log.warning("%s on %s: %s", label, ", ".join(names[:3]), why)
            continue
        before |= set(names)
        write_text(journal, json.dumps(sorted(before)))
        done += len(group)
    tell(label, done, len(chosen))
    return failures


def scores_of(out: Path, truth: Path, recording: Recording, label: str, name: str) -> list[Row]:
    """Rows and pictures of one attack's guesses, of those victims whose truth is there."""
    by_round: dict[int, list[Scored]] = {}
    observed = {seen.name: seen for seen in recording.observations}
    for path in sorted((out / label).glob("*.npz")):
        original = truth / path.name
        if not original.exists():
            continue
        facts = {**recording.about, "attack": label, "informed": name in INFORMED}
        real = Truth.load(original)
        bound = promised(observed[path.stem], real) if path.stem in observed else None
        if bound is not None:
            facts["bound"] = bound
        one = scored(Reconstruction.load(path), real, facts)
        by_round.setdefault(one.rows[0]["round"], []).append(one)
        if one.guess.dim() == 4:
            changed = not torch.equal(one.trained, one.truth)
            rows = [one.truth, one.trained, one.guess] if changed else [one.truth, one.guess]
            save_grid(path.with_suffix(".png"), rows)
    for scores in by_round.values():
        trace(scores)
    return [row for scores in by_round.values() for one in scores for row in one.rows]


def pictures_alone(out: Path, label: str) -> None:
    """PNG files of guesses when no truth is known."""
    for path in (out / label).glob("*.npz"):
        guess = Reconstruction.load(path).pixels[0]
        if guess.dim() == 4:
            save_grid(path.with_suffix(".png"), [guess])


def attacked(
    recording: Recording,
    attacks: Sequence[Attack],
    out: Path,
    truth: Path | None,
    tell: Tell = silent,
) -> tuple[list[Row], list[Failure]]:
    """All attacks on a recording, then their scores into `scores.csv` beside the attacks' folder."""
    rows: list[Row] = []
    failures: list[Failure] = []
    for attack, label in zip(attacks, labels_of(attacks), strict=True):
        failures += reconstructed(recording, attack, label, out / "attacks", tell)
        if truth is not None and truth.is_dir():
            rows += scores_of(out / "attacks", truth, recording, label, attack.name)
        else:
            pictures_alone(out / "attacks", label)
    if rows:
        write_scores(out / "scores.csv", rows)
    return rows, failures


def attack_run(
    folder: RunFolder, scenario: Scenario, tell: Tell = silent
) -> tuple[list[Row], list[Failure]]:
    """The attacks of a run's own scenario, scored against what its clients kept."""
    if not folder.observations.is_dir():
        raise BadFolder(
            f"'{folder.path}' holds no observations: no round that its attacks want was recorded."
        )
    recording = of_run(folder)
    truth = folder.truth if folder.truth.is_dir() else None
    write_findings(folder.path, examined(recording.observations, truth))
    return attacked(recording, scenario.attacks, folder.path, truth, tell)
