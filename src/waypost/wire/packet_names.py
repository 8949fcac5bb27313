"""The queue names of a UserHeader as format names: MS-MQMQ 2.2.19.2 and MS-MQQB 3.1.7.15.

A packet leaves out what its other fields say: the private queue number of AQ 2 belongs to SourceQueueManager, that of
AQ 3 to QueueManagerAddress. Here the names are made whole again.

MS-MQMQ 2.2.19.2 gives names a layout and leaves their text to applications. So a text that is not a direct
name is not an error of the packet: it is an UnknownFormatName, and so is a number without a queue manager (RQ 4).
"""

from functools import lru_cache

from waypost.errors import IllegalFormatName
from waypost.guid import NULL_GUID
from waypost.wire import user_header
from waypost.wire.format_names import (
    DirectFormatName,
    FormatName,
    PrivateFormatName,
    PublicFormatName,
)
from waypost.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
)
from waypost.wire.unknown_names import UnknownFormatName
from waypost.wire.user_header import UserHeader

ON_SOURCE_HOST = 2
ON_DESTINATION_HOST = 3
ON_ADMIN_HOST = 4
SAME_AS_ADMIN = 1


def destination_format_name(header: UserHeader) -> FormatName | None:
    """DestinationQueue; None if the header has none (DQ 0)."""
    return _format_name(header.destination_queue, header.queue_manager_address)


def admin_format_name(header: UserHeader) -> FormatName | None:
    """AdminQueue; None if the header has none (AQ 0)."""
    on_source = (header.flags & user_header.AQ) >> user_header.AQ_SHIFT == ON_SOURCE_HOST
    return _format_name(
        header.admin_queue, header.source_queue_manager if on_source else header.queue_manager_address
    )  # fmt: skip


def response_format_name(header: UserHeader) -> FormatName | None:
    """ResponseQueue; None if the header has none (RQ 0)."""
    code = (header.flags & user_header.RQ) >> user_header.RQ_SHIFT
    if code == SAME_AS_ADMIN:
        return admin_format_name(header)
    if code == ON_ADMIN_HOST:
        return _on_admin_host(header)
    return _format_name(
        header.response_queue, header.source_queue_manager if code == ON_SOURCE_HOST else header.queue_manager_address
    )


def _format_name(name: QueueName | None, host: bytes) -> FormatName | None:
    match name:
        case None:
            return None
        case PrivateQueueFormatNameId(number):
            return PrivateFormatName(host, number)
        case PublicQueueFormatName(guid):
            return PublicFormatName(guid)
        case PrivateQueueFormatName(guid, number):
            return PrivateFormatName(guid, number)
        case DirectQueueFormatName(text):
            return direct_format_name(text)


# Most messages name few queues, and to parse a name takes longer than all else that is done with it.
@lru_cache(maxsize=1024)
def direct_format_name(text: str) -> DirectFormatName | UnknownFormatName:
    """The name of a queue that a packet gives by the address of its computer."""
    try:
        return DirectFormatName.parse_direct(text)
    except IllegalFormatName:
        return UnknownFormatName(text)


def _on_admin_host(header: UserHeader) -> FormatName | None:
    """RQ 4. Only a private administration queue names its queue manager."""
    admin, name = admin_format_name(header), header.response_queue
    if isinstance(name, PrivateQueueFormatNameId) and not isinstance(admin, PrivateFormatName):
        return UnknownFormatName("", name.private_queue_identifier)
    return _format_name(name, admin.computer_guid if isinstance(admin, PrivateFormatName) else NULL_GUID)
