"""Names that need a directory: Get Queue Path and Expand Format Name (MS-MQDMPR 3.1.7.1.26, 3.1.7.3.8)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from waypost.clock import Now
from waypost.directory.events import DirectoryEvents
from waypost.directory.objects import Queue, QueueManager
from waypost.directory.queries import Query, by_identifier
from waypost.errors import IllegalFormatName, UnsupportedFormatName
from waypost.limits import MAX_MQF_ELEMENTS
from waypost.wire.format_names import (
    DirectFormatName,
    DistributionListFormatName,
    FormatName,
    MultipleElementFormatName,
    PrivateFormatName,
    Protocol,
    PublicFormatName,
)
from waypost.wire.path_names import QueueKind

SECTION: Final = "MS-MQDMPR 3.1.7.1.26"


@dataclass(frozen=True, slots=True)
class QueuePath:
    """rPathName and rMachineName, "" where none can be given."""

    path_name: str = ""
    machine_name: str = ""


def get_queue_path(events: DirectoryEvents, name: FormatName, now: Now) -> QueuePath:
    """MS-MQDMPR 3.1.7.1.26. Raises IllegalFormatName for a name that the directory does not know."""
    match name:
        case DirectFormatName(protocol=Protocol.HTTP | Protocol.HTTPS):
            return QueuePath(machine_name=name.host)
        case DirectFormatName(protocol=protocol, address=address):
            return QueuePath(name.direct_text.removeprefix(f"{protocol.value}:"), address)
        case PublicFormatName(guid):
            queue = events.read_directory(Query(Queue, by_identifier(guid)), now).value
            if queue is None:
                raise _unknown(name)
            return QueuePath(queue.pathname, queue.computer_name)
        case PrivateFormatName(events.local.identifier, number):
            # readings MQDMPR 3.W: the computer is compared, and nobody needs a directory to know oneself.
            queues = (each for each in events.local_queues() if each.queue_type is QueueKind.PRIVATE)
            path = next((each.pathname for each in queues if each.private_queue_number == number), "")
            return QueuePath(path, events.local.queue_manager.computer_name)
        case PrivateFormatName(guid):
            manager = events.read_directory(Query(QueueManager, by_identifier(guid)), now).value
            if manager is None:
                raise _unknown(name)
            return QueuePath(machine_name=manager.computer_name)
    return QueuePath()


def expand_format_name(
    name: FormatName, members: Callable[[DistributionListFormatName], tuple[FormatName, ...] | None]
) -> FormatName:
    """MS-MQDMPR 3.1.7.3.8. Raises UnsupportedFormatName if a list does not resolve, or nothing is left.

    readings MQDMPR 3.DD: a list that was expanded is not expanded again, so that lists may contain each other.
    """
    if not isinstance(name, DistributionListFormatName | MultipleElementFormatName):
        return name
    waiting: list[FormatName] = list(name.elements) if isinstance(name, MultipleElementFormatName) else [name]
    lists: set[FormatName] = set()
    elements: set[FormatName] = set()
    for each in waiting:
        if not isinstance(each, DistributionListFormatName):
            elements.add(each)
        elif each not in lists:
            lists.add(each)
            resolved = members(each)
            if resolved is None:
                raise UnsupportedFormatName(f"cannot resolve {each}")
            waiting += resolved
        if len(lists) + len(elements) > MAX_MQF_ELEMENTS:
            raise UnsupportedFormatName(f"{name} contains more than {MAX_MQF_ELEMENTS} queues")
    if not elements:
        raise UnsupportedFormatName(f"{name} contains no queues")
    ordered = sorted(elements, key=lambda each: str(each).lower())
    return ordered[0] if len(ordered) == 1 else MultipleElementFormatName(tuple(ordered))


def _unknown(name: FormatName) -> IllegalFormatName:
    return IllegalFormatName(SECTION, "iFormatName", 0, f"the directory does not know {name}")
