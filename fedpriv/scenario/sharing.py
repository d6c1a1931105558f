"""What a strategy's row says of how clients share; servers, clients and attacks all need it.

The strategies themselves are in `strategies/`, which clients may not import.
"""

from dataclasses import dataclass
from typing import Any, Literal

from fedpriv.registry import Entry, Registry
from fedpriv.scenario.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """What a reply is, how many clients work at a time, whether replies add up, who holds what.

    `reply` "update" is a model or its change, "codes" are representations of samples, "nothing"
    means that clients keep what they learn. `summable` replies can be hidden in a sum (secure
    aggregation). With `columns` a client holds some columns of every row of a table, not rows.
    """

    reply: Literal["update", "codes", "nothing"] = "update"
    one_at_a_time: bool = False
    summable: bool = False
    columns: bool = False


SHARING = {
    "fedavg": Sharing(summable=True),
    "round-robin": Sharing(one_at_a_time=True),
    "standalone": Sharing(reply="nothing"),
    "user-dp-server": Sharing(),
    "user-dp-client": Sharing(summable=True),
    "user-dp-adaptive": Sharing(),
    "representation": Sharing(reply="codes"),
    "vertical": Sharing(reply="codes", columns=True),
}


@dataclass(frozen=True)
class StrategyRow(Sharing, Entry[Any]):
    """A row of STRATEGIES; somebody else's strategy says the same as attributes of its class."""


OTHERS: Registry[Any] = Registry("strategy", "strategies", {}, StrategyRow)


def sharing_of(scenario: Scenario) -> Sharing:
    """How the clients of a scenario share."""
    name = scenario.federation.strategy
    if name in SHARING:
        return SHARING[name]
    row = OTHERS[name]
    assert isinstance(row, StrategyRow)
    return row
