"""Between a client's SuperNode and its executor: only those two talk, and only in private."""

import httpx
import pytest
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor, SuperExecAuthHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient

pytestmark = pytest.mark.hostile
METHOD = "/flwr.proto.Runtime/AcquireTask"


def hop(federation, number):
    return federation.folder / "volumes" / f"client-{number}-hop"


def ask(federation, certificate, secret=None):
    """Ask client 0's SuperNode for work, as its executor does."""
    port = federation.running().ports["supernode-0:9094"]
    interceptors = [RuntimeVersionHttpInterceptor(component_name="SuperExec")]
    if secret is not None:
        interceptors.append(
            SuperExecAuthHttpInterceptor(
                master_secret=secret, protected_methods=frozenset({METHOD})
            )
        )
    client = RuntimeHttpClient.from_server_address(
        server_address=f"127.0.0.1:{port}",
        insecure=certificate is None,
        root_certificates=certificate.read_bytes() if certificate else None,
        interceptors=interceptors,
    )
    return client.AcquireTask(AcquireTaskRequest(supported_task_types=["none-of-ours"]))


def test_its_own_executor_is_answered(federation):
    own = hop(federation, 0)
    answer = ask(federation, own / "supernode.crt", (own / "executor.secret").read_bytes())
    assert not answer.token


@pytest.mark.parametrize("secret", [None, b"0" * 64])
def test_a_stranger_on_the_same_machine_gets_no_work(federation, secret):
    with pytest.raises(httpx.HTTPStatusError, match="401|403"):
        ask(federation, hop(federation, 0) / "supernode.crt", secret)


def test_another_clients_executor_gets_no_work(federation):
    theirs = (hop(federation, 1) / "executor.secret").read_bytes()
    with pytest.raises(httpx.HTTPStatusError, match="401|403"):
        ask(federation, hop(federation, 0) / "supernode.crt", theirs)


def test_nothing_is_said_in_plain_text(federation):
    with pytest.raises(httpx.HTTPError):
        ask(federation, None, (hop(federation, 0) / "executor.secret").read_bytes())


@pytest.mark.parametrize("other", ["trust/ca.crt", "client-1-hop/supernode.crt"])
def test_nobody_elses_certificate_passes_for_its_supernode(federation, other):
    certificate = federation.folder / "volumes" / other
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        ask(federation, certificate, (hop(federation, 0) / "executor.secret").read_bytes())
