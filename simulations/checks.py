"""What can be known to be wrong before anything is started or written."""

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.clients.catalogue import plugin_of
from fedpriv.errors import BadScenario
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import model_of, shares_of
from fedpriv.strategies.catalogue import SHARING_CODES, strategy_of
from fedpriv.strategies.malicious.catalogue import malicious_of
from fedpriv.strategies.roster import Roster
from fedpriv.strategies.secagg import check_secagg


def check(scenario: Scenario) -> None:
    """Build every part the scenario names once; the first that cannot be built raises."""
    plugin_of(scenario.plugins)
    check_secagg(scenario)
    roster = Roster(scenario.federation.clients)
    malicious_of(scenario, strategy_of(scenario, roster), roster)
    shares_of(scenario)
    model_of(scenario)
    if scenario.federation.strategy not in SHARING_CODES:
        check_attacks(scenario)


def check_attacks(scenario: Scenario) -> None:
    """Build every attack, and see that each has a round to look at."""
    last = scenario.federation.rounds
    for attack in scenario.attacks:
        ATTACKS.build(attack.name, attack.options)
        if not any(attack.wants(server_round, last) for server_round in range(1, last + 1)):
            raise BadScenario(
                f"[[attacks]] '{attack.name}' wants rounds {attack.rounds!r}, but the federation has "
                f"rounds 1 to {last}."
            )
