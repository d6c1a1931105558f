"""The sums that an app's server reads behind secure aggregation, before it adds any noise."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from fedpriv.flower import SecAggPlusWorkflow, parameters_to_ndarrays

Heard = Callable[[int, Sequence[np.ndarray]], None]  # the round, and the mean of its clients


class Overheard:
    """A strategy whose `aggregate_fit` is listened to; all else is the strategy's own."""

    def __init__(self, strategy: Any, heard: Heard) -> None:
        self._strategy, self._heard = strategy, heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._strategy, name)

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        if results:  # Flower gives every client the same, unmasked mean
            self._heard(server_round, parameters_to_ndarrays(results[0][1].parameters))
        return self._strategy.aggregate_fit(server_round, results, failures)


@contextmanager
def sums(heard: Heard) -> Iterator[None]:
    """Every sum that Flower's SecAgg+ unmasks within the block."""
    real = SecAggPlusWorkflow.unmask_stage

    def unmask_stage(workflow: Any, grid: Any, context: Any, state: Any) -> bool:
        strategy = context.strategy
        context.strategy = Overheard(strategy, heard)
        try:
            return real(workflow, grid, context, state)
        finally:
            context.strategy = strategy

    SecAggPlusWorkflow.unmask_stage = unmask_stage  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        SecAggPlusWorkflow.unmask_stage = real  # type: ignore[method-assign]
