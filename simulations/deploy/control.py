"""The SuperLink's Control API: submit a run, see how it goes, let a client in.

`flwr run --stream` ends with 0 even if the run failed; this asks for the run's real status.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from fedpriv.clients.protection.bundle import digest_of
from fedpriv.errors import WorkFailed
from fedpriv.flower import (
    ControlHttpClient,
    Fab,
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    RuntimeVersionHttpInterceptor,
    StartRunRequest,
    StopRunRequest,
    StreamLogsRequest,
    UnregisterNodeRequest,
    fab_to_proto,
    run_from_proto,
    user_config_to_proto,
)

FINISHED, COMPLETED = "finished", "completed"


@dataclass(frozen=True)
class Status:
    """How a run is."""

    run: int
    status: str  # pending, starting, running or finished
    outcome: str  # completed, failed or stopped, once finished
    details: str = ""

    @property
    def finished(self) -> bool:
        return self.status == FINISHED

    @property
    def good(self) -> bool:
        return self.outcome == COMPLETED

    def __str__(self) -> str:
        return f"{self.status}:{self.outcome}" if self.outcome else self.status


class Control:
    """A SuperLink as its operator sees it."""

    def __init__(self, address: str, root_certificates: Path | None) -> None:
        self.address = address
        self.client = ControlHttpClient.from_server_address(
            server_address=address,
            insecure=root_certificates is None,
            root_certificates=root_certificates.read_bytes() if root_certificates else None,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
        )

    def start(self, bundle: bytes, run_config: Mapping[str, Any]) -> int:
        """Submit a run; its number."""
        fab = Fab(digest_of(bundle), bundle, {})
        request = StartRunRequest(
            fab=fab_to_proto(fab), override_config=user_config_to_proto(dict(run_config))
        )
        with self.answering("The run was not accepted"):
            answer = self.client.StartRun(request)
        if not answer.HasField("run_id"):
            raise WorkFailed(f"The run was not accepted: {answer.note or 'no reason given'}.")
        return int(answer.run_id)

    def stop(self, run: int) -> None:
        with self.answering(f"Run {run} could not be stopped"):
            self.client.StopRun(StopRunRequest(run_id=run))

    def runs(self) -> list[Status]:
        """All runs of this SuperLink, the oldest first."""
        with self.answering("The runs cannot be listed"):
            answer = self.client.ListRuns(ListRunsRequest())
        runs = sorted(map(run_from_proto, answer.run_dict.values()), key=lambda run: run.pending_at)
        return [
            Status(run.run_id, run.status.status, run.status.sub_status, run.status.details)
            for run in runs
        ]

    def status(self, run: int) -> Status:
        found = [status for status in self.runs() if status.run == run]
        if not found:
            raise WorkFailed(f"The SuperLink at {self.address} knows no run {run}.")
        return found[0]

    def wait(
        self,
        run: int,
        look: Callable[[], bool] = lambda: True,
        every: float = 1.0,
        patience: float = 120.0,
    ) -> Status:
        """The status when the run has finished, or when `look` says to wait no longer.

        A SuperLink that is being restarted is waited for.
        """
        seen = time.monotonic()
        while True:
            try:
                status = self.status(run)
                seen = time.monotonic()
            except WorkFailed:
                if time.monotonic() - seen > patience:
                    raise
            else:
                if not look() or status.finished:
                    return status
            time.sleep(every)

    def log(self, run: int) -> Iterator[str]:
        """What the ServerApp of a run has written; follows it until the run ends."""
        with self.answering(f"The log of run {run} cannot be read"):
            for part in self.client.StreamLogs(StreamLogsRequest(run_id=run, after_timestamp=0.0)):
                yield part.log_output

    def nodes(self) -> list[tuple[int, str, bytes]]:
        """Node id, status and public key of every client ever let in."""
        with self.answering("The clients cannot be listed"):
            answer = self.client.ListNodes(ListNodesRequest())
        return [(node.node_id, node.status, node.public_key) for node in answer.nodes_info]

    def register(self, public_key: bytes) -> int:
        """Let the client with this key in; its node id."""
        with self.answering("The client could not be registered"):
            return int(self.client.RegisterNode(RegisterNodeRequest(public_key=public_key)).node_id)

    def unregister(self, node: int) -> None:
        """Let a client in no longer."""
        with self.answering(f"Client {node} could not be removed"):
            self.client.UnregisterNode(UnregisterNodeRequest(node_id=node))

    @contextmanager
    def answering(self, what: str) -> Iterator[None]:
        try:
            yield
        except httpx.HTTPStatusError as error:
            raise WorkFailed(f"{what}: {error.response.text or error}") from error
        except httpx.HTTPError as error:
            raise WorkFailed(
                f"{what}: the SuperLink at {self.address} does not answer ({error}). "
                "`fedpriv deploy status` says what runs."
            ) from error
        except Exception as error:
            if type(error).__module__.startswith("flwr."):
                raise WorkFailed(f"{what}: {error}") from error
            raise
