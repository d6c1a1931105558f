"""The bundle fedpriv submits to a federation: a name and two addresses, no code.

Whoever submits a run to a SuperLink ships a bundle, and a bundle may hold code that clients then
execute. Ours holds none: it points into the package installed on either side. So its
digest is known beforehand, and a client can refuse every other bundle.
"""

import hashlib
from functools import lru_cache
from importlib.metadata import version

from fedpriv.flower import build_fab_from_files

_PYPROJECT = """\
[project]
name = "fedpriv"
version = "{version}"
description = "A federation whose two apps are those of the installed fedpriv"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "fedpriv"

[tool.flwr.app.components]
serverapp = "fedpriv.strategies.app:app"
clientapp = "fedpriv.clients.app:app"

[tool.flwr.app.config]
scenario = "quickstart"
set = ""
out = ""
resume = false
"""


@lru_cache(maxsize=1)
def own_bundle() -> bytes:
    """The bundle of the installed version; the same bytes on every machine."""
    text = _PYPROJECT.format(version=version("fedpriv"))
    return build_fab_from_files({"pyproject.toml": text.encode()})[0]


def digest_of(bundle: bytes) -> str:
    return hashlib.sha256(bundle).hexdigest()
