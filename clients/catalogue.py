"""PLUGINS: the names people type."""

from collections.abc import Iterable

from clients.plugin import PrivacyPlugin, chain
from fedpriv.registry import Registry
from fedpriv.sections import Spec

PLUGINS: Registry[PrivacyPlugin] = Registry("plugin", {})


def plugin_of(specs: Iterable[Spec]) -> PrivacyPlugin:
    """The plugins of a scenario as one, in the order given."""
    return chain(*(PLUGINS.build(spec.name, spec.options) for spec in specs))
