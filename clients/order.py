"""Which orders of plugins make sense; the others are refused with the reason."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.clients.plugins.clip import Clip
from fedpriv.clients.plugins.differential_privacy import DifferentialPrivacy
from fedpriv.clients.plugins.noise import Noise
from fedpriv.clients.plugins.polarization import SecretPolarization
from fedpriv.errors import BadOption

Kind = Callable[[PrivacyPlugin], bool]


def is_a(kind: type[PrivacyPlugin], **options: object) -> Kind:
    """Plugins of a class whose options have these values."""

    def matches(plugin: PrivacyPlugin) -> bool:
        return isinstance(plugin, kind) and all(
            getattr(plugin, name) == value for name, value in options.items()
        )

    return matches


@dataclass(frozen=True)
class Rule:
    """`first` may not stand anywhere before `then`."""

    first: Kind
    then: Kind
    why: str


DP, SPN = is_a(DifferentialPrivacy), is_a(SecretPolarization)
STEP_NOISE, UPDATE_NOISE = is_a(Noise, on="gradient"), is_a(Noise, on="update")

RULES = (
    Rule(DP, SPN, "dp must also clip the secret head, or its ε leaves the head out: put spn first"),
    Rule(DP, STEP_NOISE, "dp adds the noise that its ε counts: raise its noise-multiplier instead"),
    Rule(STEP_NOISE, DP, "dp counts only the noise that it adds itself: drop the noise"),
    Rule(UPDATE_NOISE, is_a(Clip), "clip would shorten the noise too: put clip first"),
)


def check_order(names: Sequence[str], plugins: Sequence[PrivacyPlugin]) -> None:
    """BadOption for a plugin given twice or an order that a rule forbids."""
    for i, (name, plugin) in enumerate(zip(names, plugins, strict=True)):
        for j in range(i):
            order = f"plugins '{names[j]}' then '{name}'"
            if names[j] == name:
                raise BadOption(f"{order}: '{name}' is given twice; give it once.")
            for rule in RULES:
                if rule.first(plugins[j]) and rule.then(plugin):
                    raise BadOption(f"{order} make no sense: {rule.why}.")
