"""What a scenario will take: where it runs and why, for how long, and how much memory."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.device import device_of
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of, model_of, training_samples
from fedpriv.scenario.sections import Attack, Sweep
from fedpriv.simulations.federation.backends import chosen, step_seconds, work_seconds
from fedpriv.simulations.federation.ray_start import start_seconds
from fedpriv.simulations.judging.askable import asks, of_counts
from fedpriv.simulations.judging.conditions import row_of, why_not
from fedpriv.simulations.sweep.cells import Cell, cells_of, exposed_scenario
from fedpriv.strategies.catalogue import row_of as strategy_row

SECOND_ORDER = 4.0  # a step of an inversion over a step of training: gradients of gradients
SCORED = 6.0  # a candidate in a round over its share of a training step: gradient and logits
CHUNK = 32  # candidates are scored many at a time, also where clients have small batches
ACTIVATIONS = 3.0  # copies of the model that training holds: weights, gradients, update
LONG = 5.0  # minutes of attacks from which on we say what makes them shorter
LOUD = "warning"  # severity of a finding that changes what the figures mean
BASE = 0.6  # GB that Python with torch takes before anything is loaded


@dataclass(frozen=True)
class Forecast:
    """An estimate. Minutes are None where only a run can tell."""

    backend: str
    why: str
    device: str
    training_minutes: float | None
    attack_minutes: float | None
    memory_gb: float
    disk_gb: float
    grid: str = ""  # what a sweep consists of; the minutes are of all of it
    slowest: str = ""  # the attack that takes most of the minutes
    shorter: str = ""  # the keys that make it shorter
    doubts: tuple[str, ...] = ()  # what will make figures hard to read

    @property
    def lines(self) -> list[str]:
        """In words, a line each."""
        long = self.attack_minutes is not None and self.attack_minutes > LONG
        mostly = f", most of it for {self.slowest}" if long else ""
        return [
            f"backend: {self.backend}, because {self.why}",
            f"device: {self.device}",
            f"training: {_about(self.training_minutes)}",
            f"attacks: {_about(self.attack_minutes)}{mostly}",
            f"memory: about {self.memory_gb:.1f} GB; evidence on disk: about {self.disk_gb:.2f} GB",
            *([f"sweep: {self.grid}"] if self.grid else []),
            *([f"to shorten the attacks, lower {self.shorter}"] if long else []),
            *(f"warning: {text}" for text in self.doubts),
        ]


def forecast(scenario: Scenario, ray_address: str | None = None) -> Forecast:
    """Measured where that takes a moment: a training step on this machine.

    A scenario with [sweep] is estimated as `fedpriv sweep` works: all trainings, all attacks.
    """
    model, data = model_of(scenario), dataset_of(scenario)
    weights = sum(p.numel() * p.element_size() for p in model.parameters()) / 1e9
    samples = sum(x.numel() * x.element_size() for x in (data.x_train, data.x_test)) / 1e9
    device = str(device_of(scenario.federation.device))
    codes = strategy_row(scenario).reply == "codes"
    backend, why = chosen(scenario, ray_address)
    seconds = None if codes else work_seconds(scenario)
    if backend == "ray" and seconds is not None:
        seconds = seconds / 2 + start_seconds()[0]
    attacks = None if codes else attack_steps(scenario.attacks, scenario) * step_seconds(scenario)
    grid, (slowest, shorter) = "", slowest_of(scenario.attacks, scenario)
    if scenario.sweep and scenario.defences and seconds is not None:
        cells = cells_of(scenario)
        trainings = len({cell.setting.name for cell in cells})
        seconds, attacks = seconds * trainings, sweep_seconds(cells, scenario.sweep)
        slowest, shorter = slowest_of([cell.attack for cell in cells], scenario)
        shorter = shorter.replace("attacks.victims", "sweep.victims").replace("attacks.", "its ")
        grid = f"{trainings} trainings and {len(cells)} attacks, timed as one worker does them all"
    kept = asked(scenario) * scenario.federation.rounds if scenario.attacks and not codes else 0
    return Forecast(
        backend,
        why,
        f"{device} ({'as asked' if scenario.federation.device != 'auto' else _why_auto(device)})",
        None if seconds is None else seconds / 60,
        None if attacks is None else attacks / 60,
        BASE + 5 * samples + (asked(scenario) + ACTIVATIONS) * weights,
        2 * kept * weights,
        grid,
        slowest,
        shorter,
        doubts_of(scenario),
    )


def slowest_of(attacks: Sequence[Attack], scenario: Scenario) -> tuple[str, str]:
    """The attack that takes the most steps, and the keys that they come from."""
    if not attacks:
        return "", ""
    slowest = max(attacks, key=lambda one: attack_steps([one], scenario))
    needs = row_of(slowest.name).needs
    if "shadows" in needs:
        return slowest.name, "attacks.count (shadow federations)"
    if "candidates" in needs:
        return slowest.name, "inference.candidates"
    if "own-samples" in needs:
        return slowest.name, "attacks.clients (shadow clients)"
    return slowest.name, "attacks.victims (updates) or attacks.steps"


def doubts_of(scenario: Scenario) -> tuple[str, ...]:
    """Attacks with nothing to do, too few members to ask about, as far as the settings tell."""
    idle = [
        f"attack '{attack.name}' can find nothing here: {why}"
        for attack in scenario.attacks
        if not attack.options and (why := why_not(attack.name, scenario, strict=True))
    ]
    if not asks(scenario.attacks):
        return tuple(idle)
    found = of_counts(members_of(scenario), members_of(scenario))
    few = [f"{one['cause']}: {one['detail']}" for one in found if one["severity"] == LOUD]
    return (*idle, *few)


def members_of(scenario: Scenario) -> int:
    """How many members can be asked about, each beside a sample that was held out."""
    training, federation = scenario.training, scenario.federation
    each = max(1, len(training_samples(scenario)[0]) // federation.clients)
    used = min(each, training.steps_for(each) * training.batch_size * federation.rounds)
    outside = scenario.data.reserve + len(dataset_of(scenario).y_test)
    asked = scenario.inference
    if asked.members is not None:
        return min(used * federation.clients, asked.members)
    return min(used * federation.clients, asked.candidates // 2, outside // 2)


def sweep_seconds(cells: Sequence[Cell], sweep: Sweep) -> float:
    """All attacks of a sweep. What a step takes is measured once for each batch size."""
    seconds = 0.0
    for batch in sweep.batch_sizes:
        exposed = exposed_scenario(cells[0].setting, sweep, batch)
        steps = sum(attack_steps([cell.attack], exposed) for cell in cells if cell.batch == batch)
        seconds += steps * step_seconds(exposed)
    return seconds


def attack_steps(attacks: Sequence[Attack], scenario: Scenario) -> float:
    """What all attacks of a scenario take together, at most, as steps of training."""
    whole = [one for one in attacks if row_of(one.name).whole]
    steps = sum(search_steps(one, scenario) for one in attacks if one not in whole)
    steps += sum(shadow_client_steps(one, scenario) for one in whole)
    return steps + candidate_steps(whole, scenario) + shadow_steps(whole, scenario)


def search_steps(attack: Attack, scenario: Scenario) -> float:
    """Steps × starts × victims of a search; an attack without steps takes about none.

    Every step of a search looks at all samples behind the update, so that it takes as long as the
    client's whole training in the round.
    """
    steps, restarts = option(attack, "steps", 0), option(attack, "restarts", 1)
    victims = asked(scenario) * len(rounds_of(attack, scenario))
    victims = victims if attack.victims is None else min(victims, attack.victims)
    return steps * restarts * victims * client_steps(scenario) * SECOND_ORDER


def candidate_steps(attacks: Sequence[Attack], scenario: Scenario) -> float:
    """Scoring all candidates in every round. Attacks on the same rounds share it."""
    looked = {rounds_of(one, scenario) for one in attacks if "candidates" in row_of(one.name).needs}
    return sum(map(len, looked)) * scored_round(scenario)


def shadow_steps(attacks: Sequence[Attack], scenario: Scenario) -> float:
    """Training and scoring shadow federations. Attacks with one number of them share them."""
    trained = {
        (option(one, "count", 0), rounds_of(one, scenario))
        for one in attacks
        if "shadows" in row_of(one.name).needs
    }
    a_round = asked(scenario) * client_steps(scenario)
    return sum(
        count * ((rounds[-1] - rounds[0] + 1) * a_round + len(rounds) * scored_round(scenario))
        for count, rounds in trained
    )


def shadow_client_steps(attack: Attack, scenario: Scenario) -> float:
    """Training the single clients that an attack compares with, in the rounds that it looks at."""
    if "own-samples" not in row_of(attack.name).needs:
        return 0.0
    rounds = min(option(attack, "rounds", 1), len(rounds_of(attack, scenario)))
    clients = option(attack, "clients", 0) + option(attack, "refinements", 0) * asked(scenario)
    return rounds * clients * client_steps(scenario)


def scored_round(scenario: Scenario) -> float:
    """Scoring all candidates in one round."""
    return SCORED * 2 * members_of(scenario) / max(CHUNK, scenario.training.batch_size)


def client_steps(scenario: Scenario) -> int:
    """Steps of one client in one round."""
    samples = len(training_samples(scenario)[0]) // scenario.federation.clients
    return scenario.training.steps_for(max(1, samples))


def option(attack: Attack, name: str, missing: float) -> float:
    """What the scenario says, or the attack's default, or what counts where there is none."""
    takes = inspect.signature(ATTACKS[attack.name].build).parameters
    default = takes[name].default if name in takes else missing
    return float(attack.options.get(name, default))


def rounds_of(attack: Attack, scenario: Scenario) -> tuple[int, ...]:
    """The rounds that an attack looks at."""
    rounds = scenario.federation.rounds
    return tuple(r for r in range(1, rounds + 1) if attack.wants(r, rounds))


def asked(scenario: Scenario) -> int:
    """Clients that take part in a round."""
    return max(1, round(scenario.federation.clients * scenario.federation.fraction))


def _why_auto(device: str) -> str:
    return "the first GPU" if device.startswith("cuda") else "no GPU is here"


def _about(minutes: float | None) -> str:
    if minutes is None:
        return "only a run can tell (it follows the epochs of [representation])"
    if minutes < 1:
        return "less than a minute"
    return f"about {minutes:.0f} min" if minutes < 120 else f"about {minutes / 60:.1f} h"
