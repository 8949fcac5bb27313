"""Checks of one node among several, after a start and now and then."""

from typing import TYPE_CHECKING, Final

from waypost.core.queues import OutgoingQueue
from waypost.core.serialization import size_in_bytes
from waypost.core.stored_message import sequence_of
from waypost.errors import RecordDamaged
from waypost.node.damaged import size_of
from waypost.node.node import Node
from waypost.node.transactional_acks import peer_of
from waypost.sim.marks import Marks
from waypost.sim.net.facts import DEAD, JOURNAL, facts_of, role_of
from waypost.sim.violation import Violation

if TYPE_CHECKING:
    from waypost.sim.net.host import NetworkHost
    from waypost.sim.net.ledger import Ledger

_AWAITING: Final = "awaiting_final_ack$"


def holds_acks(node: Node) -> bool:
    """Whether acknowledgments of transactional messages are on their way out."""
    outgoing = node.manager.collection.outgoing.items()
    return any(len(queue.positions) and peer_of(name) is not None for name, queue in outgoing)


def check_start(node: Node, host: str, ledger: "Ledger") -> None:
    """Check that every durable message is there again, and nothing else. Expired messages may go at once."""
    due = ledger.places_of(host)
    # A FinalAck that waited may count with the settings of this start: it ends the wait of its message.
    begun = facts_of(node.messages.batch, node, (0, 0))
    ended = [first for first, _ in begun.gone if role_of(node.manager, first[0]) == _AWAITING]
    due = {place: sent for place, sent in due.items() if place not in ended}
    due |= {put.place: None for put in begun.puts if put.role in (JOURNAL, *DEAD)} if ended else {}
    found = {(number, each) for number, queue in node.manager.collection.by_number.items() for each in queue.positions}
    extra = sorted(found - due.keys())
    if extra:
        raise Violation(f"{host} starts with the messages {extra}, but these messages are not durable")
    lost = [
        place
        for place, sent in due.items()
        if place not in found and not (sent and (sent.may_expire or sent.is_damaged))
    ]
    if lost:
        raise Violation(f"{host} starts without the messages {lost}, but these messages are durable")
    check_counts(node, host)


def check_counts(node: Node, host: str) -> None:
    """Check that bytes and numbers correspond to the messages."""
    total = 0
    for number, queue in node.manager.collection.by_number.items():
        size = sum(_size(node, number, lookup_id) for lookup_id in queue.positions)
        if size != queue.total_bytes:
            raise Violation(
                f"the queue {queue} of {host} reports {queue.total_bytes} bytes, "
                f"but the total size of its messages is {size} bytes"
            )
        total += size
    if total != node.manager.total_bytes:
        raise Violation(
            f"{host} reports {node.manager.total_bytes} bytes, but the total size of its messages is {total} bytes"
        )


def _size(node: Node, queue: int, lookup_id: int) -> int:
    try:
        return size_in_bytes(node.messages.get(queue, lookup_id))
    except RecordDamaged as damage:
        # No reader has asked for it yet, and it counts as before.
        return size_of(damage.value, lookup_id)


def check_sessions(node: Node, host: str, eager: int = 0) -> None:
    """Check that windows are kept, memory is bounded, and sent messages of transactions wait for acknowledgments.

    `eager` is the window of senders that use their own, or 0.
    """
    network = node.network
    assert network is not None
    for session in network.open_sessions:
        count, window = session.unacked_message_count, max(network.settings.window_size, eager)
        if count > window:
            raise Violation(f"{host}: expected at most {window} messages in flight in a session, but found {count}")
        is_held = session.inlet.is_held and not network.arrivals.is_checking(session)
        if is_held and session.counts.unacked_received_msg_count <= session.window_size:
            raise Violation(
                f"{host} reads nothing from a session, although no messages of the session "
                "are being checked, and the unacknowledged messages of the session fit into the window"
            )
    sessions = {id(session) for session in network.sessions}
    for queue in node.manager.collection.outgoing.values():
        link = queue.link
        if link is None:
            continue
        if link.session is not None and id(link.session) not in sessions:
            raise Violation(f"the queue {queue} of {host} still has a closed session")
        if len(link.sequence) > len(queue.positions):
            raise Violation(f"{host} keeps records of messages that are no longer in {queue}")
        if len(link.outbox.sent) > len(queue.positions):
            raise Violation(f"{host} still has records of sent messages that are no longer in {queue}")
        for sent in link.outbox.sent.values():
            if sent.is_transactional:
                _, number, _ = sequence_of(sent.message.packet)
                if link.sequence.lookup_id_of(number) != sent.lookup_id:
                    raise Violation(f"{host} has sent message {number} of {queue}, but expects no acknowledgment")
    history = node.sequences._history  # noqa: SLF001, memory is what is checked
    size = network.settings.duplicate_history_size
    if history is not None and history.largest_share > size:
        raise Violation(
            f"{host}: expected at most {size} identifiers of messages from one address, "
            f"but found {history.largest_share}"
        )


def check_rest(node: Node, host: str) -> None:
    """When nothing is under way any more: check that nothing is kept in memory for it."""
    network = node.network
    assert network is not None
    if network._sessions.touched:  # noqa: SLF001
        raise Violation(f"{host} has changes to write, but does not write these changes")


def mark(node: Node, marks: Marks) -> None:
    """Count the rare branches that this node has taken in its present life."""
    network = node.network
    assert network is not None
    statistics = network.statistics
    if any(session.unacked_message_count >= session.window_size for session in network.open_sessions):
        marks.sometimes("a full session window")
    if statistics.duplicates_discarded:
        marks.sometimes("a discarded duplicate")
    if statistics.connections_failed:
        marks.sometimes("a connection that failed")
    if statistics.messages_resent:
        marks.sometimes("transactional messages that are sent again")
    for queue in node.manager.collection.outgoing.values():
        link = queue.link
        if link is None:
            continue
        if link.is_open and link.next_hop_indexer:
            marks.sometimes("a connection to an alternative next hop")
        if link.sequence.resend_count > 1:
            marks.sometimes("transactional messages that are sent again more than once")


def honest_outgoing(host: "NetworkHost") -> list[OutgoingQueue]:
    """The outgoing queues to hosts of the simulation. Strangers also name addresses without a host."""
    outgoing = host.node.manager.collection.outgoing.items()
    return [queue for name, queue in outgoing if host.simulation.is_of_a_host(name)]


def outgoing_messages(host: "NetworkHost") -> list[tuple[OutgoingQueue, int]]:
    return [(queue, each) for queue in honest_outgoing(host) for each in queue.positions]
