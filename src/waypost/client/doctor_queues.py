"""Checks of what is in the queues: quotas that are nearly reached, dead-letter, aborted and old messages."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from waypost.api.status import Check
from waypost.core.position_events import KILOBYTE
from waypost.core.queues import OutgoingQueue, Queue
from waypost.errors import StoreError
from waypost.node.following import oldest_arrival
from waypost.node.node import Node
from waypost.wire.format_names import Suffix
from waypost.wire.path_names import QueueKind
from waypost.wire.property_values import UNLIMITED

# From this part of a quota on it is nearly reached.
NEARLY: Final = 0.8
# Transactions that received a message and were aborted, from which on something is wrong with the message.
_MANY_ABORTS: Final = 5
# Messages of a queue whose aborts are counted. One that is given back is among the first again.
_FIRST: Final = 10
_DAY: Final = 86_400
_OLD: Final = 7 * _DAY
_SHOWN: Final = 3


class Finding(Enum):
    """The names of the checks."""

    QUOTA = "queue quotas"
    ABORTS = "aborted messages"
    AGE = "old messages"


@dataclass(frozen=True, slots=True)
class Found:
    """Something about a queue that somebody should know, in words: `amount` says how bad it is."""

    finding: Finding
    amount: float
    words: str


def queues_to_look_at(node: Node) -> list[Queue]:
    """Queues of applications, with their subqueues and journals."""
    return [
        queue
        for queue in node.manager.collection.by_number.values()
        if queue.queue_type is not QueueKind.SYSTEM and not isinstance(queue, OutgoingQueue)
    ]


def look_at(node: Node, now: float, queues: Iterable[Queue]) -> Iterator[Found]:
    """Findings in these queues. `now` is in seconds since 1970. A queue that is deleted meanwhile is skipped."""
    for queue in queues:
        if queue.is_deleted or not len(queue.positions):
            continue
        name = _name(node, queue)
        yield from _quota(queue, name)
        if queue.is_journal:
            # A journal keeps received messages on purpose.
            continue
        yield from _aborts(node, queue, name)
        arrival = oldest_arrival(node, queue)
        if arrival is not None and now - arrival > _OLD:
            days = int((now - arrival) // _DAY)
            yield Found(Finding.AGE, days, f"{name} ({days} days)")


def queue_checks(node: Node, found: Sequence[Found]) -> Iterator[Check]:
    """Checks of the findings, one for each kind."""
    yield _check(
        found,
        Finding.QUOTA,
        "no queue holds more than 80 % of its quota",
        "queues hold more than 80 % of their quota",
        "receive or purge messages, or raise the quota with `waypost queue set NAME --quota-kb N`",
    )
    yield _dead_letters(node)
    yield _check(
        found,
        Finding.ABORTS,
        "no message at the head of a queue was returned by 5 or more aborted transactions",
        "messages were returned to their queue by 5 or more aborted transactions",
        "`waypost peek NAME --all` shows these messages; `waypost message move NAME MESSAGE 'NAME;poison'` moves a "
        "message to a subqueue",
    )
    yield _check(
        found,
        Finding.AGE,
        "no message has been waiting in a queue for more than 7 days",
        "messages have been waiting in queues for more than 7 days",
        "check whether a program receives from these queues; `waypost explain NAME` explains the state of a queue",
    )


def _check(found: Sequence[Found], finding: Finding, well: str, wrong: str, hint: str) -> Check:
    worst = sorted((each for each in found if each.finding is finding), key=lambda each: -each.amount)
    if not worst:
        return Check(finding.value, True, well)
    shown = ", ".join(each.words for each in worst[:_SHOWN])
    more = f" and {len(worst) - _SHOWN} more" if len(worst) > _SHOWN else ""
    return Check(finding.value, False, f"{wrong}: {shown}{more}", hint)


def _quota(queue: Queue, name: str) -> Iterator[Found]:
    attributes = queue.attributes
    if queue.is_journal:
        assert queue.parent is not None
        attributes = queue.parent.attributes
    quota = attributes.journal_quota if queue.is_journal else attributes.quota
    if quota == UNLIMITED or queue.total_bytes <= quota * KILOBYTE * NEARLY:
        return
    part = queue.total_bytes / (quota * KILOBYTE) if quota else 1.0
    yield Found(Finding.QUOTA, part, f"{name} ({part:.0%} of {quota} KB)")


def _aborts(node: Node, queue: Queue, name: str) -> Iterator[Found]:
    awaited = node.messages.read_token
    try:
        for message in node.messages.get_all(queue.number, queue.positions.first_available(_FIRST)):
            if message.abort_count >= _MANY_ABORTS:
                words = f"{name}, lookup_id {message.lookup_identifier} ({message.abort_count} times)"
                yield Found(Finding.ABORTS, message.abort_count, words)
    except StoreError:
        # The message is unreadable, which other checks report.
        return
    finally:
        node.messages.read_token = awaited


def _dead_letters(node: Node) -> Check:
    system = node.manager.collection.system
    counts = {
        name: len(system[suffix].positions)
        for suffix, name in ((Suffix.DEADLETTER, "system$;deadletter"), (Suffix.DEADXACT, "system$;deadxact"))
    }
    if not any(counts.values()):
        return Check("dead-letter messages", True, "the dead-letter queues are empty")
    name = max(counts, key=lambda name: counts[name])
    shown = ", ".join(f"{count} in {name}" for name, count in counts.items() if count)
    hint = (
        f"`waypost peek '{name}' --all` shows these messages; `waypost message resend '{name}'` sends the messages "
        f"again, and `waypost queue purge '{name}'` deletes the messages"
    )
    return Check("dead-letter messages", False, f"messages were not delivered or not received in time: {shown}", hint)


def _name(node: Node, queue: Queue) -> str:
    path = str(queue.pathname).removeprefix(f"{node.manager.identity.computer_name}\\").removeprefix("private$\\")
    return f"{path};journal" if queue.is_journal else path
