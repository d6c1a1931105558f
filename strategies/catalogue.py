"""STRATEGIES: the names people type."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from flwr.serverapp.strategy import Strategy

from fedpriv.registry import Entry, Registry
from fedpriv.scenario import Scenario
from fedpriv.strategies.fedavg import FedAvg
from fedpriv.strategies.representation import RepresentationSharing
from fedpriv.strategies.roster import Roster
from fedpriv.strategies.round_robin import RoundRobin
from fedpriv.strategies.standalone import Standalone
from fedpriv.strategies.user_privacy import UserLevel
from fedpriv.strategies.vertical import VerticalSharing


@dataclass(frozen=True)
class StrategyRow(Entry[Strategy]):
    """A row of STRATEGIES: what a reply is, how many clients work at a time, whether replies add
    up.

    `reply` "update" is a model or its change, "codes" are representations of samples, "nothing"
    means that clients keep what they learn. `summable` replies can be hidden in a sum (secure
    aggregation).
    """

    reply: Literal["update", "codes", "nothing"] = "update"
    one_at_a_time: bool = False
    summable: bool = False


STRATEGIES: Registry[Strategy] = Registry(
    "strategy",
    "strategies",
    {
        "fedavg": StrategyRow(FedAvg, "the mean of client updates", "SPN alg. 2-3", summable=True),
        "round-robin": StrategyRow(
            RoundRobin, "one client a round, in turn", "SPN alg. 4", one_at_a_time=True
        ),
        "standalone": StrategyRow(
            Standalone, "nobody shares: the floor", "SPN fig. 7", reply="nothing"
        ),
        "user-dp-server": StrategyRow(
            partial(UserLevel, by_clients=False),
            "user-level DP: the server clips and adds noise",
            "McMahan 2018",
        ),
        "user-dp-client": StrategyRow(
            partial(UserLevel, by_clients=True),
            "user-level DP: clients clip, the server adds noise",
            "McMahan 2018",
            summable=True,
        ),
        "user-dp-adaptive": StrategyRow(
            partial(UserLevel, by_clients=True, adaptive=True, clipping_norm=0.1),
            "as user-dp-client with an adaptive norm",
            "Andrew 2021",
        ),
        "representation": StrategyRow(
            RepresentationSharing, "codes of one encoder, pooled", "ARS sect. 3.3", reply="codes"
        ),
        "vertical": StrategyRow(
            VerticalSharing, "columns, encoded and put together", "ARS sect. 4.4.2", reply="codes"
        ),
    },
    StrategyRow,
)


def row_of(scenario: Scenario) -> StrategyRow:
    """The row of the scenario's strategy."""
    row = STRATEGIES[scenario.federation.strategy]
    assert isinstance(row, StrategyRow)
    return row


def strategy_of(scenario: Scenario, roster: Roster) -> Strategy:
    """The scenario's strategy; one of somebody else's takes only its own options."""
    name = scenario.federation.strategy
    if not STRATEGIES.ours(name):
        return STRATEGIES.build(name, scenario.strategy)
    whole = {"scenario": scenario} if row_of(scenario).reply == "codes" else {}
    return STRATEGIES.build(
        name,
        scenario.strategy,
        **whole,
        roster=roster,
        seed=scenario.seed,
        fraction=scenario.federation.fraction,
        evaluate_clients=scenario.training.holdout > 0,
    )
