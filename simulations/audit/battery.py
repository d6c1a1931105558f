"""The battery: which attacks of the catalogue fit a cell, and which of them win a race there.

Attackers are ranked on planted clients, whose samples the attacker chose itself. Nobody is chosen
by the truth of a victim that is counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.attacks.inversion.attack import GradientInversion, victims_of
from fedpriv.attacks.inversion.matching import by_replay
from fedpriv.attacks.inversion.race import least_evaluations, race
from fedpriv.device import moved
from fedpriv.errors import BadData
from fedpriv.progress import Progress, go_on
from fedpriv.scenario import Scenario
from fedpriv.scenario.binding import parameters
from fedpriv.scenario.built import test_samples
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.judging.attacking import Recording, folder_name
from fedpriv.simulations.judging.conditions import given_to, informed_of, row_of, why_not
from fedpriv.strategies.catalogue import row_of as strategy_row

OWN = "own-samples"  # what an attack needs that trains on samples of the attacker
RACER = "strongest"  # it races settings itself, and runs in every cell
LEAST = 60  # steps: a search that is shorter says little about a stronger one
WINNERS = 2
CONTROLS = 2  # planted clients of a race
LONG = 300  # steps of a race's first round, where the units have room for so many
# How strong the prior must be depends on batch and network, so that these race beside the row's own
# setting: total variation for signed Adam.
VARIANTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "adam+cosine": ({"tv": 1e-3}, {"tv": 1e-2}, {"tv": 1e-1})
}


@dataclass(frozen=True)
class Method:
    """An attack of the catalogue with the options it has in this audit.

    `said` are the options by which it differs from the catalogue's row, as its label shows them.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""

    @classmethod
    def with_options(cls, name: str, options: Mapping[str, Any]) -> "Method":
        """The attack with options of its own, which its label shows."""
        return cls(name, options, "".join(f" {key}={value}" for key, value in options.items()))

    @property
    def label(self) -> str:
        return folder_name(self.name + self.said)

    def attack(self, victims: int | None = None) -> Attack:
        return Attack(name=self.name, victims=victims, options=dict(self.options))


def fitting(scenario: Scenario) -> list[str]:
    """The rows of the catalogue that see what is shared, know no plugin, and have all they need.

    An attack that trains on samples of its own costs many times its search. It runs in an audit
    whose scenario names it in [[attacks]].
    """
    reply = strategy_row(scenario).reply
    return [
        name
        for name in ATTACKS
        if (row := row_of(name)).sees == reply
        and row.by in ("curious server", "curious party")
        and not row.knows
        and not row.whole
        and OWN not in row.needs
        and why_not(name, scenario, strict=True) is None
    ]


def on_series(scenario: Scenario) -> list[Method]:
    """The attacks that look at all rounds at once and have something to do here.

    Behind secure aggregation no client's update is seen, and public models are what is left.
    """
    reply = strategy_row(scenario).reply
    seen = {"models"} if scenario.federation.secagg else {reply, "models"}
    plugins = {spec.name for spec in scenario.plugins}
    return [
        Method(name)
        for name in ATTACKS
        if (row := row_of(name)).whole
        and reply == "update"
        and row.sees in seen
        and (not row.knows or plugins & set(row.knows))
        and why_not(name, scenario, strict=True) is None
    ]


def readers(scenario: Scenario) -> list[Method]:
    """The attacks of malicious servers that have something to do here."""
    return [
        Method(name)
        for name in ATTACKS
        if (row := row_of(name)).by == "malicious server"
        and row.sees == strategy_row(scenario).reply
        and why_not(name, scenario, strict=True) is None
    ]


def informed(scenario: Scenario, own: Sequence[Attack] = ()) -> list[Method]:
    """Every attack whose row knows one of the plugins and that has something to do here.

    `own` are the rows of the scenario's [[attacks]]: they may name attacks of no catalogue. What
    options they have there is no matter: a required attack runs as its row says.
    """
    return [
        Method(name)
        for name in informed_of(scenario, [attack.name for attack in own])
        if why_not(name, scenario, strict=True) is None
    ]


def work_of(attack: Any) -> int:
    """How many steps an attack may take for one victim; 0 for one that computes its answer."""
    if isinstance(attack, Mapping):
        return max(map(work_of, attack.values()), default=0)
    if not is_dataclass(attack) or isinstance(attack, type):
        return 0
    counts = {name: getattr(attack, name, 0) for name in ("steps", "polish", "finish")}
    steps, polish, finish = (count if isinstance(count, int) else 0 for count in counts.values())
    own = steps * getattr(attack, "restarts", 1) + polish + finish
    inner = sum(work_of(getattr(attack, part.name)) for part in fields(attack))
    return int((own + inner) * (1 + getattr(attack, "budget", 0.0)))


def built(method: Method, scenario: Scenario) -> Any:
    """The attack itself."""
    given = given_to(method.name, scenario, None)
    return ATTACKS.build(method.name, {**given.options, **method.options}, **given.objects)


def lacking(method: Method, scenario: Scenario) -> str:
    """Why an attack cannot be made here, such as public data that are not there; else nothing."""
    try:
        built(method, scenario)
    except BadData as error:
        return str(error)
    return ""


def searches(method: Method, scenario: Scenario) -> bool:
    """Whether the attack takes steps, so that it is worth a race; others are simply run."""
    return steps_of(method, scenario) > 0


def steps_of(method: Method, scenario: Scenario) -> int:
    """How many steps the attack may take for one victim, with the options that it has."""
    return work_of(built(method, scenario))


def shortened(method: Method, scenario: Scenario, part: float) -> Method:
    """The attack with a part of its steps, never below `LEAST`; all of them when part is 1."""
    takes = parameters(ATTACKS[method.name].build)
    steps = {}
    for name in ("steps", "polish", "finish"):
        most = method.options.get(name, takes[name].default if name in takes else 0)
        if isinstance(most, int) and most > 0 and part < 1:
            steps[name] = min(most, max(LEAST, int(part * most)))
    return replace(method, options={**method.options, **steps})


def standing(scenario: Scenario, own: Sequence[Attack] = ()) -> list[Method]:
    """What runs without a race: the racer, what computes its answer, and who knows a plugin."""
    direct = [
        method
        for method in map(Method, fitting(scenario))
        if method.name == RACER or not searches(method, scenario)
    ]
    asked = [Method.with_options(attack.name, attack.options) for attack in own]
    return distinct([*direct, *informed(scenario, own), *asked])


def distinct(methods: Iterable[Method]) -> list[Method]:
    """Each attack with the same options once, the first of them."""
    return list({method.label: method for method in reversed(list(methods))}.values())[::-1]


def racers(scenario: Scenario) -> list[Method]:
    """The fitting attacks that search, and those of `VARIANTS`, as they run in a race."""
    found = [Method(name) for name in fitting(scenario) if name != RACER]
    found += [
        Method.with_options(method.name, options)
        for method in list(found)
        for options in VARIANTS.get(method.name, ())
    ]
    return [method for method in found if searches(method, scenario)]


@dataclass(frozen=True)
class Raced:
    """A race: places as [label, PSNR, steps], best first, and who found no room in it.

    Without room for two there is no race: then `left_out` are all, in the order of the catalogue,
    those first that replay several local steps where there were any.
    """

    places: list[list[Any]]
    left_out: list[str]

    def best(self, count: int) -> list[str]:
        """The labels of the best, or of those that come first when nobody raced."""
        return ([str(place[0]) for place in self.places] or self.left_out)[:count]


def ranked(
    recording: Recording, scenario: Scenario, evaluations: int, progress: Progress = go_on
) -> Raced:
    """The fitting attacks that search, best first, by what they do to planted clients.

    Planted clients hold public samples: the test part of the data.
    """
    several = recording.updates[0].local_steps > 1
    racing = {method.label: built(method, scenario) for method in racers(scenario)}
    order = sorted(racing, key=lambda name: several and not replays(racing[name]))
    if evaluations < least_evaluations(CONTROLS):
        return Raced([], order)
    public, _ = test_samples(scenario)
    found = race(
        victims_of(moved(recording.updates[:1], recording.device)),
        {name: racing[name] for name in order},
        evaluations=evaluations,
        controls=CONTROLS,
        seed=scenario.seed,
        public=public,
        most=LONG,
        progress=progress,
    )
    return Raced(found.told(), list(found.left_out))


def replays(attack: Any) -> bool:
    """Whether an attack replays the local steps of its victims."""
    return isinstance(attack, GradientInversion) and attack.match is by_replay
