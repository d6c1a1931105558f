"""One step handed over: what attacks recover from less than an app's clients mix together.

Searches take a few samples behind an update. Where an app's clients train on more, the attacker is
handed a part of a single step of a client, alone and exact: the gradient of some samples of one
batch at the weights that were sent, without momentum, noise or rounding. All that the update says
of those samples it says through this gradient, where each of them enters once (`why_open`). So an
attack that fails on it fails on the update, too. Where it succeeds, the share of samples that it
recovers bounds what can be recovered from updates (`judging.indirect`).

Clients count, each once (`choosing`): half of them with the model of the first round, half with
that of the last. A bound of a tenth takes 29 of them, and more leave room for a few hits.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from torch.nn.modules.batchnorm import _BatchNorm

from fedpriv.attacks.inversion.recipes import CANDIDATES
from fedpriv.clients.noticing import Notes
from fedpriv.errors import FedprivError
from fedpriv.evidence.claims import Public
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.truth import Truth
from fedpriv.evidence.victims import slots_of, stack
from fedpriv.metrics.gates import Gate
from fedpriv.metrics.rates import LEVEL, SHARE, mean_at_most
from fedpriv.progress import Progress
from fedpriv.runfolder import RunFolder
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.apps.choosing import each_once
from fedpriv.simulations.apps.protocol import batch_of, distinct
from fedpriv.simulations.apps.settling import Settled, settled
from fedpriv.simulations.apps.spending import Mechanism
from fedpriv.simulations.apps.watching import Watched
from fedpriv.simulations.audit.battery import RACER
from fedpriv.simulations.audit.fairness import at_worst
from fedpriv.simulations.audit.trials import Trial
from fedpriv.simulations.judging.attacking import Recording
from fedpriv.simulations.judging.deciding import decided
from fedpriv.simulations.judging.indirect import indirect, shares_of_clients
from fedpriv.simulations.judging.judge import scored_claims
from fedpriv.simulations.judging.outcome import Outcome, attacked_badly, gains_of
from fedpriv.tables import Row

PARTS = (16, 8)  # samples of a step that are handed over
CLIENTS = 40  # at most; of 16 samples each, 18 may be drawn within a bound of a tenth
FEW = 8  # clients of the first search; where it leaves no room for a bound, no other follows
MANY = 100  # clients: more than audits attack
GLANCE = Settled({"only": next(iter(CANDIDATES)), "steps": 150, "polish": 0})  # decides nothing
TWINS = 0.01  # the part of samples that may be equal to another one without being the same


@dataclass(frozen=True)
class Handed:
    """What came of single steps: the outcome about samples, or why there is none.

    `open` says why an attack that fails on them could still succeed on updates.
    """

    outcome: Outcome | None = None
    samples: int = 0  # in a step
    why: str = ""
    open: str = ""
    late: bool = False  # whether the time was up before enough clients were attacked
    badly: bool = False  # whether the attack was worse than a blind guess
    trial: Trial | None = None  # how many steps the attack took, and why

    @property
    def holds(self) -> bool:
        return self.outcome is not None and self.outcome.word == "holds" and not self.open

    @property
    def sentence(self) -> str:
        """What it means for the updates themselves."""
        one = self.outcome
        if one is None:
            return f"no single step could be attacked: {self.why}"
        said = (
            f"{one.hits} of {one.victims} samples from single steps of {self.samples}, of "
            f"{one.clients} clients"
        )
        if self.open:
            return (
                f"the attack recovers {said}, handed one by one, which decides nothing about "
                f"updates: {self.open}"
            )
        if self.badly:
            why = f"which decides nothing: {one.why}"
            return f"the attack recovers {said}, handed one by one, {why}"
        if one.hits:
            allowed = "" if self.holds else f", and {SHARE:.0%} are allowed"
            untested = "" if self.holds else "; whether it could from whole updates was not tested"
            return (
                f"the attack recovers {said}, handed one by one: at most {one.at_most:.1%} of all "
                f"samples ({LEVEL:.0%} confidence){allowed}{untested}"
            )
        if self.holds:
            return f"even handed one by one, the attack recovers {said}"
        return f"the attack recovers {said}, handed one by one, which decides nothing: {one.why}"


def why_open(notes: Iterable[Notes], private: Sequence[Mechanism] = ()) -> str:
    """Why an update may say more of a step's samples than the step's exact gradient does.

    Nothing where it cannot: each sample enters once, the model has no other memory of a batch than
    the gradient, and the gradient is that of the plain loss.
    """
    known = list(notes)
    if any(distinct(one) < (1 - TWINS) * sum(one.sizes) for one in known):
        return "samples enter an update more than once, as in several epochs"
    if any(one.dropout for one in known):
        return "clients drop units at random, and the step is handed without"
    norms = [kept for one in known if True in one.training for kept in statistics_kept(one)]
    if any(norms):
        return "batch norm keeps statistics of the samples, which are in the update, too"
    if norms:
        return "batch norm mixes the samples of a step, and a part of them is handed alone"
    if any(one.epsilon is None for one in private):
        return "Opacus clips the gradient of every sample, and the step is handed without"
    return ""


def statistics_kept(notes: Notes) -> Iterator[bool]:
    """For each batch norm of the model, whether it keeps means and variances of what passes it."""
    for part, _ in notes.chain:
        for module in part.modules():
            if isinstance(module, _BatchNorm):
                yield bool(module.track_running_stats)


def single_steps(
    evidence: Sequence[Observation], folder: RunFolder, batch: int | None, summed: bool = False
) -> Iterator[tuple[Observation, Truth]]:
    """The first step of every client in one round, with the samples of that step.

    `batch` is how many samples of a step are taken. Where a round is `summed`, one observation
    stands for all its clients, whose samples were kept one by one.
    """
    own = {seen.name: seen for seen in evidence}
    models = {seen.round: seen for seen in evidence}
    names = list(own)
    if summed:
        names = [path.stem for path in folder.truth.glob("*.npz") if path.stem not in own]
    places = [(int(number), int(node)) for number, node in (name.split("-") for name in names)]
    for number, node in each_once((place for place in places if place[0] in models), CLIENTS):
        truth = folder.truth_of(f"{number}-{node}")
        if truth is None or not len(truth.y) or bool((truth.y < 0).any()):
            continue
        seen = own.get(f"{number}-{node}") or replace(models[number], node=node)
        size = min(PARTS[0], batch or seen.batch_size, len(truth.y))
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
    watched: Watched,
    private: Sequence[Mechanism],
    app: str,
    public: Public | None,
    progress: Progress,
) -> Handed:
    """Attack parts of single steps; where the attack is no better than a blind guess, smaller ones.

    The gradient of a part of a batch says more of its samples than that of the whole batch, and a
    search for few samples takes less time. A failure of an attack that cannot do what a blind guess
    does would say nothing.
    """
    unsure = why_open(watched.notes, private)
    batch = next((batch_of(one) for one in watched.notes if one.x), None)
    found = Handed(why="no client's samples have labels")
    for most in PARTS:
        waiting = single_steps(evidence, folder, min(most, batch or most), watched.summed)
        found = handed_parts(waiting, folder, unsure, app, public, progress)
        if not found.badly or found.late:
            break
    return found


def handed_parts(
    waiting: Iterator[tuple[Observation, Truth]],
    folder: RunFolder,
    unsure: str,
    app: str,
    public: Public | None,
    progress: Progress,
) -> Handed:
    """Attack these steps; evidence, truth and scores of them lie in `single-steps-SAMPLES/`.

    First of a few clients. Where they have too many hits for a bound, or where it would decide
    nothing, no more follow.
    Where steps cannot decide, a short search with the setting that is good most often shows how
    easily they are read; else the search is as strong as `settled` finds it.
    """
    steps: list[Observation] = []
    found, late, badly = None, False, False
    how: Settled | None = None
    for most in (FEW,) if unsure else (FEW, None):
        group = list(islice(waiting, most))
        if not group or late:
            break
        known = [seen for seen, _ in group]
        steps += known
        apart = RunFolder(folder.path / f"single-steps-{max(map(slots_of, steps[:FEW]))}")
        for seen, truth in group:
            seen.save(apart.observations)
            truth.save(apart.truth)
        recording = Recording(known, steps[0].round, None, {"run": app, "plugins": "unknown"})
        try:
            how = how or (GLANCE if unsure else settled(known, public, progress))
        except FedprivError as error:
            return Handed(why=str(error).rstrip("."))
        attack = Attack(name=RACER, options=how.options)
        judged = scored_claims(recording, [attack], apart, public=public, progress=progress)
        if judged.failures:
            return Handed(why=judged.failures[0].why)
        late = judged.partial
        whole = [row for row in judged.rows if not row["partial"]]
        now = next((one for one in decided((), whole) if one.claim == "sample"), None)
        found = now or found
        if found is None or found.bound is None:
            continue
        gate = Gate(found.metric, found.above, found.bound)
        why = attacked_badly(gate, whole) or unproven(how.trial, gate, whole)
        if badly := bool(why):
            found = replace(found, word="undecided", why=why)
            break
        found = indirect(found, [whole])
        if hopeless(list(shares_of_clients(gate, whole).values())):
            break
    if found is None:
        why = "the time was up" if late else "no client's samples have labels"
        return Handed(why=why, late=late)
    if found.blind is None and found.word == "holds":
        return Handed(why="there is no blind guess to compare with: nothing was only evaluated")
    named = replace(found, attack=f"{found.attack} on single steps")
    size = max(map(slots_of, steps))
    trial = how.trial if how is not None else None
    return Handed(named, size, open=unsure, late=late, badly=badly, trial=trial)


def unproven(trial: Trial | None, gate: Gate, rows: Sequence[Row]) -> str:
    """Why the failure of an attack says nothing: it beats a blind guess nowhere."""
    gains = [gain for own in gains_of(gate.metric, gate.above, rows).values() for gain in own]
    if trial is None or trial.works or not gains or at_worst(gains, LEVEL) > 0:
        return ""
    return "the attack beats a blind guess neither on clients nor on planted samples"


def hopeless(shares: Sequence[float]) -> bool:
    """Whether too much is recovered of these clients, even if of all others nothing is."""
    others = [0.0] * max(0, MANY - len(shares))
    return mean_at_most([*shares, *others], LEVEL) > SHARE
