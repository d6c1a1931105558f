"""Vertical sharing: parties hold columns of the same rows, own encoders, codes side by side (ARS
4.4.2).
"""

from collections.abc import Mapping

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid

from fedpriv.codes.parties import coder_of
from fedpriv.codes.release import Shared
from fedpriv.errors import WorkFailed
from fedpriv.strategies.pool import Pool, columns_beside
from fedpriv.strategies.representation import RepresentationSharing
from fedpriv.wire import COLUMNS, record_of


class VerticalSharing(RepresentationSharing):
    """Every party trains an encoder of its own columns; one of them gives the labels."""

    main_kind = COLUMNS

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        self._round, self._nodes = server_round, self.roster.nodes(grid)
        self._then = self.shared
        # Rows need all their columns, so that nobody is left out.
        return self.messages(COLUMNS, self._nodes, server_round, record_of({}), config)

    def check(self, party: int, shared: Shared) -> None:
        code = coder_of(self.scenario, party).code(self.wanted.layer)
        if tuple(shared.z.shape[1:]) != code:
            raise WorkFailed(f"codes are {tuple(shared.z.shape[1:])} instead of {code}")
        if shared.ids is None:
            raise WorkFailed("codes of columns need the ids of their rows")

    def pool(self, parties: Mapping[int, Shared]) -> Pool:
        if all(shared.y is None for shared in parties.values()):
            raise WorkFailed(
                f"Party {self.wanted.label_party} has the labels, and did not share: nothing can "
                "be learned without it."
            )
        return columns_beside(self.scenario, parties)

    def besides(self, models: Mapping[str, torch.nn.Module]) -> dict[str, float]:
        return {}
