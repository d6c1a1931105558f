"""Attacks on what an app's server saw: every row of the catalogue that has what it needs here."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedpriv.attacks.catalogue import ATTACKS, AttackRow
from fedpriv.evidence.claims import Public
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import slots_of
from fedpriv.progress import Progress
from fedpriv.runfolder import RunFolder
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.apps.choosing import updates_of
from fedpriv.simulations.apps.watching import Watched
from fedpriv.simulations.audit.battery import RACER, work_of
from fedpriv.simulations.judging.attacking import Recording
from fedpriv.simulations.judging.conditions import CONDITIONS, row_of
from fedpriv.simulations.judging.judge import Judged, scored_claims

MOST_SLOTS = 32  # samples behind one update that a search is tried on
GIVEN = (
    "candidates",
    "several-clients",
    "one-sample",
    "few-samples",
)  # needs that an app may fulfil
TRAINING = ("own-samples", "shadows")  # needs of attacks that train clients of their own
VICTIMS = 30  # updates that are attacked one by one
BEHIND = "samples are behind one update"


@dataclass
class Tried:
    """What attacks did, and which were left out and why."""

    rows: list[dict[str, object]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    partial: bool = False

    def add(self, found: Judged) -> None:
        self.rows += found.rows
        self.partial |= found.partial
        for one in found.failures:
            if one.refused:
                self.left[one.attack] = one.why
            else:
                self.failed.append({"cell": "app", "attack": one.attack, "why": one.why})


def searches(name: str) -> bool:
    """Whether an attack of updates takes steps; one that needs candidates computes its answer."""
    return not row_of(name).whole and work_of(ATTACKS.build(name, {})) > 0


def why_left(
    row: AttackRow,
    seen: Observation,
    clients: int,
    asked: bool,
    used: frozenset[str],
    about: Watched,
) -> str:
    """Why an attack has nothing to do with this evidence; nothing where it has.

    `used` are the defences that clients were seen to use, by the names of our plugins.
    """
    slots = slots_of(seen)
    if about.summed and row.whole and row.sees != "models":
        return "behind secure aggregation no client's own update is seen"
    if about.target is not None and row.claims != "member" and about.target.whole:
        return "a sample's target is a mask of classes, which searches here cannot guess"
    if row.by == "malicious server":
        return "the app runs as it is, and a malicious server changes the model that clients get"
    if row.by != "curious server" or row.sees == "codes":
        return f"it is for a {row.by} that sees {row.sees}"
    if any(name in TRAINING for name in row.needs):
        return (
            "it trains clients of its own as those of the app do, and how is known of scenarios "
            "only: write one with `fedpriv new`"
        )
    if lacking := [name for name in row.needs if name not in GIVEN]:
        return f"it needs {CONDITIONS[lacking[0]].lacks}"
    if "candidates" in row.needs and not asked:
        return "there are no candidates to ask about"
    if "several-clients" in row.needs and clients < 3:
        return "it needs updates of three or more clients, each seen"
    if "one-sample" in row.needs and (slots > 1 or seen.local_steps > 1):
        return f"it needs {CONDITIONS['one-sample'].lacks}"
    if "few-samples" in row.needs and (
        slots >= seen.classes or (slots > 1 and seen.local_steps > 1)
    ):
        return f"it needs {CONDITIONS['few-samples'].lacks}"
    if row.knows and not used & set(row.knows):
        return f"nothing shows that clients use {' or '.join(row.knows)}"
    if not row.whole and slots > MOST_SLOTS:
        return f"{slots} {BEHIND}; searches are tried up to {MOST_SLOTS}"
    return ""


def chosen(
    seen: Observation, clients: int, asked: bool, used: frozenset[str], about: Watched
) -> tuple[list[str], dict[str, str]]:
    """Attacks to try, and others by why they are left out.

    Of the attacks that search, the one that races the settings of all others is tried, and those
    that know what clients use.
    """
    todo, left = [], {}
    for name in ATTACKS:
        row = row_of(name)
        why = why_left(row, seen, clients, asked, used, about)
        if why:
            left[name] = why
        elif name == RACER or row.knows or not searches(name):
            todo.append(name)
    return todo, left


def tried(
    evidence: Sequence[Observation],
    folder: RunFolder,
    app: str,
    *,
    asked: bool,
    used: frozenset[str],
    watched: Watched,
    public: Public | None,
    progress: Progress,
) -> Tried:
    """All attacks: first those on all rounds, then those on single updates.

    Only a server's knowledge is in `evidence`; the judge reads the truth from the folder.
    """
    found = Tried()
    rounds = sorted({seen.round for seen in evidence})
    clients = len({seen.node for seen in evidence})
    todo, found.left = chosen(evidence[0], clients, asked, used, watched)
    about = {"run": app, "plugins": "unknown"}
    ends = (rounds[0], rounds[-1])
    whole = [Attack(name=name) for name in todo if row_of(name).whole]
    pools = [Attack(name=n, rounds=ends, victims=VICTIMS) for n in todo if row_of(n).pools]
    single = [Attack(name=n) for n in todo if not row_of(n).whole and not row_of(n).pools]
    for attacks, seen in ((whole, evidence), (pools, evidence), (single, spread(evidence))):
        if attacks:
            recording = Recording(seen, rounds[-1], None, about)
            found.add(scored_claims(recording, attacks, folder, public=public, progress=progress))
    return found


def spread(evidence: Sequence[Observation]) -> list[Observation]:
    """The updates that are attacked one by one: every client once, then others up to `VICTIMS`."""
    own = {(seen.round, int(seen.node)): seen for seen in evidence}
    return [own[place] for place in updates_of(own, VICTIMS)]
