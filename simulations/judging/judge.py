"""How every run, sweep, audit and deployment is judged: truths, preflight, attacks, scores."""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from fedpriv.catalogue import METRICS
from fedpriv.device import CPU
from fedpriv.evidence.claims import Claim, Public
from fedpriv.evidence.truth import Truth
from fedpriv.lock import alone
from fedpriv.progress import Progress, Told, go_on
from fedpriv.report.figures import save_grid
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.judging.askable import asks, in_the_way
from fedpriv.simulations.judging.attacking import (
    Recording,
    Tell,
    claimed,
    labels_of,
    silent,
)
from fedpriv.simulations.judging.calls import Failure
from fedpriv.simulations.judging.conditions import faces_of, row_of, why_not
from fedpriv.simulations.judging.findings import (
    Finding,
    broke_down,
    empty,
    examined,
    findings_of,
    left_out,
)
from fedpriv.simulations.judging.held import truth_about
from fedpriv.simulations.judging.recordings import of_run
from fedpriv.simulations.judging.scoring import Judge, Scored, traced
from fedpriv.simulations.judging.sums import join_truths
from fedpriv.simulations.judging.theorem import promised
from fedpriv.strategies.catalogue import row_of as strategy_row
from fedpriv.tables import Row, rows_in

if TYPE_CHECKING:
    from fedpriv.simulations.judging.on_ray import Spread

log = logging.getLogger(__name__)
TruthOf = Callable[[str], Truth | None]  # the samples behind the evidence of a name
Turn = tuple[Attack, str]  # an attack that is carried out, and its folder's name


@dataclass
class Judged:
    """What came of attacking a folder.

    `rows` are scores, `failures` attacks that broke down, `findings` what stands in their way.
    `partial` is true when work was cut short.
    """

    rows: list[Row] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    partial: bool = False

    def plain(self) -> dict[str, object]:
        """Ready for JSON."""
        return {
            "scores": self.rows,
            "attacks-failed": [vars(failure) for failure in self.failures],
            "findings": self.findings,
            "partial": self.partial,
        }


Turns = Callable[[Recording, Judged], Iterable[Turn]]  # told of the scores so far


def in_order(attacks: Sequence[Attack]) -> Turns:
    """Every attack once, one after the other."""
    return lambda recording, found: zip(attacks, labels_of(attacks), strict=True)


def judged(
    folder: RunFolder,
    scenario: Scenario,
    attacks: Sequence[Attack] | None = None,
    *,
    truth_of: TruthOf | None = None,
    metrics: Iterable[str] = (),
    turns: Turns | None = None,
    scored_only: bool = False,
    tell: Tell = silent,
    progress: Progress = go_on,
) -> Judged:
    """Attack what a folder recorded, score it against what clients kept, and write both down.

    `attacks` are the scenario's own unless others are given, `truth_of` reads the folder's own
    truth. `metrics` are computed besides those of the catalogue and of [gate], such as somebody's
    own that --fail-if names. `turns` says which attack comes next and on how many victims; without
    it every attack has one turn. With `scored_only` nobody is attacked who kept no truth.
    """
    wanted = scenario.attacks if attacks is None else attacks
    if not wanted or strategy_row(scenario).reply == "nothing":
        return Judged()
    if not folder.has_evidence():
        why = "no round that they want was recorded"
        log.warning("'%s' holds no evidence to attack: %s", folder.path, why)
        findings = [left_out(attack.name, why) for attack in wanted]
        folder.write_findings(findings)
        return Judged(findings=findings)
    if scenario.federation.secagg:
        join_truths(folder, scenario.federation.clients)
    recording, known = of_run(folder), truth_of or folder.truth_of
    if scored_only:
        kept = [seen for seen in recording.evidence if known(seen.name) is not None]
        recording = replace(recording, evidence=kept)
    findings = []
    if recording.updates:
        findings = findings_of(examined(recording.updates, known, recording.device))
        findings += empty(recording.updates, known, truth_of is None and scenario.keeps_truth)
    if recording.updates and asks(wanted):  # attackers read candidates from the folder
        findings += in_the_way(folder, scenario, known)
    todo = []
    for attack in wanted:
        why_left = why_not(attack.name, scenario)
        if why_left is None:
            todo.append(attack)
        else:
            findings.append(left_out(attack.name, why_left))
    folder.write_findings(findings)
    found = scored_claims(
        recording,
        todo,
        folder,
        truth_of=truth_of,
        metrics=metrics,
        turns=turns,
        tell=tell,
        progress=progress,
    )
    found.findings = findings + [broke_down(each.attack, each.why) for each in found.failures]
    if found.failures:
        folder.write_findings(found.findings)
    return found


@alone()
def scored_claims(
    recording: Recording,
    attacks: Sequence[Attack],
    folder: RunFolder,
    *,
    truth_of: TruthOf | None = None,
    metrics: Iterable[str] = (),
    turns: Turns | None = None,
    public: Public | None = None,
    spread: "Spread | None" = None,
    tell: Tell = silent,
    progress: Progress = go_on,
) -> Judged:
    """All attacks on a recording, then their scores; pictures only where no truth was kept.

    `public` are samples for blind guesses where the recording has no scenario to take them from.
    With a `spread` all attacks are called at once, on the workers of Ray.
    """
    found, told = Judged(), Told(progress)
    judge = judge_of(recording.scenario, attacks, metrics, public, recording.device)
    known = truth_of or folder.truth_of
    labels: dict[str, Attack] = {}
    carry = claimed if spread is None else spread.claimed
    if spread is not None:
        spread.begin(recording, attacks, folder)
    for attack, label in (turns or in_order(attacks))(recording, found):
        under_way = spread is not None and label in spread.running
        if labels and not told(len(labels) / (1 + len(attacks)), math.nan) and not under_way:
            break
        labels[label] = attack
        found.failures += carry(recording, attack, label, folder, tell, told)
        others = [row for row in found.rows if row["attack"] != label]
        found.rows = others + scores_of(folder, known, recording, judge, attack, label)
    found.partial = told.stopped or any(row["partial"] for row in found.rows)
    if found.rows:
        folder.write_scores([*scores_of_others(folder, list(labels)), *found.rows])
    return found


def scores_of_others(folder: RunFolder, labels: Sequence[str]) -> list[Row]:
    """What the folder already says of attacks that were not carried out this time."""
    return [row for row in rows_in(folder.scores()) if row.get("attack") not in labels]


def judge_of(
    scenario: Scenario | None,
    attacks: Sequence[Attack],
    metrics: Iterable[str] = (),
    public: Public | None = None,
    device: torch.device = CPU,
) -> Judge:
    """A judge who computes the catalogue's metrics, those of [gate], and `metrics`.

    Where an attack is about faces, the judge knows them.
    """
    about_faces = scenario is not None and any(
        "faces" in row_of(attack.name).needs for attack in attacks
    )
    faces = faces_of(scenario) if scenario is not None and about_faces else None
    gate = scenario.gate if scenario is not None else ()
    names = dict.fromkeys((*METRICS, *gate, *metrics))
    built = {name: METRICS.build(name) for name in names}
    return Judge(scenario, faces, metrics=built, own=public, device=device)


def scores_of(
    folder: RunFolder,
    truth_of: TruthOf,
    recording: Recording,
    judge: Judge,
    attack: Attack,
    label: str,
) -> list[Row]:
    """Rows and pictures of one attack's claims, of those victims whose truth is there."""
    row = row_of(attack.name)
    plugins = [spec.name for spec in recording.scenario.plugins] if recording.scenario else []
    about = {
        **recording.about,
        "attack": label,
        "by": row.by,
        "knows": " + ".join(row.known(plugins)),
    }
    observed = {seen.name: seen for seen in recording.updates}
    of_rounds = partial(about_rounds, folder, recording, truth_of)
    by_round: dict[int, list[Scored]] = {}
    for claim in folder.claims(label):
        (name,) = claim.names
        truth = truth_of(name) if claim.asked == "message" else of_rounds(claim)
        if truth is None:
            pictures_of(folder.picture_file(label, name), getattr(claim, "pixels", None))
            continue
        about_update = name in observed and claim.asked == "message"
        bound = promised(observed[name], truth) if about_update else None
        one = judge.scored(claim, truth, about)
        if bound is not None:
            one.rows[:] = [{**each, "bound": bound} for each in one.rows]
        by_round.setdefault(truth.round, []).append(one)
        draw(folder.picture_file(label, name), one)
    for scores in by_round.values():
        traced(judge, scores)
    return [each for scores in by_round.values() for one in scores for each in one.rows]


def about_rounds(
    folder: RunFolder, recording: Recording, truth_of: TruthOf, claim: Claim
) -> Truth | None:
    """The truth of a claim about all rounds that were seen."""
    updates = recording.updates
    clients = (
        recording.scenario.federation.clients
        if recording.scenario is not None
        else 1 + max((int(seen.node) for seen in updates if str(seen.node).isdigit()), default=0)
    )
    classes = updates[0].classes
    return truth_about(claim, folder, clients, classes, truth_of, recording.scenario)


def draw(path: Path, one: Scored) -> None:
    """The originals over what was trained on, where that differs, over the guesses."""
    if "sample" not in one.views or one.views["sample"][1].dim() != 4:
        return
    guess, real = one.views["sample"]
    trained = one.views["trained"][1]
    rows = [real, guess] if torch.equal(trained, real) else [real, trained, guess]
    save_grid(path, rows)


def pictures_of(path: Path, pixels: torch.Tensor | None) -> None:
    """Guesses alone, when no truth is known."""
    if pixels is not None and pixels.dim() == 5:
        save_grid(path, [pixels[0]])
