"""One exchange: which reply belongs to which message, and what is wrong with the others."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from flwr.app import Message, MetricRecord

from fedpriv.screening import said
from fedpriv.wire import METRICS, records_in

Name = Callable[[int], int | str]  # what to call a node
Why = Callable[[Message], str | None]  # what is wrong with a reply, in words
Failure = dict[str, Any]


def paired(
    messages: Sequence[Message], replies: Sequence[Message], name: Name
) -> tuple[dict[int, Message], list[Failure]]:
    """The reply of every node that was asked, and what else came in.

    A reply belongs to the message it names, and its sender must be the node that was asked. A
    simulation gives its messages no names; there the sender alone decides. Flower itself answers
    for a node whose reply was lost, with an error.
    """
    asked = {message.metadata.dst_node_id: message for message in messages}
    named = {m.metadata.message_id: m.metadata.dst_node_id for m in messages}
    found: dict[int, Message] = {}
    odd: list[Failure] = []
    for reply in replies:
        sender, about = reply.metadata.src_node_id, reply.metadata.reply_to_message_id
        node = named.get(about) if about else sender
        if node is None or node not in asked or asked[node].metadata.message_id != about:
            odd.append({"client": name(sender), "why": "it answered what it was not asked"})
        elif sender != node and not reply.has_error():
            odd.append({"client": name(sender), "why": f"it answered for client {name(node)}"})
        elif node in found:
            odd.append({"client": name(node), "why": "it answered twice; the first one counts"})
        else:
            found[node] = reply
    return found, odd


def sorted_out(
    messages: Sequence[Message],
    replies: Sequence[Message],
    name: Name,
    why_unfit: Why,
    no_answer: str = "no answer",
) -> tuple[list[Message], list[tuple[Failure, int]], list[Failure]]:
    """Usable replies in the order of the messages, failures by node, and what else is odd."""
    answers, odd = paired(messages, replies, name)
    good: list[Message] = []
    failed: list[tuple[Failure, int]] = []
    for message in messages:
        node = message.metadata.dst_node_id
        why = no_answer if node not in answers else why_of(answers[node], why_unfit)
        if why is None:
            good.append(answers[node])
        else:
            failed.append(({"client": name(node), "why": why}, node))
    return good, failed, odd


def why_of(reply: Message, why_unfit: Why) -> str | None:
    """What is wrong with a reply; one that breaks the very look at it is wrong by that."""
    try:
        return why_unfit(reply)
    except Exception as error:
        return f"it cannot be read: {type(error).__name__}: {said(error)}"


def evened(replies: Sequence[Message], tell: Callable[[int, str], None]) -> Sequence[Message]:
    """The replies with the metrics that all of them have, as Flower's strategies need it.

    `tell` is told of a node whose metrics differ from those of most others.
    """
    names = [set(records_in(reply.content, MetricRecord)[METRICS]) for reply in replies]
    common = set.intersection(*names) if names else set()
    seen = Counter(name for each in names for name in each)
    usual = {name for name, times in seen.items() if 2 * times > len(replies)}
    for reply, own in zip(replies, names, strict=True):
        odd = sorted(own ^ usual)
        if odd:
            tell(reply.metadata.src_node_id, f"others have other metrics: {odd[:3]} are not read")
        for name in own - common:
            del records_in(reply.content, MetricRecord)[METRICS][name]
    return replies
