"""What can be known to be wrong before anything is started or written."""

from clients.catalogue import plugin_of
from fedpriv.parts import model_of, shares_of
from fedpriv.scenario import Scenario
from strategies.catalogue import strategy_of
from strategies.roster import Roster


def check(scenario: Scenario) -> None:
    """Build every part the scenario names once; the first that cannot be built raises."""
    plugin_of(scenario.plugins)
    strategy_of(scenario, Roster(scenario.federation.clients))
    shares_of(scenario)
    model_of(scenario)
