"""One step handed over: what attacks recover from less than an app's clients mix together.

Searches take a few samples behind an update. Where an app's clients train on more, the attacker is
handed a single step of a client, alone and exact: the gradient of one batch at the weights that
were sent, without momentum, noise, dropout or rounding. In one pass over the samples it tells more
about them than the update does, which only has the sum of all steps. An attack that fails on it has
no chance on such an update; one that succeeds shows nothing about the update. With several epochs
a sample enters at several weights, and a failure here proves less.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fedpriv.evidence.claims import Public
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.truth import Truth
from fedpriv.evidence.victims import slots_of, stack
from fedpriv.progress import Progress
from fedpriv.runfolder import RunFolder
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.apps.attempts import MOST_SLOTS
from fedpriv.simulations.audit.battery import RACER
from fedpriv.simulations.judging.attacking import Recording
from fedpriv.simulations.judging.deciding import decided
from fedpriv.simulations.judging.judge import scored_claims
from fedpriv.simulations.judging.outcome import Outcome

CLIENTS = 2  # at least; as many as are needed for enough samples
ENOUGH = 32  # samples in all: a share of 10 % needs 29 without a hit


@dataclass(frozen=True)
class Handed:
    """What came of single steps: the outcome about samples, or why there is none."""

    outcome: Outcome | None = None
    samples: int = 0  # in a step
    why: str = ""

    @property
    def sentence(self) -> str:
        """What it means for the updates themselves."""
        one = self.outcome
        if one is None:
            return f"no single step could be attacked: {self.why}"
        said = f"{one.hits} of {one.victims} samples from single steps of {self.samples}"
        if one.word == "leaks":
            return (
                f"the attack recovers {said}, handed one by one; whether it could from whole "
                "updates was not tested"
            )
        if one.word == "holds":
            return f"even handed one by one, the attack recovers {said}"
        return f"the attack recovers {said}, handed one by one, which decides nothing: {one.why}"


def single_steps(
    evidence: Sequence[Observation], folder: RunFolder
) -> Iterator[tuple[Observation, Truth]]:
    """The first step of some clients of the first round, each with the samples of that step."""
    first = min(seen.round for seen in evidence)
    total = 0
    for number, seen in enumerate(one for one in evidence if one.round == first):
        truth = folder.truth_of(seen.name)
        if truth is None or not len(truth.y) or bool((truth.y < 0).any()):
            continue
        if number >= CLIENTS and total >= ENOUGH:
            return
        size = min(MOST_SLOTS, seen.batch_size, len(truth.y))
        total += size
        yield one_step(seen, truth, size), part_of(truth, size)


def part_of(truth: Truth, size: int) -> Truth:
    kept = {name: getattr(truth, name)[:size] for name in ("x", "trained", "y", "indices")}
    return replace(truth, **kept)


def one_step(seen: Observation, truth: Truth, size: int) -> Observation:
    """The update of one plain step of rate 1 on the first samples that a client trained on."""
    plain = {
        "optimiser": "sgd",
        "lr": 1.0,
        "momentum": 0.0,
        "nesterov": False,
        "weight_decay": 0.0,
        "dropout": 0.0,
        "augmentation": (),
        "local_steps": 1,
        "batch_size": size,
        "num_examples": size,
    }
    asked = replace(seen.told(**plain), received=dict(seen.sent))
    gradient = stack([asked]).gradient_at(truth.trained[None, :size], truth.y[None, :size])
    received = {
        key: value.double() - gradient[key][0].detach().double() if key in gradient else value
        for key, value in seen.sent.items()
    }
    return replace(asked, received=received)


def handed(
    evidence: Sequence[Observation],
    folder: RunFolder,
    app: str,
    public: Public | None,
    progress: Progress,
) -> Handed:
    """Attack single steps; evidence, truth and scores of them lie in `single-steps/`."""
    apart = RunFolder(folder.path / "single-steps")
    steps = list(single_steps(evidence, folder))
    if not steps:
        return Handed(why="no client's samples have labels")
    for seen, truth in steps:
        seen.save(apart.observations)
        truth.save(apart.truth)
    recording = Recording(
        [seen for seen, _ in steps], steps[0][0].round, None, {"run": app, "plugins": "unknown"}
    )
    attack = Attack(name=RACER)
    found = scored_claims(recording, [attack], apart, public=public, progress=progress)
    if found.failures:
        return Handed(why=found.failures[0].why)
    if found.partial:
        return Handed(why="the time was up")
    outcome = next((one for one in decided((), found.rows) if one.claim == "sample"), None)
    if outcome is None:
        return Handed(why="nothing was scored")
    if outcome.blind is None and outcome.word == "holds":
        return Handed(why="there is no blind guess to compare with: nothing was only evaluated")
    named = replace(outcome, attack=f"{outcome.attack}, single steps")
    return Handed(named, max(slots_of(seen) for seen, _ in steps))
