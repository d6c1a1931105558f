"""Attack recorded evidence: a claim on disk for every victim. What is there is not done again."""

import logging
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.attacks.inference.series import Series
from fedpriv.codes.parties import settings
from fedpriv.device import CPU, Known, moved
from fedpriv.errors import BadInput, BadObservation, FedprivError
from fedpriv.evidence.claims import Claim, Reconstruction, claims_in
from fedpriv.evidence.folder import Evidence
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.release import Release
from fedpriv.evidence.victims import alike
from fedpriv.progress import Progress, Told, go_on
from fedpriv.rng import generator
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.judging.conditions import given_to, row_of
from fedpriv.simulations.judging.knowledge import knowledge_of

log = logging.getLogger(__name__)
LONGEST = 100  # characters of an attack's label, which names a folder
Tell = Callable[[str, int, int], None]  # attack, victims done, victims in all


def silent(attack: str, done: int, total: int) -> None:
    pass


@dataclass(frozen=True)
class Recording:
    """What is attacked: evidence, and what is publicly known of the run.

    A stranger's recording has no scenario.
    """

    evidence: Sequence[Evidence]
    rounds: int
    scenario: Scenario | None = None
    about: Mapping[str, Any] = field(default_factory=dict)  # columns of every score
    device: torch.device = CPU  # where attacks work; evidence and claims are on the CPU

    @cached_property
    def given(self) -> Known:
        """What attackers were given besides the evidence, moved once for all of them."""
        return {}

    @cached_property
    def seen_together(self) -> dict[tuple[str, ...], Series]:
        """Series of updates by their names, kept so that attacks share what they compute."""
        return {}

    def series(self, updates: Sequence[Observation], folder: RunFolder) -> Series:
        """These updates as one series, with the last public model."""
        names = tuple(seen.name for seen in updates)
        if names not in self.seen_together:
            last = updates[-1].round
            known = folder.model_file.exists() and folder.last_round()["round"] == last
            final = folder.checkpoint_state() if known else None
            self.seen_together[names] = moved(Series(tuple(updates), final), self.device)
        return self.seen_together[names]

    @property
    def updates(self) -> list[Observation]:
        return [seen for seen in self.evidence if isinstance(seen, Observation)]

    def chosen(self, attack: Attack) -> list[Evidence]:
        """The evidence an attack looks at: its rounds, and of updates so many victims in all.

        They are spread over the rounds: the first update of each round, then the second ones. An
        attack that pools rounds takes so many clients, each in all rounds.
        """
        row = row_of(attack.name)
        kind = Release if row.sees == "codes" else Observation
        wanted: list[Evidence] = [
            seen
            for seen in self.evidence
            if isinstance(seen, kind) and attack.wants(seen.round, self.rounds)
        ]
        if attack.victims is None or kind is Release or row.whole:
            return wanted
        if row.pools:
            first = list(dict.fromkeys(seen.node for seen in wanted))[: attack.victims]
            return [seen for seen in wanted if seen.node in first]
        taken: Counter[int] = Counter()
        places: dict[str, int] = {}
        for seen in wanted:
            places[seen.name] = taken[seen.round]
            taken[seen.round] += 1
        spread = sorted(wanted, key=lambda seen: (places[seen.name], seen.round))
        names = {seen.name for seen in spread[: attack.victims]}
        return [seen for seen in wanted if seen.name in names]


@dataclass(frozen=True)
class Failure:
    """An attack that broke down on some victims, and why.

    `refused` says that the attack itself found that it cannot act on this evidence.
    """

    attack: str
    victims: tuple[str, ...]
    why: str
    refused: bool = False


def folder_name(label: str) -> str:
    """A label as the name of a folder."""
    return re.sub(r"[:/\\]|[^ -~]", ".", label)[:LONGEST].strip(" .") or "attack"


def labels_of(attacks: Sequence[Attack]) -> list[str]:
    """A folder name for each attack: its own, with its options when several share it."""
    names = [attack.name for attack in attacks]
    labels: list[str] = []
    met: Counter[str] = Counter()
    for attack in attacks:
        label = attack.name
        if names.count(attack.name) > 1 and attack.options:
            label += "".join(f" {key}={value}" for key, value in attack.options.items())
        label = folder_name(label)
        met[label] += 1
        labels.append(label if met[label] == 1 else f"{label}-{met[label]}")
    return labels


@dataclass(frozen=True)
class Work:
    """One call of an attack: the victims it is about, and what it is called with."""

    names: tuple[str, ...]
    evidence: Any


def works(
    recording: Recording, chosen: Sequence[Evidence], whole: bool, folder: RunFolder
) -> Iterator[Work]:
    """The evidence in groups that an attack takes at once; all updates for a `whole` one."""
    updates = [seen for seen in chosen if isinstance(seen, Observation)]
    if whole and updates:
        yield Work(tuple(seen.name for seen in updates), recording.series(updates, folder))
        return
    for group in alike(updates):
        yield Work(tuple(seen.name for seen in group), group)
    releases = [seen for seen in chosen if isinstance(seen, Release)]
    for number in sorted({seen.round for seen in releases}):
        if recording.scenario is None:
            raise BadObservation("Codes can be attacked in the folder of their own run only.")
        same = [seen for seen in releases if seen.round == number]
        for knows in knowledge_of(recording.scenario, same):
            yield Work(tuple(knows.name(party) for party in knows.shared), knows)


def claimed(
    recording: Recording,
    attack: Attack,
    label: str,
    folder: RunFolder,
    tell: Tell = silent,
    progress: Progress = go_on,
) -> list[Failure]:
    """Run one attack on its victims and save its claims; those saved before are not made again.

    What goes wrong with some victims is returned, and stops nobody else. When `progress` says stop,
    what was found so far is saved as partial and is done again the next time.
    """
    told, whole = Told(progress), row_of(attack.name).whole
    try:
        given = given_to(attack.name, recording.scenario, folder)
    except BadInput as error:  # there is nothing to ask about, for example
        return [Failure(label, (), str(error))]
    options = {**given.options, **attack.options}
    objects = moved(given.objects, recording.device, recording.given)
    method = ATTACKS.build(attack.name, options, **objects)
    before = folder.attacked(label, attack.options)
    failures: list[Failure] = []
    chosen = recording.chosen(attack)
    if not chosen:
        why = f"there is no evidence of the kind that it sees ({row_of(attack.name).sees})"
        return [Failure(label, (), why)]
    together = whole or isinstance(chosen[0], Release)
    waiting = [seen for seen in chosen if seen.name not in before or together]
    try:
        todo = [
            work
            for work in works(recording, waiting, whole, folder)
            if not set(work.names) <= before
        ]
    except FedprivError as error:  # the curious party did not take part, for example
        return [Failure(label, tuple(seen.name for seen in waiting), str(error))]
    total = len(before) + sum(len(work.names) for work in todo)
    tell(label, len(before), total)
    for number, work in enumerate(todo):
        # The first call is made in any case: told to stop at once, it gives what it begins with.
        if number and not told(len(before) / max(1, total), math.nan):
            break
        try:
            made = attacked(method, work, recording, folder, label, told)
        except Exception as error:
            plain = isinstance(error, FedprivError)
            why = str(error) if plain else f"{type(error).__name__}: {error}"
            refused = isinstance(error, BadObservation)
            failures.append(Failure(label, work.names, why, refused))
            log.warning("%s on %s: %s", label, ", ".join(work.names[:3]), why)
            continue
        if not any(claim.partial for claim in made):
            before |= set(work.names)
            folder.note_attacked(label, before, attack.options)
        tell(label, len(before), total)
    return failures


def attacked(
    method: Any, work: Work, recording: Recording, folder: RunFolder, label: str, progress: Progress
) -> list[Claim]:
    """One call of an attack on the recording's device, its claims saved."""
    started = time.perf_counter()
    found = method(moved(work.evidence, recording.device), progress)
    made = claims_in(moved(named(found, work.names), CPU))
    took = (time.perf_counter() - started) / max(1, len(made))
    if recording.scenario is not None and any(claim.places is not None for claim in made):
        made = [replace(sampled(claim, recording.scenario), seconds=took) for claim in made]
    for claim in made:
        claim.save(folder.claim_file(label, claim.names[0]))
    return made


def named(found: Any, names: Sequence[str]) -> list[Claim]:
    """The claims of an attack; those without names are about the victims in their order."""
    claims = [found] if isinstance(found, Claim) else found
    if not isinstance(claims, list | tuple) or not all(isinstance(one, Claim) for one in claims):
        raise BadObservation(
            f"an attack must return a claim or a list of claims, got {type(found).__name__}."
        )
    result, place = [], 0
    for claim in claims:
        count = len(claim.names) or claim.victims
        if place + count > len(names) and not claim.names:
            raise BadObservation(
                f"an attack claimed something about {place + count} victims, and there are "
                f"{len(names)}."
            )
        result.append(claim if claim.names else replace(claim, names=names[place : place + count]))
        place += count
    return result


def sampled(claim: Claim, scenario: Scenario) -> Claim:
    """The claim about the samples of a party that attacks on codes are scored on."""
    if claim.places is None:
        return claim
    count, party = claim.places.shape[1], int(claim.names[0].partition("-")[2])
    order = torch.randperm(count, generator=generator(scenario.seed, "victims", party))
    few = claim.at(order[: settings(scenario).victims])
    if isinstance(few, Reconstruction) and not few.mean:
        dataset = dataset_of(scenario)
        return replace(few, mean=tuple(dataset.mean), std=tuple(dataset.std))
    return few
