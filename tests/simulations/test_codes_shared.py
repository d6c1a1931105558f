"""Codes that runs shared, to be drawn: of the last round, of every run, and nobody's updates."""

import pytest
import torch

from fedpriv.codes.release import Shared
from fedpriv.errors import BadFolder
from fedpriv.evidence.release import Release
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.simulations.judging.codes_shared import codes_in


@pytest.fixture
def shared(tmp_path):
    """Two runs of one name, with two parties and two rounds each; codes tell where they are of."""
    for number, place in enumerate(("a", "b")):
        folder = RunFolder(tmp_path / place / "ran")
        folder.path.mkdir(parents=True)
        folder.write_settings(from_tables({"name": "ran"}))
        for server_round in (1, 2):
            for party in (0, 1):
                z = torch.full((5, 3), 100.0 * number + 10 * server_round + party)
                own = Shared(z, z[:0], torch.arange(0), y=torch.full((5, 1), party))
                Release(shared=own, round=server_round, node=party).save(folder.observations)
    return [tmp_path / "a" / "ran", tmp_path / "b" / "ran"]


def test_runs_of_one_name_have_a_panel_each(shared):
    found = codes_in(shared, 1000)
    assert list(found) == [str(path) for path in shared]
    assert [sorted(set(z.flatten())) for z, _ in found.values()] == [[20.0, 21.0], [120.0, 121.0]]
    assert list(codes_in([shared[0].parent], 4)) == ["a/ran"]


def test_labels_stay_with_their_codes_and_one_party_can_be_asked_for(shared):
    ((z, y),) = codes_in(shared[:1], 7).values()
    assert len(z) == 7 and (z[:, 0] - 20 == y).all()
    ((z, y),) = codes_in(shared[:1], 100, party=1).values()
    assert len(z) == 5 and set(y) == {1}
    with pytest.raises(BadFolder, match="no codes of party 7"):
        codes_in(shared, 100, party=7)


def test_a_folder_without_codes_is_named(tmp_path):
    with pytest.raises(BadFolder, match="None of these folders"):
        codes_in([tmp_path], 100)
    with pytest.raises(BadFolder, match="is no folder"):
        codes_in([tmp_path / "nowhere"], 100)
