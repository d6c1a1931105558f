"""Strategies, and what somebody else's Flower app needs of them.

That is `Curious(strategy, record_to(folder))`.
"""

from fedpriv.strategies.curious import Curious, Exchange
from fedpriv.strategies.recorder import record_to

__all__ = ["Curious", "Exchange", "record_to"]
