"""Format names as the UserHeader of a packet carries them: MS-MQDMPR 3.1.1.12 queue types and MS-MQMQ 2.2.19.2.

The inverse of waypost.wire.packet_names. A private queue on a host that the packet names anyway is packed as a bare
number, and the type says which host is meant. Every type that fits gives the same name back; the first one that fits is
taken, in the order source, destination, administration queue, other.

The kinds of format names are compared by `type`: isinstance asks the abstract base class, which costs more than the
rest.
"""

from typing import Final

from waypost.core.message_values import QueueType
from waypost.errors import UnsupportedFormatName
from waypost.wire.format_names import (
    DirectFormatName,
    FormatName,
    PrivateFormatName,
    PublicFormatName,
    Suffix,
)
from waypost.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
)
from waypost.wire.unknown_names import UnknownFormatName

_BARE_NUMBER: Final = frozenset(
    {
        QueueType.PRIVATE_QUEUE_ON_SOURCE,
        QueueType.PRIVATE_QUEUE_ON_DESTINATION,
        QueueType.PRIVATE_QUEUE_ON_ADMIN,
    }
)


def destination_queue_type(name: FormatName | None) -> QueueType:
    if type(name) is PrivateFormatName:
        return QueueType.PRIVATE_QUEUE
    return _hostless_type(name)


def administration_queue_type(name: FormatName | None, source: bytes, destination: bytes) -> QueueType:
    """`source` and `destination` are the queue managers that the packet names."""
    if type(name) is not PrivateFormatName:
        return _hostless_type(name)
    if name.computer_guid == source:
        return QueueType.PRIVATE_QUEUE_ON_SOURCE
    if name.computer_guid == destination:
        return QueueType.PRIVATE_QUEUE_ON_DESTINATION
    return QueueType.PRIVATE_QUEUE_ON_OTHER


def response_queue_type(
    name: FormatName | None, administration: FormatName | None, source: bytes, destination: bytes
) -> QueueType:
    if name is None:
        return QueueType.NONE
    # Equal names may differ in case, and a receiver must see them as they were given.
    if administration is not None and str(name) == str(administration):
        return QueueType.SAME_AS_ADMINISTRATION_QUEUE
    queue_type = administration_queue_type(name, source, destination)
    if (
        queue_type is QueueType.PRIVATE_QUEUE_ON_OTHER
        and type(name) is PrivateFormatName
        and type(administration) is PrivateFormatName
        and name.computer_guid == administration.computer_guid
    ):
        return QueueType.PRIVATE_QUEUE_ON_ADMIN
    return queue_type


def packed_name(name: FormatName | None, queue_type: QueueType) -> QueueName | None:
    """The bytes for `name` in a packet with `queue_type`; None if the type is enough."""
    if name is None or queue_type is QueueType.SAME_AS_ADMINISTRATION_QUEUE:
        return None
    # Here only direct names have room for a suffix.
    if type(name) is DirectFormatName:
        return DirectQueueFormatName(name.direct_text)
    if type(name) is UnknownFormatName:
        return DirectQueueFormatName(name.text) if name.number is None else PrivateQueueFormatNameId(name.number)
    if name.suffix is Suffix.NONE:
        if type(name) is PublicFormatName:
            return PublicQueueFormatName(name.guid)
        if type(name) is PrivateFormatName:
            if queue_type in _BARE_NUMBER:
                return PrivateQueueFormatNameId(name.number)
            return PrivateQueueFormatName(name.computer_guid, name.number)
    raise _unsupported(name)


def _hostless_type(name: FormatName | None) -> QueueType:
    """The type of a name that does not depend on a host in the packet."""
    if name is None:
        return QueueType.NONE
    if type(name) is DirectFormatName:
        return QueueType.DIRECT_QUEUE
    if type(name) is PublicFormatName:
        return QueueType.PUBLIC_QUEUE
    if type(name) is UnknownFormatName:
        return QueueType.DIRECT_QUEUE if name.number is None else QueueType.PRIVATE_QUEUE_ON_ADMIN
    raise _unsupported(name)


def _unsupported(name: FormatName) -> UnsupportedFormatName:
    return UnsupportedFormatName(f"{name} does not fit into the header of a message (MS-MQMQ 2.2.19.2)")
