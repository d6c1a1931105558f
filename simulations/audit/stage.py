"""A stage: some cells of one federation exposed, raced, attacked and scored within some units."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedpriv.errors import FedprivError, WorkFailed
from fedpriv.metrics.gates import Gate
from fedpriv.metrics.rates import LEVEL, SHARE, victims_for
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.audit.battery import (
    LEAST,
    RACER,
    WINNERS,
    Method,
    Raced,
    distinct,
    racers,
    readers,
    searches,
    shortened,
    standing,
    steps_of,
)
from fedpriv.simulations.audit.cells import (
    Cell,
    cell_scenario,
    planted_messages,
    summed_scenario,
    together,
)
from fedpriv.simulations.audit.probe import Found, Means, Probe
from fedpriv.simulations.audit.scored import scored
from fedpriv.simulations.audit.tasks import AttackTask, Done, RaceTask, in_parts
from fedpriv.simulations.audit.tasks import put_together as joined
from fedpriv.simulations.audit.trials import Trial, TrialTask, stands_for
from fedpriv.simulations.audit.work import planned, units_of
from fedpriv.simulations.federation.exposure import exposed
from fedpriv.simulations.judging.conditions import row_of
from fedpriv.simulations.judging.outcome import outcomes
from fedpriv.simulations.judging.recordings import of_run
from fedpriv.simulations.judging.sums import put_together

RACING = 0.1  # the part of a cell's units that its race may take
TRYING = 0.25  # and the trials of its attacks on planted clients


def exposed_cell(
    scenario: Scenario,
    cell: Cell,
    folder: RunFolder,
    means: Means,
    nodes: Collection[str] | None = None,
) -> Probe:
    """The cell's round trained, with evidence of those whose truth is there.

    With `nodes` only these clients are kept, besides planted ones.
    """
    chosen, many = cell_scenario(scenario, cell), together(scenario)
    if many == 1:
        exposed(chosen, folder, means.starts, cell.round, means.in_time)
    else:  # nobody attacks the folder of the single updates
        apart = exposed(chosen, folder.below("clients"), means.starts, cell.round, means.in_time)
        chosen = summed_scenario(chosen, many)
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.write_settings(chosen)
        put_together(apart, folder, many)
    recording = of_run(folder)
    known = [seen for seen in recording.evidence if folder.truth_of(seen.name) is not None]
    several = min(planted_messages(scenario, cell), max(0, len(known) - 1))
    planted = tuple(seen.name for seen in known[:several])
    victims = [seen for seen in known[several:] if nodes is None or str(seen.node) in nodes]
    for seen in known[several:]:
        if seen not in victims:
            (folder.observations / f"{seen.name}.safetensors").unlink()
    return Probe(cell, chosen, folder, replace(recording, evidence=victims), planted)


def attacked(
    scenario: Scenario,
    cells: Sequence[Cell],
    place: RunFolder,
    means: Means,
    units: int,
    enough: int = WINNERS,
    only: Sequence[Method] | None = None,
    nodes: Collection[str] | None = None,
) -> Found:
    """Expose the cells, let attacks race on each, and run the winners and those who know more.

    `enough` is how many winners of a race run. Every cell gets an even share of the units. With
    `only` these attacks run as they are, and no others; with `nodes` on these clients alone.
    """
    found = Found()
    probes = []
    for cell in cells:
        if not means.in_time():
            found.lacks(cell, "all", "no time was left for it")
            continue
        try:
            probe = exposed_cell(scenario, cell, place.below(cell.name), means, nodes)
        except WorkFailed as error:  # nobody answered, as where a guard refuses the model
            if not cell.server:
                found.lacks(cell, "all", str(error))
            found.turned_away |= {cell.server: str(error)} if cell.server else {}
            continue
        except FedprivError as error:
            if cell.server:  # there is nothing in this model that such a server could change
                found.refused[cell.server] = str(error)
            else:
                found.lacks(cell, "all", str(error))
            continue
        if probe.recording.updates:
            probes.append(probe)
            if why := uncounted(probe):
                found.lacks(cell, "all", why)
        else:
            found.lacks(cell, "all", "no client shared an update of samples that it kept")
    share = units // max(1, len(cells))
    racing = enough and only is None
    races = raced(probes, means, int(RACING * share), found) if racing else {}
    chosen = {
        probe.cell: battery(probe, races.get(probe.cell), means, enough) if only is None else only
        for probe in probes
    }
    trials = tried(probes, chosen, means, share, found) if only is None else {}
    tasks: list[tuple[Probe, AttackTask]] = []
    for done_with, probe in enumerate(probes):  # what one cell leaves, the others may take
        final = trials.get(probe.cell, Final())
        room = max(share, (len(probes) * share - found.units) // (len(probes) - done_with))
        tasks += plan(probe, chosen[probe.cell], races.get(probe.cell), final, room, found)
    parts = [in_parts(task, probe.samples) for probe, task in tasks]
    results = iter(means.carry([part for each in parts for part in each], means.deadline))
    for (probe, task), each in zip(tasks, parts, strict=True):
        done = joined([next(results) for _ in each])
        why = str(done) if isinstance(done, Exception) else done.why
        if why and cannot_act(task.method, probe, done):
            found.refused[task.method.label] = why
        elif why:
            found.lacks(probe.cell, task.method.label, why)
        found.seconds += 0.0 if isinstance(done, Exception) else done.seconds
        found.rows += scored(probe, task.method, scenario, means)
    for probe in probes if only is None else ():
        few(probe, found, means.gates)
    return found


def uncounted(probe: Probe) -> str:
    """Why attacks look for too few samples: clients say fewer than they use, as dp's weight of 1.

    Poisson batches have no fixed size, so that a few more than expected are no reason.
    """
    truths = [probe.folder.truth_of(one.name) for one in probe.recording.updates]
    used = [len(truth.y) for truth in truths if truth is not None]
    mean = sum(used) / max(1, len(used))
    if mean <= 2 * probe.samples:
        return ""
    return f"attacks look for {probe.samples} samples of a client, and clients use {mean:.0f}"


def few(probe: Probe, found: Found, gates: Sequence[Gate]) -> None:
    """Note a cell without a planted client, or with fewer clients than a bound needs."""
    rows = [row for row in found.rows if row.get("run") == probe.cell.name]
    needed = victims_for(SHARE, LEVEL)
    decided = outcomes(gates, rows)
    attacked = {one.claim: one.counted[1] for one in decided if one.bound is not None}
    for claim, count in (attacked if decided else {"sample": 0}).items():
        if count < needed:
            why = f"{count} clients were attacked, {needed} are needed"
            found.lacks(probe.cell, f"all on the {claim}", why)
    if not probe.planted:
        found.lacks(probe.cell, "all", "no planted client says how good a guess is")


def cannot_act(method: Method, probe: Probe, done: Done | Exception) -> bool:
    """Whether an attack that computes its answer, and knows no plugin, has nothing to do here."""
    refused = isinstance(done, Done) and done.refused
    return refused and not row_of(method.name).knows and not searches(method, probe.scenario)


def raced(probes: Sequence[Probe], means: Means, units: int, found: Found) -> dict[Cell, Raced]:
    """How the races of the cells end."""
    tasks = [RaceTask(Path(p.folder.path), max(1, units // p.samples)) for p in probes]
    results: dict[Cell, Raced] = {}
    end = min(means.deadline, time.time() + RACING * (means.deadline - time.time()))
    for probe, result in zip(probes, means.carry(tasks, end), strict=True):
        if isinstance(result, Exception):
            found.lacks(probe.cell, "race", str(result))
            continue
        results[probe.cell] = result
        found.races[probe.cell.name] = {"places": result.places, "left-out": result.left_out}
    return results


def battery(probe: Probe, race: Raced | None, means: Means, winners: int) -> Sequence[Method]:
    """The attacks on one cell: who wins its race, who needs none, and who knows more."""
    racing = {method.label: method for method in racers(probe.scenario)} if race else {}
    best = [racing[label] for label in race.best(winners)] if race else []
    honest = not probe.cell.server
    fit = standing(probe.scenario, means.own) if honest else readers(probe.scenario)
    return distinct([*fit, *best])


@dataclass
class Final:
    """The trials of one cell's attacks on its planted clients, and the units that they took."""

    trials: dict[str, Trial] = field(default_factory=dict)
    units: int = 0

    def spare(self, probe: Probe) -> dict[str, str]:
        """The attacks of a race that are not needed on the victims, each with the reason.

        Who is no better than a blind guess with all its steps has won nothing, and `strongest`
        stands for who finds no more than it does. Whoever needs no race is needed.
        """
        racing = {method.label for method in racers(probe.scenario)}
        runs, found = self.trials.get(RACER), dict[str, str]()
        for label in racing & set(self.trials):
            trial = self.trials[label]
            if trial.whole and not trial.works:
                found[label] = "with all its steps it is no better than a blind guess"
            elif runs and stands_for(runs, trial):
                found[label] = f"{RACER} finds as much"
        return found


def tried(
    probes: Sequence[Probe],
    chosen: dict[Cell, Sequence[Method]],
    means: Means,
    units: int,
    found: Found,
) -> dict[Cell, Final]:
    """The attacks on planted clients, where the units have room for that.

    They say how many steps are needed and who wins. Attacks of the scenario's own keep the steps
    that it says.
    """
    asked = {Method.with_options(one.name, one.options).label for one in means.own}
    tasks = []
    for probe in probes:
        room = int(TRYING * units)
        for method in chosen[probe.cell] if probe.planted else ():
            takes = units_of(method, probe.scenario, len(probe.planted), probe.samples)
            if method.label in asked or not searches(method, probe.scenario) or takes > room:
                continue
            tasks.append((probe, method, TrialTask(probe.folder.path, method, probe.planted)))
            room -= takes
    done = means.carry([task for _, _, task in tasks], means.deadline)
    finals: dict[Cell, Final] = {}
    for (probe, method, _), trial in zip(tasks, done, strict=True):
        if isinstance(trial, Exception):
            continue  # then it takes all its steps
        final = finals.setdefault(probe.cell, Final())
        took = units_of(method, probe.scenario, len(probe.planted), probe.samples)
        final.units += int(took * trial.work)
        final.trials[method.label] = trial
        found.trials.setdefault(probe.cell.name, {})[method.label] = trial.plain()
        chosen[probe.cell] = [
            shortened(one, probe.scenario, trial.part) if one == method else one
            for one in chosen[probe.cell]
        ]
    return finals


def plan(
    probe: Probe,
    methods: Sequence[Method],
    race: Raced | None,
    final: Final,
    units: int,
    found: Found,
) -> list[tuple[Probe, AttackTask]]:
    """The attacks on one cell, with as many steps and clients as the units allow.

    Those that are not needed come last: with all their steps, if there is room for that.
    """
    most, spare = len(probe.recording.updates), final.spare(probe)
    planted = 2 * len(probe.planted)  # here, and in a control
    ran = {label: trial.ran for label, trial in final.trials.items()}
    chosen = planned(
        [method for method in methods if method.label not in spare],
        probe.scenario,
        samples=probe.samples,
        needed=victims_for(SHARE, LEVEL),
        most=most,
        units=units - final.units,
        planted=planted,
        ran=ran,
    )
    room = units - final.units - chosen.units
    more = []
    for method in methods:
        takes = units_of(method, probe.scenario, planted + chosen.clients, probe.samples)
        takes = int(takes * ran.get(method.label, 1.0))
        if method.label in spare and takes <= room:
            more.append(method)
            room -= takes
    found.units += units - room
    taken = [*chosen.methods, *more]
    found.attacks[probe.cell.name] = [method.label for method in taken]
    found.methods[probe.cell] = tuple(taken)
    if spare:
        found.races.setdefault(probe.cell.name, {"places": [], "left-out": []})["spare"] = spare
    whole = {method.label: steps_of(method, probe.scenario) for method in methods}
    for method in chosen.methods:
        if (steps := steps_of(method, probe.scenario)) < whole[method.label]:
            why = f"{units} units have room for {steps} of its {whole[method.label]} steps"
            found.lacks(probe.cell, method.label, why)
    for label in race.left_out if race else []:
        if label not in whole:
            found.lacks(probe.cell, label, "there was no time to try it")
    for method in chosen.dropped:
        why = f"{units} units have no room for {LEAST} steps of it"
        found.lacks(probe.cell, method.label, why)
    return [
        (probe, AttackTask(Path(probe.folder.path), method, len(probe.planted) + chosen.clients))
        for method in taken
    ]
