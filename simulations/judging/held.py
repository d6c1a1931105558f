"""What clients held: members and held-out samples as candidates, and the truth about all rounds.

The judge reads what clients kept. An attacker is given candidates without the key to them, and
samples of its own that are neither candidates nor anybody's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from fedpriv.errors import BadInput
from fedpriv.evidence.candidates import Candidates, Key
from fedpriv.evidence.claims import Claim, Public
from fedpriv.evidence.inferences import OWNER, RATE, SHARES, Rates
from fedpriv.evidence.truth import Truth
from fedpriv.rng import generator
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of, reserved, test_samples, training_samples

TruthOf = Callable[[str], Truth | None]
NOBODY = -1


@dataclass(frozen=True)
class Held:
    """What each client trained on in the rounds that were seen, from the truths it kept."""

    truths: Sequence[Truth]
    classes: int

    @cached_property
    def numbers(self) -> dict[int, Tensor]:
        """The samples of each client by their numbers, each once."""
        found: dict[int, list[Tensor]] = {}
        for truth in self.truths:
            found.setdefault(truth.node, []).append(truth.indices)
        return {node: torch.cat(each).unique() for node, each in sorted(found.items())}

    def rate(self, node: int, has: Tensor) -> Tensor:
        """The rate of samples that `has` is true of: the mean over rounds of those trained on."""
        own = [has[truth.indices].float().mean() for truth in self.truths if truth.node == node]
        return torch.stack(own).mean()

    def shares(self, node: int) -> Tensor:
        """(C,) the class shares of a client: the mean over rounds of what it trained on."""
        own = [truth.y.long() for truth in self.truths if truth.node == node]
        counts = torch.stack([torch.bincount(y, minlength=self.classes).float() for y in own])
        return (counts / counts.sum(1, keepdim=True)).mean(0)


def held_in(rounds: Sequence[int], clients: int, classes: int, truth_of: TruthOf) -> Held:
    """What clients kept of these rounds."""
    names = (f"{number}-{client}" for number in rounds for client in range(clients))
    return Held([truth for name in names if (truth := truth_of(name)) is not None], classes)


def outsiders(scenario: Scenario) -> tuple[Tensor, Tensor]:
    """Numbers of the samples that no client has, in two parts: for candidates, for the attacker.

    Where all members are asked about, held-out samples are what is scarce: they get three quarters.
    They are the training samples that nobody gets (`data.reserve`) and the test samples, which are
    numbered −1, −2, …
    """
    tests = -1 - torch.arange(len(test_samples(scenario)[1]))
    pool = torch.cat([torch.from_numpy(reserved(scenario)), tests])
    order = torch.randperm(len(pool), generator=generator(scenario.seed, "outsiders"))
    asked = (len(pool) + 1) // 2 if scenario.inference.members is None else 3 * len(pool) // 4
    return pool[order[:asked]], pool[order[asked:]]


def samples_at(scenario: Scenario, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Samples and labels by their numbers."""
    (x, y), (x_test, y_test) = training_samples(scenario), test_samples(scenario)
    inside = numbers >= 0
    found = torch.empty(len(numbers), *x.shape[1:])
    labels = torch.empty(len(numbers), dtype=torch.long)
    found[inside], labels[inside] = x[numbers[inside]], y[numbers[inside]]
    tests = -1 - numbers[~inside]
    found[~inside], labels[~inside] = x_test[tests], y_test[tests]
    return found, labels


@lru_cache(maxsize=2)
def _own(text: str, places: tuple[int, ...]) -> Public:
    scenario, numbers = Scenario.of({"scenario": text}), torch.tensor(places, dtype=torch.long)
    names = dataset_of(scenario).attributes
    attributes = {name: attribute_at(scenario, name, numbers) for name in names}
    return Public(*samples_at(scenario, numbers), attributes)


def attribute_at(scenario: Scenario, name: str, numbers: Tensor) -> Tensor:
    """An attribute of samples by their numbers."""
    train, test = dataset_of(scenario).attributes[name]
    found = torch.empty(len(numbers), dtype=torch.long)
    inside = numbers >= 0
    found[inside], found[~inside] = train[numbers[inside]], test[-1 - numbers[~inside]]
    return found


def own_samples(scenario: Scenario, folder: RunFolder | None = None) -> Public:
    """What the attacker has itself: samples of the same kind that no client has.

    A folder may have candidates that were drawn with another `inference.members`, as an audit does.
    They are nobody's own.
    """
    numbers, key = outsiders(scenario)[1], None if folder is None else folder.key()
    if key is not None:
        numbers = numbers[~torch.isin(numbers, key.numbers)]
    return _own(scenario.text(), tuple(numbers.tolist()))


def drawn(scenario: Scenario, held: Held) -> tuple[Candidates, Key]:
    """Members, as many of each client as there are, and held-out samples like them.

    A held-out sample has the label and the suspect of its members, so that neither label nor client
    tells them apart. With `inference.members` each of them stands for several, the same number for
    all.
    """
    stream = generator(scenario.seed, "candidates")
    turns = {
        node: own[torch.randperm(len(own), generator=stream)] for node, own in held.numbers.items()
    }
    pool, _ = outsiders(scenario)
    _, labels = samples_at(scenario, pool)
    waiting = {c: pool[labels == c].tolist() for c in range(held.classes)}
    _, y = training_samples(scenario)
    asked = scenario.inference
    most = min(asked.members or asked.candidates // 2, sum(map(len, turns.values())))
    each = max(1, most // max(1, len(pool))) if asked.members else 1
    begun: dict[tuple[int, int], list[int]] = {}  # members of a client and label without a partner
    inside: list[int] = []
    outside: list[int] = []
    owner: list[int] = []
    suspected: list[int] = []
    for turn in range(max((len(own) for own in turns.values()), default=0)):
        for node, own in turns.items():
            if turn >= len(own) or len(inside) + each > most:
                continue
            number = int(own[turn])
            label = int(y[number])
            group = begun.setdefault((node, label), [])
            group.append(number)
            if len(group) < each:
                continue
            begun[node, label] = []
            if free := waiting[label]:
                inside += group
                owner += [node] * each
                outside.append(free.pop())
                suspected.append(node)
    if not inside:
        raise BadInput(
            "There are no candidates: no client kept which samples it used (keep-truth), or nobody "
            "held samples of their labels out; set data.reserve."
        )
    order = torch.randperm(len(inside) + len(outside), generator=stream)
    numbers = torch.tensor(inside + outside)[order]
    suspect = torch.tensor(owner + suspected)[order]
    members = (order < len(inside)).long()
    x, y = samples_at(scenario, numbers)
    key = Key(numbers=numbers, owner=suspect * members + NOBODY * (1 - members))
    return Candidates(x=x, y=y, suspect=suspect), key


def make_candidates(folder: RunFolder, scenario: Scenario, truth_of: TruthOf) -> Candidates:
    """The candidates of a folder, with their key beside the truth; drawn once."""
    if folder.candidates_file.exists():
        return _kept(folder, folder.candidates_file.stat().st_mtime_ns)
    rounds = sorted({int(path.stem.partition("-")[0]) for path in folder.evidence_files()})
    classes = dataset_of(scenario).classes
    held = held_in(rounds, scenario.federation.clients, classes, truth_of)
    candidates, key = drawn(scenario, held)
    key.save(folder.key_file)
    candidates.save(folder.candidates_file)
    return _kept(folder, folder.candidates_file.stat().st_mtime_ns)


def kept_candidates(folder: RunFolder) -> Candidates:
    """The candidates that lie in a folder; BadInput where there are none."""
    if not folder.candidates_file.exists():
        raise BadInput(f"'{folder.path}' holds no candidates to ask about.")
    return _kept(folder, folder.candidates_file.stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _kept(folder: RunFolder, written: int) -> Candidates:
    """The same object for all attacks on a folder, so that they share what they compute."""
    found = folder.candidates()
    assert found is not None
    return found


def truth_about(
    claim: Claim,
    folder: RunFolder,
    clients: int,
    classes: int,
    truth_of: TruthOf,
    scenario: Scenario | None = None,
) -> Truth | None:
    """The truth of a claim about all rounds that were seen: of the candidates, or of a client.

    Only who knows the scenario knows the attributes of its samples.
    """
    last, _, node = claim.names[0].partition("-")
    about: dict[str, Any] = {"clean": torch.nan, "added": torch.nan, "round": int(last)}
    if claim.asked == "candidates":
        key = folder.key()
        if key is None:
            return None
        empty = torch.zeros(len(key.numbers), 0)
        return Truth(
            x=empty,
            trained=empty,
            y=torch.zeros(len(key.numbers), dtype=torch.long),
            indices=key.numbers,
            node=NOBODY,
            secrets={OWNER: key.owner},
            **about,
        )
    rounds = sorted({int(path.stem.partition("-")[0]) for path in folder.evidence_files()})
    held = held_in([r for r in rounds if r <= int(last)], clients, classes, truth_of)
    if not node.isdigit() or int(node) not in held.numbers:
        return None
    one = torch.zeros(1, 0)
    secrets = {SHARES: held.shares(int(node))}
    if isinstance(claim, Rates) and scenario is not None:
        has = dataset_of(scenario).attributes[claim.attribute][0] == claim.value
        secrets[RATE] = held.rate(int(node), has)
    return Truth(
        x=one,
        trained=one,
        y=torch.zeros(1, dtype=torch.long),
        indices=torch.tensor([int(node)]),
        node=int(node),
        secrets=secrets,
        **about,
    )
