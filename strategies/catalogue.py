"""STRATEGIES: the names people type."""

from flwr.serverapp.strategy import Strategy

from fedpriv.registry import Entry, Registry
from fedpriv.scenario import Scenario
from strategies.fedavg import FedAvg
from strategies.roster import Roster
from strategies.round_robin import RoundRobin
from strategies.standalone import Standalone

STRATEGIES: Registry[Strategy] = Registry(
    "strategy",
    {
        "fedavg": Entry(FedAvg, "the mean of client updates", "SPN alg. 2-3"),
        "round-robin": Entry(RoundRobin, "one client a round, in turn", "SPN alg. 4"),
        "standalone": Entry(Standalone, "nobody shares: the floor", "SPN fig. 7"),
    },
)


def strategy_of(scenario: Scenario, roster: Roster) -> Strategy:
    """The scenario's strategy; one of somebody else's takes only its own options."""
    name = scenario.federation.strategy
    if ":" in name:
        return STRATEGIES.build(name, scenario.strategy)
    return STRATEGIES.build(
        name,
        scenario.strategy,
        roster=roster,
        seed=scenario.seed,
        fraction=scenario.federation.fraction,
        evaluate_clients=scenario.training.holdout > 0,
    )
