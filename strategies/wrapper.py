"""Wrapper: a strategy around another one, delegating all of Flower's hooks."""

from collections.abc import Iterable
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy


class Wrapper(Strategy):
    """Does what `inner` does; whatever it does not define itself is the inner one's."""

    def __init__(self, inner: Strategy) -> None:
        if not isinstance(inner, Strategy):
            raise TypeError(
                f"{type(inner).__module__}.{type(inner).__name__} is no strategy of Flower's "
                "Message API, so that nothing of it could be seen. Take its namesake in "
                "flwr.serverapp.strategy, or run the app as it is: fedpriv audit --app FOLDER."
            )
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not set yet: unpickling asks before __init__
            raise AttributeError(name)
        return getattr(self.inner, name)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        return self.inner.configure_train(server_round, arrays, config, grid)

    def configure_more(self, server_round: int, grid: Grid) -> Iterable[Message]:
        """Further exchanges of the same round; none for a strategy of Flower's."""
        more = getattr(self.inner, "configure_more", None)
        return more(server_round, grid) if more is not None else []

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        return self.inner.aggregate_train(server_round, replies)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        return self.inner.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        return self.inner.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        self.inner.summary()

    def start(self, *args: Any, **kwargs: Any) -> Result:
        """The inner strategy's own loop, if it has one, with the hooks of this one."""
        return type(self.inner).start(self, *args, **kwargs)
