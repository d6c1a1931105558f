"""What a scenario will take: where it runs and why, for how long, and how much memory."""

import inspect
from dataclasses import dataclass

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.device import device_of
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of, model_of
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.federation.backends import chosen, step_seconds, work_seconds
from fedpriv.simulations.federation.ray_start import start_seconds
from fedpriv.simulations.judging.conditions import row_of
from fedpriv.strategies.catalogue import row_of as strategy_row

SECOND_ORDER = 4.0  # a step of an inversion over a step of training: gradients of gradients
ACTIVATIONS = 3.0  # copies of the model that training holds: weights, gradients, update
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

    @property
    def lines(self) -> list[str]:
        """In words, a line each."""
        return [
            f"backend: {self.backend}, because {self.why}",
            f"device: {self.device}",
            f"training: {_about(self.training_minutes)}",
            f"attacks: {_about(self.attack_minutes)}",
            f"memory: about {self.memory_gb:.1f} GB; evidence on disk: about {self.disk_gb:.2f} GB",
        ]


def forecast(scenario: Scenario, ray_address: str | None = None) -> Forecast:
    """Measured where that takes a moment: a training step on this machine."""
    model, data = model_of(scenario), dataset_of(scenario)
    weights = sum(p.numel() * p.element_size() for p in model.parameters()) / 1e9
    samples = sum(x.numel() * x.element_size() for x in (data.x_train, data.x_test)) / 1e9
    device = str(device_of(scenario.federation.device))
    asked = max(1, round(scenario.federation.clients * scenario.federation.fraction))
    codes = strategy_row(scenario).reply == "codes"
    backend, why = chosen(scenario, ray_address)
    seconds = None if codes else work_seconds(scenario)
    if backend == "ray" and seconds is not None:
        seconds = seconds / 2 + start_seconds()[0]
    attacks = None if codes else sum(attack_seconds(one, scenario) for one in scenario.attacks)
    kept = asked * scenario.federation.rounds if scenario.attacks and not codes else 0
    return Forecast(
        backend,
        why,
        f"{device} ({'as asked' if scenario.federation.device != 'auto' else _why_auto(device)})",
        None if seconds is None else seconds / 60,
        None if attacks is None else attacks / 60,
        BASE + 5 * samples + (asked + ACTIVATIONS) * weights,
        2 * kept * weights,
    )


def attack_seconds(attack: Attack, scenario: Scenario) -> float:
    """Steps × starts × victims of a search, at most; an attack without steps takes about none."""
    if row_of(attack.name).whole:
        return 0.0
    takes = inspect.signature(ATTACKS[attack.name].build).parameters
    steps, restarts = (
        attack.options.get(name, takes[name].default if name in takes else missing)
        for name, missing in (("steps", 0), ("restarts", 1))
    )
    federation = scenario.federation
    rounds = sum(attack.wants(r, federation.rounds) for r in range(1, federation.rounds + 1))
    victims = max(1, round(federation.clients * federation.fraction)) * rounds
    victims = victims if attack.victims is None else min(victims, attack.victims)
    return float(steps) * float(restarts) * victims * SECOND_ORDER * step_seconds(scenario)


def _why_auto(device: str) -> str:
    return "the first GPU" if device.startswith("cuda") else "no GPU is here"


def _about(minutes: float | None) -> str:
    if minutes is None:
        return "only a run can tell"
    if minutes < 1:
        return "less than a minute"
    return f"about {minutes:.0f} min" if minutes < 120 else f"about {minutes / 60:.1f} h"
