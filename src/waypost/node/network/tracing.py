"""Report messages: the progress of a traced message, MS-MQQB 3.1.5.8.9 and 3.1.7.1.7."""

from contextlib import suppress
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import AccessType, ShareMode
from waypost.errors import WaypostError
from waypost.guid import NULL_GUID
from waypost.transfer import reports
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import PublicFormatName
from waypost.wire.message_class import MessageClass
from waypost.wire.user_message import UserMessage


class Tracing:
    """Sends the reports of one queue manager, with this TimeToReachQueue in seconds."""

    __slots__ = ("_manager", "_time_to_reach_queue")

    def __init__(self, manager: QueueManager, time_to_reach_queue: int) -> None:
        self._manager: Final = manager
        self._time_to_reach_queue: Final = time_to_reach_queue

    def received(self, message: Message, now: Now) -> None:
        """MS-MQQB 3.1.5.8.9."""
        target = str(message.destination_queue_format_name)
        self._report(message, reports.received_body(message.identifier, target), now)

    def sent(self, message: Message, next_hop: str, now: Now) -> None:
        """MS-MQQB 3.1.7.1.7."""
        target = str(message.destination_queue_format_name)
        body = reports.sent_body(message.identifier, target, next_hop, _hops(message))
        self._report(message, body, now)

    def _report(self, message: Message, body: bytes, now: Now) -> None:
        """Send a report to the public queue that the DebugHeader names; none without one, or if it does not open."""
        if message.tracing_queue_identifier == NULL_GUID or message.message_class == MessageClass.MQMSG_CLASS_REPORT:
            return
        manager = self._manager
        name = PublicFormatName(message.tracing_queue_identifier)
        report = Message(
            identifier=manager.message_identifier(),
            message_class=MessageClass.MQMSG_CLASS_REPORT,
            label=reports.label(message.identifier, _hops(message), now.wall),
            body=body,
            sent_time=int(now.wall),
            time_to_reach_queue=self._time_to_reach_queue,
            time_to_be_received=INFINITE,
            destination_queue_format_name=name,
        )
        with suppress(WaypostError):
            descriptor = manager.open_queue(name, AccessType.SEND, ShareMode.DENY_NONE, now)
            try:
                manager.enqueue_message_to_open_queue(descriptor, report, None, now)
            finally:
                manager.close_queue(descriptor)


def _hops(message: Message) -> int:
    return UserMessage.decode(message.packet).user.hop_count
