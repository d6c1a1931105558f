"""Every registry by the word that `fedpriv list` takes, which also ends its entry-point group."""

from functools import cache
from typing import Any

from fedpriv.registry import Registry


@cache
def registries() -> dict[str, Registry[Any]]:
    from fedpriv.attacks.catalogue import ATTACKS
    from fedpriv.catalogue import AUTOENCODERS, DATASETS, METRICS, MODELS
    from fedpriv.clients.catalogue import PLUGINS
    from fedpriv.strategies.catalogue import STRATEGIES
    from fedpriv.strategies.malicious.catalogue import MALICIOUS

    found = (PLUGINS, ATTACKS, STRATEGIES, MALICIOUS, MODELS, DATASETS, METRICS, AUTOENCODERS)
    return {registry.plural: registry for registry in found}
