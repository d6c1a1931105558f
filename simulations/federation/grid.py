"""SimulationGrid: Flower's Grid over virtual clients; messages go straight to a backend."""

import logging
import math
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid

from fedpriv.flower import Backend, Run, TaskIdentity
from fedpriv.progress import wanted_while
from fedpriv.simulations.federation.contexts import RUN_ID, SERVER_NODE
from fedpriv.simulations.federation.out_of_memory import ran_out
from fedpriv.simulations.federation.ray_life import RayLost

log = logging.getLogger(__name__)
FAILED = 450  # the code of an error reply: the client broke down
LOOK = 0.2  # seconds between two looks at whether to go on


class SimulationGrid(Grid):
    """The nodes are contexts; a message to one is a call of the backend with its context."""

    def __init__(
        self,
        backend: Backend,
        contexts: dict[int, Context],
        on_reply: Callable[[int], None] = lambda node: None,
        going_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self.backend, self.contexts, self.on_reply = backend, contexts, on_reply
        self.going_on = going_on
        self.touched: set[int] = set()  # nodes whose state may have changed since it was saved
        self._run = Run.create_empty(RUN_ID)
        self._replies: dict[str, Message] = {}
        self._workers = ThreadPoolExecutor(max_workers=max(1, backend.num_workers))
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN_ID, SERVER_NODE, 1

    def set_run(self, run: Run) -> None:
        self._run = run

    @property
    def run(self) -> Run:
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        messages = list(messages)
        for message in messages:
            message.metadata.__dict__["_message_id"] = uuid.uuid4().hex
        replies = self.send_and_receive(messages)
        self._replies |= {reply.metadata.reply_to_message_id: reply for reply in replies}
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(key) for key in list(message_ids) if key in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """The replies that came in time; fewer of them once `going_on` says stop.

        Clients that ran out of memory beside others are asked again, one after the other.
        """
        if self.backend.num_workers <= 1:
            return [self.answered(message) for message in messages if self.going_on()]
        ends = math.inf if timeout is None else time.monotonic() + timeout
        asked = list(messages)
        came = self.gathered(asked, ends)
        busy = len(came) < len(asked)  # somebody is late, and may be at work still
        return [
            self.alone(message, reply, ends) if ran_out(reply) and not busy else reply
            for message, reply in came
        ]

    def gathered(self, asked: Sequence[Message], ends: float) -> list[tuple[Message, Message]]:
        """Messages with their replies, of those that came before `ends` and before a stop."""
        futures = {self._workers.submit(self.answered, message): message for message in asked}
        found: list[tuple[Message, Message]] = []
        waiting = set(futures)
        while waiting and self.going_on():
            left = min(LOOK, ends - time.monotonic())
            if left <= 0:
                break
            done, waiting = wait(waiting, timeout=left, return_when=FIRST_COMPLETED)
            found += [(futures[future], future.result()) for future in done]
        for late in waiting:
            late.cancel()
        return found

    def alone(self, message: Message, failed: Message, ends: float) -> Message:
        """The reply of a client that ran out of memory, asked again while nobody else works.

        The failed one stands where there is no time for that.
        """
        if time.monotonic() >= ends or not self.going_on():
            return failed
        partition = self.contexts[message.metadata.dst_node_id].node_config["partition-id"]
        log.warning("client %s ran out of memory beside others and is tried again alone", partition)
        getattr(self.backend, "make_room", lambda: None)()
        return next((reply for _, reply in self.gathered([message], ends)), failed)

    def answered(self, message: Message) -> Message:
        """The client's reply; a client that breaks down answers with an error."""
        node = message.metadata.dst_node_id
        try:
            with wanted_while(self.going_on):
                reply, self.contexts[node] = self.backend.process_message(
                    message, self.contexts[node]
                )
        except RayLost:  # no client's fault, and no client can answer any more
            raise
        except (Exception, SystemExit) as error:
            reply = Message(Error(FAILED, f"{type(error).__name__}: {error}"), reply_to=message)
        if not self.going_on():  # the client may have stopped in the middle of its training
            reply = Message(Error(FAILED, "the run was stopped"), reply_to=message)
        self.touched.add(node)
        self.on_reply(node)
        return reply

    def close(self) -> None:
        self._workers.shutdown(wait=False, cancel_futures=True)
        self.backend.terminate()
        self._workers.shutdown()  # one that is asking Ray when Ray is shut down would never end
