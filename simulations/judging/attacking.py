"""Attack recorded evidence: a claim on disk for every victim. What is there is not done again."""

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from fedpriv.attacks.catalogue import AttackRow
from fedpriv.attacks.inference.series import Series
from fedpriv.device import CPU, Known, moved
from fedpriv.errors import BadInput, BadObservation, FedprivError
from fedpriv.evidence.folder import Evidence
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.release import Release
from fedpriv.evidence.victims import alike
from fedpriv.progress import Progress, Told, go_on
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.judging.calls import Answer, Call, Failure, Work, attacked, failure_of
from fedpriv.simulations.judging.conditions import given_to, row_of
from fedpriv.simulations.judging.knowledge import knowledge_of

log = logging.getLogger(__name__)
LONGEST = 100  # characters of an attack's label, which names a folder
TOGETHER = 64  # victims of one call; a cluster's workers share calls
Tell = Callable[[str, float, int], None]  # attack, victims done (one may be half done), all


def silent(attack: str, done: float, total: int) -> None:
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


def works(
    recording: Recording, chosen: Sequence[Evidence], row: AttackRow, folder: RunFolder
) -> Iterator[Work]:
    """The evidence in groups that an attack takes at once; all updates for a `whole` one.

    Groups are the same on one machine and on many, so that the claims are the same too.
    """
    updates = [seen for seen in chosen if isinstance(seen, Observation)]
    if row.whole and updates:
        yield Work(tuple(seen.name for seen in updates), recording.series(updates, folder))
        return
    for group in alike(updates):
        most = len(group) if row.pools else TOGETHER
        for start in range(0, len(group), most):
            some = group[start : start + most]
            yield Work(tuple(seen.name for seen in some), some)
    releases = [seen for seen in chosen if isinstance(seen, Release)]
    for number in sorted({seen.round for seen in releases}):
        if recording.scenario is None:
            raise BadObservation("Codes can be attacked in the folder of their own run only.")
        same = [seen for seen in releases if seen.round == number]
        for knows in knowledge_of(recording.scenario, same):
            yield Work(tuple(knows.name(party) for party in knows.shared), knows)


@dataclass
class Todo:
    """The calls of one attack that its folder lacks, and the victims that it is done with."""

    call: Call
    method: Any  # the call's attack, built for the recording's device
    works: list[Work]
    done: set[str]

    @property
    def total(self) -> int:
        return len(self.done) + sum(len(work.names) for work in self.works)


def todo_of(
    recording: Recording, attack: Attack, label: str, folder: RunFolder
) -> Todo | list[Failure]:
    """What is to be called, or why nothing can be."""
    whole = row_of(attack.name).whole
    try:
        given = given_to(attack.name, recording.scenario, folder)
    except BadInput as error:  # there is nothing to ask about, for example
        return [Failure(label, (), str(error))]
    call = Call(
        attack.name, label, {**given.options, **attack.options}, given.objects, recording.scenario
    )
    method = call.built(recording.device, recording.given)
    before = folder.attacked(label, attack.options)
    chosen = recording.chosen(attack)
    if not chosen:
        why = f"there is no evidence of the kind that it sees ({row_of(attack.name).sees})"
        return [Failure(label, (), why)]
    together = whole or isinstance(chosen[0], Release)
    waiting = [seen for seen in chosen if seen.name not in before or together]
    try:
        found = works(recording, waiting, row_of(attack.name), folder)
        return Todo(call, method, [one for one in found if not set(one.names) <= before], before)
    except FedprivError as error:  # the curious party did not take part, for example
        return [Failure(label, tuple(seen.name for seen in waiting), str(error))]


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
    todo = todo_of(recording, attack, label, folder)
    if isinstance(todo, list):
        return todo
    told = Told(progress)
    return saved(todo, answers(todo, recording, told, tell), attack, folder, tell)


def answers(todo: Todo, recording: Recording, told: Told, tell: Tell = silent) -> Iterator[Answer]:
    """The calls of an attack, one after the other in this process."""
    for number, work in enumerate(todo.works):
        # The first call is made in any case: told to stop at once, it gives what it begins with.
        if number and not told(len(todo.done) / max(1, todo.total), math.nan):
            return
        progress = telling(told, tell, todo, len(work.names))
        yield work, attacked(todo.call, todo.method, work, recording.device, progress)


def telling(told: Told, tell: Tell, todo: Todo, victims: int) -> Progress:
    """The progress of one call, which also says how far the whole attack is."""

    def progress(part: float, loss: float) -> bool:
        if 0 < part < 1:
            tell(todo.call.label, len(todo.done) + part * victims, todo.total)
        return told(part, loss)

    return progress


def saved(
    todo: Todo, answers: Iterable[Answer], attack: Attack, folder: RunFolder, tell: Tell = silent
) -> list[Failure]:
    """Claims on disk as they come in; the failures among them."""
    label, total, failures = todo.call.label, todo.total, list[Failure]()
    tell(label, len(todo.done), total)
    for work, found in answers:
        if not isinstance(found, Failure):
            try:
                for claim in found:
                    claim.save(folder.claim_file(label, claim.names[0]))
            except Exception as error:  # somebody's own attack may claim what no file can hold
                found = failure_of(error, label, work.names)
        if isinstance(found, Failure):
            failures.append(found)
            log.warning("%s on %s: %s", label, ", ".join(work.names[:3]), found.why)
            continue
        if not any(claim.partial for claim in found):
            todo.done |= set(work.names)
            folder.note_attacked(label, todo.done, attack.options)
        tell(label, len(todo.done), total)
    order = [work.names for work in todo.works]
    return sorted(failures, key=lambda failure: order.index(failure.victims))
