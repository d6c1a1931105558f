"""What a server knows of its clients' training: the scenario it wrote itself."""

from typing import Any

from torch import nn

from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of, model_of
from fedpriv.strategies.catalogue import row_of
from fedpriv.strategies.recorder import Facts, Recorder
from fedpriv.strategies.roster import Roster


def facts_of(scenario: Scenario) -> Facts:
    """The facts of an observation by round and number of examples."""
    training, dataset = scenario.training, dataset_of(scenario)
    layers = model_of(scenario).modules()
    dropout = max(
        (m.p for m in layers if isinstance(m, nn.modules.dropout._DropoutNd)), default=0.0
    )
    fixed = {
        "classes": dataset.classes,
        "input_shape": dataset.shape,
        "optimiser": training.optimiser,
        "momentum": training.momentum,
        "weight_decay": training.weight_decay,
        "mode": training.mode,
        "dropout": dropout,
        "mean": tuple(dataset.mean),
        "std": tuple(dataset.std),
        "nesterov": False,
        "loss": "cross-entropy",
        "augmentation": (),
    }

    def facts(server_round: int, examples: int) -> dict[str, Any]:
        size = min(training.batch_size, examples)
        lr, steps = training.lr_at(server_round), training.steps_for(examples)
        return {**fixed, "lr": lr, "batch_size": size, "local_steps": steps}

    return facts


def recorder_of(scenario: Scenario, folder: Any, roster: Roster) -> Recorder:
    """Records the rounds and victims that the scenario's attacks want, by partition."""
    rounds = scenario.federation.rounds
    victims = [attack.victims for attack in scenario.attacks]
    if row_of(scenario).reply == "codes":
        victims = [None]  # an attacker of codes needs its own as well
    return Recorder(
        folder,
        facts_of(scenario),
        rounds=lambda r: any(attack.wants(r, rounds) for attack in scenario.attacks),
        sample=None if None in victims else max(v for v in victims if v is not None),
        name=roster.partition,
    )
