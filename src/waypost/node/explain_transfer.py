"""Explain the transfer of an outgoing queue: state, connections, acknowledgments, retries.

Serves MS-MQDMPR 3.1.1.3 and 3.1.1.4, as MS-MQMQ 2.3.12 shows them to an administrator.
"""

from itertools import groupby
from typing import Final

from waypost.clock import Now
from waypost.core.queues import OutgoingQueue, OutgoingQueueState
from waypost.guid import guid_text
from waypost.node.explain_words import at, counted, moment, span
from waypost.node.network.routing_loops import Loop
from waypost.wire.management import ConnectionEvent, ConnectionStatus

State = OutgoingQueueState

# Number of last connection events to name; repetitions in a row count as one.
_HAPPENINGS: Final = 3

_STATES: Final = {
    State.CONNECTED: "The queue is connected to {hops}.",
    State.DISCONNECTED: "The queue is disconnected.",
    State.DISCONNECTING: "The connection is being closed.",
    State.INACTIVE: "The queue is inactive: it has no connection, and does not try to connect.",
    State.LOCKED: "The queue is locked: with HardenedSecurity, this computer sends messages only over HTTP.",
    State.NEED_VALIDATION: "The address of the destination is not known yet.",
    State.WAITING: "The queue waits for a connection to {hops}.",
    State.ON_HOLD: "The queue is paused: `waypost queue resume` resumes sending.",
}

# MS-MQMQ 2.3.12.25, as the part of a sentence after the time.
_STATUSES: Final = {
    ConnectionStatus.IN_PROGRESS: "a connection attempt began",
    ConnectionStatus.ESTABLISH_PACKET_RECEIVED: (
        "the other queue manager answered, but its parameters have not arrived yet"
    ),
    ConnectionStatus.READY: "a session was established",
    ConnectionStatus.UNKNOWN_FAILURE: "the connection failed",
    ConnectionStatus.PING_FAILURE: "the other queue manager did not accept the ping",
    ConnectionStatus.CREATE_SOCKET_FAILURE: "this computer could not create a socket",
    ConnectionStatus.BIND_SOCKET_FAILURE: "this computer could not use its local address",
    ConnectionStatus.CONNECT_SOCKET_FAILURE: "no program accepted the TCP connection",
    ConnectionStatus.TCP_NOT_ENABLED: "TCP is not available",
    ConnectionStatus.SEND_FAILURE: "the connection broke during a send",
    ConnectionStatus.NOT_READY_FAILURE: "the session did not become ready",
    ConnectionStatus.DNS_FAILURE: "the name of the host is unknown",
    ConnectionStatus.SERVER_CERTIFICATE_FAILURE: "a message could not be encrypted",
    ConnectionStatus.CONNECTION_LIMIT_REACHED: "the limit of connections was reached",
    ConnectionStatus.CONNECTION_REFUSED: "the other queue manager refused the session",
    ConnectionStatus.NO_ROUTING_DATA: "no route to the destination is known",
    ConnectionStatus.LOW_MEMORY: "the memory was exhausted",
}


def add_transfer(sentences: list[str], facts: dict[str, object], queue: OutgoingQueue, now: Now) -> None:
    """Add what keeps the messages of an outgoing queue from leaving."""
    facts.update(state=queue.state.name.lower(), next_hops=list(queue.next_hops))
    sentences.append(_STATES[queue.state].format(hops=", ".join(queue.next_hops) or "its destination"))
    _add_history(sentences, facts, queue)
    _add_link(sentences, facts, queue, now)
    _add_acknowledgments(sentences, facts, queue, now)


def _add_history(sentences: list[str], facts: dict[str, object], queue: OutgoingQueue) -> None:
    facts["connections"] = [_event(event) for event in queue.connection_history]
    runs = [list(run) for _, run in groupby(queue.connection_history, lambda event: (event.status, event.addresses))]
    for run in runs[-_HAPPENINGS:]:
        last = run[-1]
        addresses = f" ({', '.join(last.addresses)})" if last.addresses else ""
        often = "" if len(run) == 1 else f", {len(run)} times since {at(run[0].time)}"
        sentences.append(f"At {at(last.time)}, {_STATUSES[last.status]}{addresses}{often}.")


def add_loop(sentences: list[str], facts: dict[str, object], loop: Loop) -> None:
    """Add that messages of the queue come back."""
    facts["loop"] = {
        "guid": guid_text(loop.guid),
        "address": loop.address,
        "count": loop.count,
        "time": moment(loop.time),
    }
    came = "A message came" if loop.count == 1 else f"{loop.count} messages came"
    sentences.append(
        f"{came} back from the queue manager {guid_text(loop.guid)} at {loop.address}, most recently at "
        f"{at(loop.time)}: the route of that queue manager to the destination leads back to this computer."
    )


def _event(event: ConnectionEvent) -> dict[str, object]:
    return {
        "status": event.status.name.lower(),
        "time": moment(event.time),
        "error": f"{event.error & 0xFFFF_FFFF:#010x}",
        "addresses": list(event.addresses),
    }


def _add_link(sentences: list[str], facts: dict[str, object], queue: OutgoingQueue, now: Now) -> None:
    # A queue manager inside a program transfers nothing and has no links.
    link = queue.link
    if link is None:
        if queue.state is State.INACTIVE and len(queue.positions):
            sentences.append("The queue manager has not tried to connect since it started.")
        return
    facts["last_error"] = link.last_error
    if link.last_error and queue.state is not State.CONNECTED:
        sentences.append(f"The last attempt failed: {link.last_error}.")
    if link.next_retry is not None:
        left = max(link.next_retry - now.monotonic, 0)
        facts["retry_in_s"] = round(left, 3)
        sentences.append(f"The next attempt is in {span(left)}.")


def _add_acknowledgments(sentences: list[str], facts: dict[str, object], queue: OutgoingQueue, now: Now) -> None:
    info = queue.outgoing_transfer_info
    facts.update(
        unacknowledged=info.no_ack_count,
        unread=info.no_read_count,
        last_acknowledged=info.last_ack_time or None,
        resend_count=info.resend_count,
        resend_in_s=max(info.resend_time - int(now.wall), 0) if info.resend_time else None,
    )
    if info.no_ack_count:
        was = "was" if info.no_ack_count == 1 else "were"
        sentence = f"{counted(info.no_ack_count, 'transactional message')} {was} sent, but not acknowledged yet"
        last = f"; the last order acknowledgment arrived at {at(info.last_ack_time)}" if info.last_ack_time else ""
        sentences.append(f"{sentence}{last}.")
    if info.no_ack_count and info.resend_time:
        left = span(info.resend_time - now.wall)
        sentences.append(
            f"These messages are sent again in {left}. They were sent {counted(info.resend_count, 'time')} so far."
        )
    if info.no_read_count:
        them = "it" if info.no_read_count == 1 else "them"
        sentences.append(
            f"{counted(info.no_read_count, 'transactional message')} arrived, but no application has received {them} "
            "yet."
        )
