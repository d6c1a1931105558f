"""User-level DP: clipping on either side, noise, an ε that grows."""

import pytest
from shows import quiet

from fedpriv.errors import BadOption
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import first_state
from fedpriv.simulations.federation.exposure import Starts
from fedpriv.simulations.federation.run import simulate
from fedpriv.state import difference, norm
from fedpriv.strategies.catalogue import STRATEGIES
from fedpriv.strategies.roster import Roster
from fedpriv.strategies.user_epsilon import user_epsilon


def run(tiny, folder, strategy, **options):
    tables = tiny.plain() | {"strategy": options, "training": {"lr": 0.1, "local-steps": 2}}
    tables["federation"] = {**tables["federation"], "strategy": strategy, "rounds": 2}
    place = RunFolder(folder)
    starts = Starts(place.path / "starts")
    simulate(from_tables(tables), place, quiet(), starts=starts, keep=[2])
    return place


@pytest.mark.parametrize("strategy", ["user-dp-server", "user-dp-client", "user-dp-adaptive"])
def test_rounds_end_with_a_user_level_epsilon(tiny, tmp_path, strategy):
    place = run(tiny, tmp_path / "run", strategy, **{"noise-multiplier": 2.0})
    spent = [record["user-epsilon"] for record in place.rounds()]
    assert spent == [pytest.approx(user_epsilon(2.0, k, 1e-5)) for k in (1, 2)]


@pytest.mark.parametrize("strategy", ["user-dp-server", "user-dp-client"])
def test_without_noise_the_mean_moves_at_most_by_the_norm(tiny, tmp_path, strategy):
    options = {"noise-multiplier": 0.0, "clipping-norm": 0.01}
    place = run(tiny, tmp_path / "run", strategy, **options)
    after = Starts(place.path / "starts").of(2).checkpoint_state()
    moved = norm(difference(after, first_state(place.scenario())))
    assert 0 < moved <= 0.01 * (1 + 1e-3)


def test_impossible_options_are_named():
    with pytest.raises(BadOption, match="clipping-norm"):
        STRATEGIES.build("user-dp-server", {"clipping-norm": 0.0}, roster=Roster(2), seed=0)
