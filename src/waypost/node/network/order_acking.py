"""The OrderAcks for what was taken: MS-MQQB 3.1.1.6.2, 3.1.6.9 and 3.1.7.17."""

from collections.abc import Sequence
from typing import Final

from waypost.clock import Now
from waypost.core.queues import Queue
from waypost.guid import NULL_GUID
from waypost.node.incoming_store import IncomingStore
from waypost.node.kernel import Kernel
from waypost.node.transactional_acks import TransactionalAcks, origin_of
from waypost.transfer.order_acks import LineKey, OrderAcks, SequenceKey
from waypost.transfer.session import Session
from waypost.transfer.settings import TransferSettings
from waypost.transfer.statistics import Statistics
from waypost.wire.identifiers import TIME_STAMP_SHIFT
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.remote_packet import Origin
from waypost.wire.transactional_acks import OrderAckBody
from waypost.wire.user_message import UserMessage


class OrderAcking:
    """When they are due, and where they go."""

    __slots__ = ("_incoming", "_kernel", "_order_acks", "_origins", "_statistics", "_transactional_acks", "due")

    def __init__(
        self,
        kernel: Kernel,
        incoming: IncomingStore,
        transactional_acks: TransactionalAcks,
        settings: TransferSettings,
        statistics: Statistics,
    ) -> None:
        self._kernel: Final = kernel
        self._incoming: Final = incoming
        self._transactional_acks: Final = transactional_acks
        self._statistics: Final = statistics
        self._order_acks: Final = OrderAcks(
            settings.order_ack_timeout_ms / 1000, settings.maximum_order_ack_delay_s, kernel.timers, self._add_due
        )
        # Where the messages of a sequence come from, and whether they name this computer by its address.
        self._origins: dict[LineKey, tuple[Origin, bool]] = {}
        # What is to be acknowledged at the end of the operation.
        self.due: list[tuple[LineKey, OrderAckBody | None]] = []

    def __len__(self) -> int:
        """How many sequences are to be acknowledged."""
        return len(self._origins)

    def __bool__(self) -> bool:
        return True

    def received(self, key: SequenceKey, session: Session, packet: UserMessage, now: Now) -> Origin:
        """A message of a known sequence has come, taken or not. Returns where its acknowledgments go."""
        assert packet.transaction is not None
        line: LineKey = *key, packet.transaction.tx_sequence_id >> TIME_STAMP_SHIFT
        origin = origin_of(session.remote_qm_guid, session.remote_qm_address)
        is_direct = isinstance(packet.user.destination_queue, DirectQueueFormatName)
        self._origins[line] = origin, is_direct
        self._order_acks.received(line, now.monotonic)
        return origin

    def _add_due(self, key: LineKey, _now: Now) -> None:
        """MS-MQQB 3.1.6.9."""
        self.due.append((key, self._body(key)))

    def settle(self) -> None:
        """Send what has become due in this operation, together, so that one does not wait for the other's batch."""
        due, self.due = self.due, []
        # What they tell has to be durable, and no more than that may be told.
        self._kernel.when_durable(lambda now: self._acknowledge(due, now))

    def forget(self, queue: Queue) -> None:
        """The queue is deleted."""
        for key in [key for key in self._origins if key[1] == queue.number]:
            del self._origins[key]
            self._order_acks.forget(key)

    def _body(self, key: LineKey) -> OrderAckBody | None:
        source, queue, time_stamp = key
        sequences = self._incoming.find((source, queue))
        line = None if sequences is None else sequences.lines.get(time_stamp)
        return None if line is None else line.order_ack_body()

    def _acknowledge(self, due: Sequence[tuple[LineKey, OrderAckBody | None]], now: Now) -> None:
        for key, body in due:
            # The next message brings it again.
            found = self._origins.pop(key, None)
            if body is None or found is None:
                continue
            origin, is_direct = found
            source = key[0][: len(NULL_GUID)]
            sent = self._transactional_acks.order_ack(source, origin, body, now, is_direct=is_direct)
            self._statistics.order_acks_sent += sent
