"""Coverage: which threat models and kinds of claim were tested, and how the others could be."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
    "owner": "membership inference (of a client)",
    "member": "membership inference",
    "classes": "property inference",
    "rate": "property inference",
}


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


def threat_of(row: AttackRow) -> str:
    """Who attacks, what it sees, and whether it knows the defence."""
    knows = f" who knows {' or '.join(row.knows)}" if row.knows else ""
    return f"{row.by}{knows}, sees {plural(row.sees)}"


def plural(sees: str) -> str:
    return sees if sees.endswith("s") else f"{sees}s"


def coverage(
    scenario: Scenario,
    rows: Iterable[Row],
    own: Sequence[str] = (),
    refused: Mapping[str, str] | None = None,
    absent: Mapping[str, str] | None = None,
) -> list[Line]:
    """A line for every threat model and kind of claim that rows of the catalogue stand for.

    `refused` are attacks that said themselves that they cannot act here, and why;
    `absent` those that lack public data.
    """
    done = {str(row.get("attack", "")).partition(" ")[0] for row in rows}  # without its options
    groups: dict[tuple[str, str], list[str]] = {}
    for name in dict.fromkeys((*ATTACKS, *own)):
        row = row_of(name)
        if not row.decides:
            continue
        for claim in claims_of(row):
            groups.setdefault((threat_of(row), claim), []).append(name)
    return [
        line(scenario, *key, names, done, refused or {}, absent or {})
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
    done: set[str],
    refused: Mapping[str, str],
    absent: Mapping[str, str],
) -> Line:
    """Tested, not tested, or why it does not apply."""
    nist = NIST.get(claim, "")
    said = [
        f"{name}: {refused[Method(name).label]}" for name in names if Method(name).label in refused
    ]
    tested = tuple(name for name in names if Method(name).label in done)
    if tested:
        return Line(threat, claim, nist, "tested", tested, "; ".join(said))
    reasons = [refused.get(Method(name).label) or why_not_here(scenario, name) for name in names]
    if all(reasons):
        return Line(threat, claim, nist, "does not apply", why=str(reasons[0]))
    name = names[reasons.index(None)]
    command = f"fedpriv run {scenario.name} --set 'attacks=[{{name=\"{name}\"}}]'"
    if row_of(name).by == "malicious server":
        command += " --set malicious.name=imprint"
    why = absent.get(name, "it was not part of this audit")
    return Line(threat, claim, nist, "not tested", tuple(names), why, command)


def why_not_here(scenario: Scenario, name: str) -> str | None:
    """Why an attack has nothing to do in this federation."""
    row, reply = row_of(name), strategy_row(scenario).reply
    if row.sees not in (reply, "models"):
        return f"clients share {plural(reply)}"
    plugins = {spec.name for spec in scenario.plugins}
    if row.knows and not plugins & set(row.knows):
        return "clients do not use what it knows"
    if row.claims not in CLAIMS:
        return "nobody here knows this kind of claim"
    if row.claims == "attribute" and not dataset_of(scenario).attributes:
        return "the data have no attribute besides the label"
    return why_not(name, scenario, strict=True)
