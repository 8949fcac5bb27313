"""Whose message it is, and whose queue: what MS-MQMQ says of identifiers in a packet, shown through the core."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.core.messages import plain
from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queue_manager import Identity, QueueManager
from waypost.core.queues import Queue, QueueAttributes
from waypost.core.serialization import deserialize_message_from_buffer, serialize_message_to_buffer
from waypost.errors import RecordDamaged
from waypost.wire import PathName, UserMessage
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.queue_names import PrivateQueueFormatNameId

SENDER = bytes(range(16))
OWN = bytes(range(16, 32))


class Nowhere:
    """A MessageTable for a queue manager that gets no message."""

    in_memory = 0

    def put(self, queue: int, message: Message) -> None: ...

    hold = update = put

    def publish(self, queue: int, lookup_id: int) -> Message:
        raise KeyError(queue, lookup_id)

    def get(self, queue: int, lookup_id: int) -> Message:
        raise KeyError(queue, lookup_id)

    def put_all(self, queue: int, messages: Sequence[Message]) -> None:
        for message in messages:
            self.put(queue, message)

    hold_all = put_all

    def put_packets(self, queue: int, lookup_ids: range, head: bytes, packets: Sequence[bytes]) -> None:
        raise NotImplementedError

    def get_all(self, queue: int, lookup_ids: Sequence[int]) -> list[Message]:
        return [self.get(queue, lookup_id) for lookup_id in lookup_ids]

    def publish_all(self, queue: int, lookup_ids: Sequence[int]) -> None: ...

    def set_aside(self, queue: Queue, lookup_id: int, damage: RecordDamaged) -> int:
        raise damage

    def delete(self, queue: int, message: Message) -> None: ...

    def delete_all(self, queue: int, messages: Sequence[Message]) -> int:
        return len(messages)


@pytest.mark.spec("MQMQ-2.2.19.2-03")
def test_the_source_is_the_original_sender_and_stays_so_on_the_way() -> None:
    sent = replace(plain(), identifier=MessageIdentifier(SENDER, 7))
    packet = serialize_message_to_buffer(sent)
    assert UserMessage.decode(packet).user.source_queue_manager == SENDER
    relayed = deserialize_message_from_buffer(packet)
    relayed.packet = b""
    relayed.origin = None
    relayed.arrival_time = 9
    assert UserMessage.decode(serialize_message_to_buffer(relayed)).user.source_queue_manager == SENDER


@pytest.mark.spec("MQMQ-2.2.18.1.5.1-01")
def test_private_queue_numbers_have_32_bits_and_are_unique_on_their_host() -> None:
    manager = QueueManager(Identity(OWN, "host", "host.example"), Nowhere(), lambda: bytes(16))
    manager.queue_manager_started(Now(monotonic=0.0, wall=0.0))
    paths = [PathName.parse(f"host\\private$\\q{number}") for number in range(50)]
    numbers = [
        manager.create_queue(QueueAttributes(path), Now(monotonic=0.0, wall=0.0)).private_queue_number
        for path in paths
    ]  # fmt: skip
    assert len(set(numbers)) == 50
    for number in numbers:
        assert PrivateQueueFormatNameId(number).encode() == number.to_bytes(4, "little")
