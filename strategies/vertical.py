"""Vertical sharing: parties hold different columns of the same rows (ARS 4.4.2).

Each party has its own encoder. The codes of a row are put side by side.
"""

from collections.abc import Mapping

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid

from fedpriv.codes.parties import coder_of
from fedpriv.codes.release import Shared
from fedpriv.errors import WorkFailed
from fedpriv.state import State, state_of
from fedpriv.strategies.pool import Pool, columns_beside
from fedpriv.strategies.representation import RepresentationSharing
from fedpriv.wire import COLUMNS, record_of


def rows_of(shared: Shared) -> torch.Tensor:
    """The ids of a party's rows; `check` has seen that there are some."""
    return torch.zeros(0) if shared.ids is None else shared.ids


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

    def encoder_of(self, party: int) -> State:
        if not self.wanted.publish_encoders:
            return {}
        return state_of(coder_of(self.scenario, party).encoder(self.wanted.layer))

    def check(self, party: int, shared: Shared) -> None:
        if shared.ids is None:
            raise WorkFailed("codes of columns need the ids of their rows")
        if (shared.y is None) == (party == self.wanted.label_party):
            raise WorkFailed(f"labels come from party {self.wanted.label_party}, and only from it")
        if shared.y is not None:
            self.check_labels(shared.y)

    def pool(self, parties: Mapping[int, Shared]) -> Pool:
        labels = parties.get(self.wanted.label_party)
        if labels is None:
            raise WorkFailed(
                f"Party {self.wanted.label_party} has the labels, and did not share: nothing can "
                "be learned without it."
            )
        return columns_beside(self.scenario, self.aligned(parties, labels))

    def aligned(self, parties: Mapping[int, Shared], labels: Shared) -> dict[int, Shared]:
        """The parties that have at least half of the rows that can be expected of them.

        A row needs all its columns: one party with strange rows would leave nothing to learn from.
        """
        found, enough = {}, 0.5 * (1 - self.wanted.missing)
        for party, shared in parties.items():
            common = [
                float(torch.isin(wanted, own).double().mean())
                for wanted, own in (
                    (rows_of(labels), rows_of(shared)),
                    (labels.test_ids, shared.test_ids),
                )
            ]
            if min(common) >= enough:
                found[party] = shared
            else:
                self.roster.tell(
                    party, "it lacks too many of the rows that have labels; it is left out"
                )
        return found

    def besides(self, models: Mapping[str, torch.nn.Module]) -> dict[str, float]:
        return {}
