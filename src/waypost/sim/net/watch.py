"""A watch on the wire: no packet there may depend on a change that a crash could still undo."""

from collections.abc import Mapping
from typing import Final

from waypost.sim.marks import Marks
from waypost.sim.net.ledger import Ledger
from waypost.sim.net.protection_checks import ProtectionChecks
from waypost.sim.plans import uid_of
from waypost.sim.violation import Violation
from waypost.wire.message_class import MessageClass
from waypost.wire.packets import Splitter, decode_packet
from waypost.wire.transactional_acks import OrderAck
from waypost.wire.user_message import UserMessage

_USER: Final = MessageClass.MQMSG_CLASS_NORMAL


class Watch:
    """Reader of the bytes that hosts write to their connections."""

    def __init__(
        self, guids: Mapping[str, bytes], ledger: Ledger, marks: Marks, checks: ProtectionChecks | None = None
    ) -> None:  # fmt: skip
        self._guids: Final = guids
        self._ledger: Final = ledger
        self._marks: Final = marks
        # Checks each packet with a message that a host sends.
        self.checks: Final = checks
        self._splitters: Final[dict[tuple[str, int, int], Splitter]] = {}

    def written(self, connection: tuple[str, int, int], host: str, data: bytes) -> None:
        splitter = self._splitters.setdefault(connection, Splitter())
        for each in splitter.feed(data):
            packet = decode_packet(each)
            if isinstance(packet, UserMessage):
                if self.checks is not None:
                    self.checks.on_wire(host, packet, each)
                self._message(host, packet, each)
            elif isinstance(packet, OrderAck) and packet.message.user.source_queue_manager == self._guids[host]:
                body = packet.body
                accepted = self._ledger.records[host].accepted.get(body.tx_sequence_id, 0)
                if body.tx_sequence_number > accepted:
                    raise Violation(
                        f"{host} acknowledges message {body.tx_sequence_number} of a sequence, "
                        f"but has accepted the sequence only up to message {accepted}"
                    )

    def _message(self, host: str, packet: UserMessage, data: bytes) -> None:
        if packet.session is not None:
            self._marks.sometimes("an acknowledgment in the session header of a message")
        uid = uid_of(data)
        if uid is None or packet.properties.message_class != _USER:
            return
        sent = self._ledger.messages[uid]
        if sent.is_aborted:
            raise Violation(f"{host} sends {sent}, but the transaction of this message was aborted")
        if sent.is_recoverable and host not in sent.seen_at:
            raise Violation(f"{host} sends {sent}, but the message is not durable on this host")
        if sent.on_wire and host == sent.source:
            self._marks.sometimes("a message that is sent again")
        sent.on_wire += 1
        header = packet.transaction
        if header is not None and header.previous_tx_sequence_number != header.tx_sequence_number - 1:
            self._marks.sometimes("a message that skips a gap in its sequence")
