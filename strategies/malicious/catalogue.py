"""MALICIOUS: the names people type under [malicious]."""

from flwr.serverapp.strategy import Strategy

from fedpriv.errors import BadScenario
from fedpriv.registry import Entry, Registry
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of, model_of, test_samples
from fedpriv.strategies.catalogue import row_of
from fedpriv.strategies.malicious.fishing import ClassFishing, FeatureFishing
from fedpriv.strategies.malicious.imprint import Imprint
from fedpriv.strategies.malicious.scaling import LossScaling
from fedpriv.strategies.malicious.trap import TrapWeights
from fedpriv.strategies.malicious.wrapper import Known, Malicious, Plant
from fedpriv.strategies.roster import Roster

MALICIOUS: Registry[Plant] = Registry(
    "malicious server",
    "malicious",
    {
        "imprint": Entry(Imprint, "bins of brightness in a linear layer", "Fowl et al. 2022"),
        "trap-weights": Entry(
            TrapWeights, "rows that only few samples activate", "Boenisch et al. 2023"
        ),
        "class-fishing": Entry(
            ClassFishing, "only samples of one class leave a gradient", "Wen et al. 2022"
        ),
        "feature-fishing": Entry(
            FeatureFishing, "samples with an unusual feature leave a gradient", "Wen et al. 2022"
        ),
        "loss-scaling": Entry(LossScaling, "scales the loss so that gradients exceed the noise"),
    },
)


def malicious_of(scenario: Scenario, strategy: Strategy, roster: Roster) -> Strategy:
    """The strategy as the scenario's [malicious] section changes it; itself when there is none."""
    section = scenario.malicious
    if section is None:
        return strategy
    clients = scenario.federation.clients
    strangers = [victim for victim in section.victims if not 0 <= victim < clients]
    if strangers:
        raise BadScenario(
            f"[malicious]: there is no client {strangers[0]} to attack; victims are partitions, "
            f"0 to {clients - 1}."
        )
    if row_of(scenario).reply != "update":
        raise BadScenario(
            f"[malicious] changes the model that clients train, and strategy "
            f"'{scenario.federation.strategy}' sends none; use fedavg or round-robin."
        )
    x, y = test_samples(scenario)
    known = Known(model_of(scenario), x, y, dataset_of(scenario).classes)
    return Malicious(
        strategy,
        MALICIOUS.build(section.name, section.options),
        known,
        from_round=section.from_round,
        victims=section.victims,
        partition=roster.partition,
    )
