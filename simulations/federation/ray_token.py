"""The token without which nobody talks to a Ray that we start, and the one of a Ray that we join.

Ray's processes listen on all interfaces of the machine. Without a token, whoever reaches them runs
code as the owner of the run. Ray reads the token from the environment, and so do the processes
that it starts; the token is in no file, no command line and no log.
"""

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedpriv.errors import BadOption

MODE, TOKEN, FILE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
DEFAULT_FILE = Path(".ray") / "auth_token"  # in the home folder, where Ray looks last


@contextmanager
def fresh_token() -> Iterator[None]:
    """A new random token in the environment while the block lasts."""
    with environment({MODE: "token", TOKEN: secrets.token_hex(32), FILE: None}):
        yield


@contextmanager
def token_of(address: str, insecure: bool) -> Iterator[None]:
    """The token of the cluster at `address` in use while the block lasts; `insecure` needs none."""
    if insecure:
        with environment({MODE: "disabled"}):
            yield
        return
    if not any(map(os.environ.get, (TOKEN, FILE))) and not (Path.home() / DEFAULT_FILE).is_file():
        raise BadOption(
            f"The Ray cluster at '{address}' needs its token: set {TOKEN}, or {FILE} to the file "
            "it is in. For a cluster without one, which runs code for whoever reaches it, give "
            "--insecure-ray."
        )
    with environment({MODE: "token"}):
        yield


def check_closed(address: str) -> None:
    """BadOption when the cluster at `address` answers somebody who shows no token."""
    import grpc
    from ray.core.generated import gcs_service_pb2
    from ray.core.generated.gcs_service_pb2_grpc import NodeInfoGcsServiceStub

    messages: Any = gcs_service_pb2
    with grpc.insecure_channel(address) as channel:
        try:
            NodeInfoGcsServiceStub(channel).CheckAlive(messages.CheckAliveRequest(), timeout=10)
            said = "it answers without one"
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                return
            said = f"it says {error.code().name}"
    raise BadOption(
        f"The Ray cluster at '{address}' does not ask for a token ({said}), so anybody who "
        f"reaches it runs code there. Start it with {MODE}=token, or give --insecure-ray."
    )


def is_closed() -> bool:
    """Whether the Ray of this process asks for a token."""
    from ray import _raylet

    inner: Any = _raylet
    found: bool = inner.get_authentication_mode() == inner.AuthenticationMode.TOKEN
    return found


@contextmanager
def environment(values: dict[str, str | None]) -> Iterator[None]:
    """Variables set, or unset where the value is None, and put back at the end."""
    before = {name: os.environ.get(name) for name in values}
    _put(values)
    try:
        yield
    finally:
        _put(before)


def _put(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if "ray" in sys.modules:  # it has read the variables at its import
        from ray import _raylet

        inner: Any = _raylet
        inner.Config.initialize("")
        inner.AuthenticationTokenLoader.instance().reset_cache()
