"""Checks of the rights on queues."""

from collections.abc import Iterator
from typing import Final

from waypost.api.status import Check
from waypost.core.queues import OutgoingQueue, Queue
from waypost.node.access import queue_name
from waypost.node.node import Node
from waypost.security.access import UNNAMED
from waypost.wire.access_masks import QueueAccess
from waypost.wire.path_names import QueueKind

_SHOWN: Final = 3


def rights_checks(node: Node) -> Iterator[Check]:
    """The checks of the rights on queues."""
    queues = [
        queue
        for queue in node.manager.queues.values()
        if queue.queue_type is not QueueKind.SYSTEM and not isinstance(queue, OutgoingQueue)
    ]
    if node.security.has_users:
        yield _open_queues(node, queues)
    yield _authenticated(node, queues)
    yield _locked(node)
    yield _refusals(node)


def _open_queues(node: Node, queues: list[Queue]) -> Check:
    found = [queue for queue in queues if node.access.may_as(UNNAMED, queue, QueueAccess.MQSEC_RECEIVE_MESSAGE)]
    if not found:
        return Check("open queues", True, "no queue lets everyone receive")
    return Check(
        "open queues",
        False,
        f"everyone may receive from {_named(found)}",
        "run `waypost queue acl NAME --grant USER:send,receive` for each user who needs the queue, and then run "
        "`waypost queue acl NAME --revoke everyone`",
    )


def _authenticated(node: Node, queues: list[Queue]) -> Check:
    signed = [queue for queue in queues if queue.attributes.authentication]
    found = [queue for queue in signed if node.access.may_as(UNNAMED, queue, QueueAccess.MQSEC_WRITE_MESSAGE)]
    if not found:
        return Check("authenticated queues", True, "no queue that accepts only signed messages lets everyone send")
    return Check(
        "authenticated queues",
        False,
        f"everyone may send to {_named(found)}, so these queues also accept signed messages that name no sender",
        "grant the right to send only to the users who need it: `waypost queue acl NAME --grant USER:send --deny "
        "anonymous:send`",
    )


def _locked(node: Node) -> Check:
    found = node.access.locked()
    if not found:
        return Check("locked queues", True, "a known account can change the rights on every queue")
    sentence = f"no known account can change the rights on {_named(found)}"
    return Check("locked queues", False, sentence, node.access.way_out(found[0]))


def _refusals(node: Node) -> Check:
    count = node.access.refused.total()
    if not count:
        return Check("refusals", True, "since the start, no request was refused because of a missing right")
    were = "1 request was" if count == 1 else f"{count} requests were"
    sentence = f"since the start, {were} refused because of a missing right"
    for name, last in reversed(node.access.last_refusals.items()):
        if not last.problem:
            sentence += f"; the last request was from {last.who}, who does not have the right {last.right} on {name}"
            break
    return Check("refusals", True, sentence)


def _named(queues: list[Queue]) -> str:
    more = f" and {len(queues) - _SHOWN} more queues" if len(queues) > _SHOWN else ""
    return ", ".join(queue_name(queue) for queue in queues[:_SHOWN]) + more
