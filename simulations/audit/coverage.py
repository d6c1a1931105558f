"""Coverage: which threat models and kinds of claim were tested, and how the others could be."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from fedpriv.attacks.catalogue import ATTACKS, AttackRow
from fedpriv.evidence.claims import CLAIMS
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of
from fedpriv.simulations.audit.battery import Method
from fedpriv.simulations.judging.conditions import row_of, why_not
from fedpriv.strategies.catalogue import row_of as strategy_row
from fedpriv.tables import Row

State = Literal["tested", "not tested", "does not apply"]

# The kinds of attack in the words of NIST AI 100-2 (2025), section 2.4, by what is claimed.
NIST = {
    "sample": "data reconstruction",
    "features": "data reconstruction",
    "labels": "property inference",
    "attribute": "property inference",
    "classes": "property inference",
    "owner": "membership inference (of a client)",
    "member": "membership inference",
    "rate": "property inference",
}
OTHER = "data privacy attack"  # a kind of claim that somebody else added


@dataclass(frozen=True)
class Line:
    """One threat model and one kind of claim."""

    threat: str
    claim: str
    nist: str
    state: State
    attacks: tuple[str, ...] = ()
    why: str = ""
    command: str = ""

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def threat_of(row: AttackRow, sums: bool = False) -> str:
    """Who attacks, what it sees, and whether it knows the defence; `sums` under secagg."""
    knows = f" who knows {' or '.join(row.knows)}" if row.knows else ""
    return f"{row.by}{knows}, sees {seen_by(row, sums)}"


def seen_by(row: AttackRow, sums: bool) -> str:
    """What an attacker sees: one message or all rounds, a client's own or a sum."""
    if row.sees == "update":
        one, many = ("sum of updates", "sums of updates") if sums else ("update", "updates")
        return f"the {many} of all rounds" if row.whole else f"one {one}"
    return "the models of all rounds" if row.sees == "models" else plural(row.sees)


def plural(sees: str) -> str:
    return sees if sees.endswith("s") else f"{sees}s"


@dataclass(frozen=True)
class Audited:
    """What an audit did: scores, and who could not act, lacked data or was cut short, and why."""

    rows: Sequence[Row] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    cut: Mapping[str, str] = field(default_factory=dict)
    told: Collection[str] = ()  # kinds of claim judged by a server that is told more
    leaks: Collection[tuple[str, str]] = ()  # attacks that found one, and its kind of claim

    @property
    def done(self) -> set[str]:
        """The attacks that were scored, without their options."""
        return {str(row.get("attack", "")).partition(" ")[0] for row in self.rows}


def coverage(
    scenario: Scenario,
    tested: Audited,
    own: Sequence[str] = (),
    named: str = "",
    again: str = "",
) -> list[Line]:
    """A line for every threat model and kind of claim that rows of the catalogue stand for.

    `own` are the attacks that the scenario names. `named` is the scenario as people type it, and
    `again` the command that gives the audit more time.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for name in dict.fromkeys((*ATTACKS, *own)):
        row = row_of(name)
        if not row.decides:
            continue
        threat = threat_of(row, scenario.federation.secagg)
        for claim in claims_of(row):
            groups.setdefault((threat, claim), []).append(name)
    return [
        line(scenario, *key, names, tested, named or scenario.name, again)
        for key, names in groups.items()
    ]


def claims_of(row: AttackRow) -> list[str]:
    """The kinds of claim that an attack makes: samples come with labels where updates are seen."""
    if row.claims == "sample" and row.sees == "update":
        return ["sample", "labels"]
    return [row.claims]


def line(
    scenario: Scenario,
    threat: str,
    claim: str,
    names: Sequence[str],
    tested: Audited,
    named: str,
    again: str,
) -> Line:
    """Tested, not tested, or why it does not apply."""
    nist, done = NIST.get(claim, OTHER), tested.done
    label = {name: Method(name).label for name in names}
    said = [
        f"{name}: {tested.refused[label[name]]}" for name in names if label[name] in tested.refused
    ]
    whole = tuple(
        n
        for n in names
        if label[n] in done and (label[n] not in tested.cut or (label[n], claim) in tested.leaks)
    )
    if claim in tested.told and threat.endswith("sees one update"):
        said = ["also told each client's model after its first step", *said]
    if whole:
        return Line(threat, claim, nist, "tested", whole, "; ".join(said))
    cut = [name for name in names if label[name] in tested.cut]
    if cut:
        why = f"{cut[0]}: {tested.cut[label[cut[0]]]}"
        return Line(threat, claim, nist, "not tested", tuple(names), why, again)
    reasons = [tested.refused.get(label[name]) or why_not_here(scenario, name) for name in names]
    if all(reasons):
        return Line(threat, claim, nist, "does not apply", why=str(reasons[0]))
    name = names[reasons.index(None)]
    command = f"fedpriv run {named} --set 'attacks=[{{name=\"{name}\"}}]'"
    if row_of(name).by == "malicious server":
        command += " --set malicious.name=imprint"
    why = tested.absent.get(name, "it was not part of this audit")
    return Line(threat, claim, nist, "not tested", tuple(names), why, command)


def why_not_here(scenario: Scenario, name: str) -> str | None:
    """Why an attack has nothing to do in this federation."""
    row, reply = row_of(name), strategy_row(scenario).reply
    if row.sees not in (reply, "models"):
        return f"clients share {plural(reply)}"
    if row.whole and row.sees == "update" and scenario.federation.secagg:
        return "no client's own updates are seen"
    plugins = {spec.name for spec in scenario.plugins}
    if row.knows and not plugins & set(row.knows):
        return "clients do not use what it knows"
    if row.claims not in CLAIMS:
        return "nobody here knows this kind of claim"
    if row.claims == "attribute" and not dataset_of(scenario).attributes:
        return "the data have no attribute besides the label"
    return why_not(name, scenario, strict=True)
