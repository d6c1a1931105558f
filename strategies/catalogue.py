"""STRATEGIES: the names people type. How clients share by each is in `fedpriv.scenario.sharing`."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial

from flwr.serverapp.strategy import Strategy

from fedpriv.registry import Registry
from fedpriv.scenario import Scenario
from fedpriv.scenario.sharing import SHARING, StrategyRow
from fedpriv.strategies.fedavg import FedAvg
from fedpriv.strategies.representation import RepresentationSharing
from fedpriv.strategies.roster import Roster
from fedpriv.strategies.round_robin import RoundRobin
from fedpriv.strategies.standalone import Standalone
from fedpriv.strategies.user_privacy import UserLevel
from fedpriv.strategies.vertical import VerticalSharing

ROWS: dict[str, tuple[Callable[..., Strategy], str, str]] = {
    "fedavg": (FedAvg, "the mean of client updates", "SPN alg. 2-3"),
    "round-robin": (RoundRobin, "one client a round, in turn", "SPN alg. 4"),
    "standalone": (Standalone, "nobody shares: the floor", "SPN fig. 7"),
    "user-dp-server": (
        partial(UserLevel, by_clients=False),
        "user-level DP: the server clips and adds noise",
        "McMahan 2018",
    ),
    "user-dp-client": (
        partial(UserLevel, by_clients=True),
        "user-level DP: clients clip, the server adds noise",
        "McMahan 2018",
    ),
    "user-dp-adaptive": (
        partial(UserLevel, by_clients=True, adaptive=True, clipping_norm=0.1),
        "as user-dp-client with an adaptive norm",
        "Andrew 2021",
    ),
    "representation": (RepresentationSharing, "codes of one encoder, pooled", "ARS sect. 3.3"),
    "vertical": (VerticalSharing, "columns, encoded and put together", "ARS sect. 4.4.2"),
}
STRATEGIES: Registry[Strategy] = Registry(
    "strategy",
    "strategies",
    {name: StrategyRow(*row, **asdict(SHARING[name])) for name, row in ROWS.items()},
    StrategyRow,
    given=("scenario", "roster", "seed", "fraction", "evaluate_clients"),
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
