"""The operations on transactional sequences, and on addresses with believed acknowledgments."""

from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final

from waypost.api.excerpt import excerpt
from waypost.api.names import format_name, short_name
from waypost.api.operations import AdmitAddress, ListAdmitted, ListSequences, ResetSequences, RevokeAddress
from waypost.api.sequences import (
    DIRECTIONS,
    Admitted,
    AdmittedAddress,
    AdmittedAddresses,
    SequenceInfo,
    SequencePage,
    SequenceReset,
)
from waypost.clock import Now
from waypost.core.queues import OutgoingQueue, Queue
from waypost.errors import DecodeError, InvalidParameter, QueueDeleted
from waypost.guid import NULL_GUID, guid_text, parse_guid
from waypost.node.explain_sequences import refused_sentence
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.sequence_admin import Line, Page, Reset, SequenceAdmin, Wanted
from waypost.peers import peer_of
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import TxSequenceId
from waypost.wire.ip_addresses import plain_address

_SOME: Final = 3


class SequenceCalls:
    """Operations on sequences of one node."""

    __slots__ = ("_admin", "_computer", "_node")

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        self._admin: Final = SequenceAdmin(node)
        self._computer: Final = node.manager.identity.computer_name

    def list_sequences(self, call: Call, operation: ListSequences) -> None:
        """List sequences of one direction, from a place on."""
        direction = operation.direction
        if direction not in DIRECTIONS:
            raise InvalidParameter(f"`direction` must be one of {', '.join(DIRECTIONS)}, not {excerpt(direction)}")
        wanted = self._wanted(operation.queue or None, operation.source or None, operation.address or None)
        place = _place(operation.after)
        with self._node.kernel.operation(call.now):
            if direction == "out":
                page = self._admin.outgoing(wanted)
            elif direction == "refused":
                page = self._admin.refused(wanted, call.now)
            else:
                page = self._admin.incoming(wanted, place, call.now)
            self._reply(call, self._page(page, call.now))

    def reset(self, call: Call, operation: ResetSequences) -> None:
        """Begin sequences again, from a place on. A trial changes nothing."""
        self._node.kernel.check_store()
        is_trial = bool(operation.trial)
        wanted = self._wanted(operation.queue, operation.source, operation.address, operation.older_than_s)
        place = _place(operation.after)
        if wanted == Wanted():
            raise InvalidParameter("a reset requires at least one of the options queue, source, address and age")
        queue = None if wanted.queue is None else self._admin.find(wanted.queue)
        with self._node.kernel.operation(call.now):
            if isinstance(queue, OutgoingQueue):
                if wanted != Wanted(wanted.queue):
                    raise InvalidParameter(
                        f"{queue} is an outgoing queue; the options source, address and age are not allowed for an "
                        "outgoing queue"
                    )
                self._reset_outgoing(call, queue, is_trial=is_trial)
            else:
                reset = self._admin.reset_incoming(wanted, place, call.now, is_trial=is_trial)
                self._reply_reset(call, reset, _incoming_warning(wanted))

    def _reset_outgoing(self, call: Call, queue: OutgoingQueue, *, is_trial: bool) -> None:
        """Reset a queue. The answer comes when the last part is done."""

        def then(reset: Reset) -> None:
            if queue.is_deleted:
                self._node.kernel.fail(call.request, QueueDeleted(f"{queue} was deleted during the reset"))
            else:
                self._reply_reset(call, reset, _outgoing_warning(reset, queue))

        if is_trial:
            self._admin.try_outgoing(queue, then)
        else:
            self._admin.reset_outgoing(queue, call.now, then)

    def _reply_reset(self, call: Call, reset: Reset, warning: str) -> None:
        identifiers = tuple(reset.identifiers)
        counts = reset.sequences, warning, reset.renumbered, reset.may_come_twice
        self._reply(call, SequenceReset(*counts, identifiers, reset.next.hex()))

    def admit(self, call: Call, operation: AdmitAddress) -> None:
        """Believe acknowledgments from an address. Raises LimitReached, InvalidParameter."""
        node = self._node
        node.kernel.check_store()
        guid, address = _queue_manager(operation.guid), _host(operation.address)
        if guid == node.manager.identity.identifier:
            raise InvalidParameter(
                f"{guid_text(guid)} is this queue manager; specify the other queue manager, which sends the "
                "acknowledgments"
            )
        with node.kernel.operation(call.now):
            node.destinations.admit(guid, address, call.now)
            believed = 0 if node.network is None else node.network.admitted(guid, address, call.now)
            node.kernel.reply(call.request, Admitted(believed))

    def revoke(self, call: Call, operation: RevokeAddress) -> None:
        """Keep acknowledgments from an address again instead of believing them. Raises InvalidParameter."""
        node = self._node
        node.kernel.check_store()
        guid, address = _queue_manager(operation.guid), _host(operation.address)
        with node.kernel.operation(call.now):
            if not node.destinations.revoke(guid, address):
                raise InvalidParameter(f"{address} is not admitted for {guid_text(guid)}")
            if node.network is not None:
                node.network.ack_judging.revoked(guid, address)
            node.kernel.reply(call.request)

    def admitted(self, call: Call, _: ListAdmitted) -> None:
        with self._node.kernel.operation(call.now):
            found = sorted(self._node.destinations.admitted)
            addresses = tuple(AdmittedAddress(guid_text(guid), address) for guid, address in found)
            self._reply(call, AdmittedAddresses(addresses))

    def _reply(self, call: Call, answer: object) -> None:
        """Reply when all is durable: the answer may show changes that are not yet."""
        self._node.kernel.await_everything()
        self._node.kernel.reply(call.request, answer)

    def _wanted(
        self, queue: str | None, source: str | None, address: str | None, older_than: float | None = None
    ) -> Wanted:
        if older_than is not None and (not isinstance(older_than, int | float) or not older_than >= 0):
            raise InvalidParameter(f"age must be a number of seconds, not {excerpt(older_than)}")
        return Wanted(
            None if queue is None else format_name(queue, self._computer),
            None if source is None else _guid(source),
            "" if address is None else _address(address),
            older_than,
        )

    def _page(self, page: Page, now: Now) -> SequencePage:
        return SequencePage(tuple(self._info(line, now) for line in page.lines), page.next.hex())

    def _info(self, line: Line, now: Now) -> SequenceInfo:
        identifier = TxSequenceId.of(line.sequence_id)
        assert line.direction in DIRECTIONS
        return SequenceInfo(
            line.direction,
            self._name(line.queue),
            guid_text(line.source),
            line.addresses,
            datetime.fromtimestamp(identifier.time_stamp, UTC),
            identifier.ordinal,
            line.number,
            datetime.fromtimestamp(line.last_time, UTC) if line.last_time else None,
            line.rejected,
            line.unacknowledged,
            "" if line.refused is None else refused_sentence(self._node, line.refused, now),
        )

    def _name(self, queue: Queue) -> str:
        if isinstance(queue, OutgoingQueue):
            return str(queue.destination_format_name)
        return short_name(FormatName.parse(f"DIRECT=OS:{queue.pathname}"), self._computer)


def _incoming_warning(wanted: Wanted) -> str:
    sentence = (
        "the records of the accepted messages of these sequences are deleted: if a source did not get an "
        "acknowledgment, it sends messages again, and they arrive twice"
    )
    if wanted.source is None or wanted.address:
        return sentence
    return f"{sentence}; the next message of the source is accepted, but earlier messages are not"


def _outgoing_warning(reset: Reset, queue: OutgoingQueue) -> str:
    if not reset.may_come_twice:
        return f"{queue} has no unacknowledged messages, so no message arrives twice"
    names = ", ".join(reset.identifiers[:_SOME])
    more = f" and {reset.may_come_twice - _SOME} more" if reset.may_come_twice > _SOME else ""
    return (
        f"unacknowledged messages of {queue} arrive twice if the destination has already accepted them: "
        f"{names}{more}; if the destination knows later sequences from this computer, reset these sequences on the "
        "destination too"
    )


def _guid(text: object) -> bytes:
    try:
        return parse_guid(str(text))
    except DecodeError:
        raise InvalidParameter(f"`source` must be the GUID of a queue manager, not {excerpt(text)}") from None


def _address(text: object) -> str:
    try:
        return peer_of(str(ip_address(str(text))))
    except ValueError:
        raise InvalidParameter(f"{excerpt(text)} is not an IP address") from None


def _queue_manager(text: object) -> bytes:
    try:
        identifier = parse_guid(str(text))
    except DecodeError:
        identifier = NULL_GUID
    if identifier == NULL_GUID:
        raise InvalidParameter(f"{excerpt(text)} is not the GUID of a queue manager")
    return identifier


def _host(text: object) -> str:
    try:
        plain = plain_address(str(text))
    except ValueError:
        raise InvalidParameter(f"{excerpt(text)} is not an IP address") from None
    found = ip_address(plain)
    if found.is_unspecified or found.is_multicast:
        raise InvalidParameter(f"{plain} is not the address of a host")
    return plain


def _place(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InvalidParameter(f"{excerpt(text)} is not a value of `next` from an earlier page") from None
