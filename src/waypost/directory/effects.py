"""Effects of the directory events."""

from dataclasses import dataclass
from enum import Enum, auto

from waypost.directory.objects import DirectoryObject, Queue, QueueManager


class ChangeOperation(Enum):
    """The iOperation of Send Change Notification (MS-MQCN 3.3.4.1)."""

    QUEUE_CREATION = auto()
    QUEUE_DELETION = auto()
    QUEUE_UPDATE = auto()
    QUEUE_MANAGER_UPDATE = auto()


@dataclass(frozen=True, slots=True)
class SendChangeNotification:
    """Queue managers that do not speak LDAP want to know of a change."""

    operation: ChangeOperation
    item: DirectoryObject


@dataclass(frozen=True, slots=True)
class LocalQueueManagerRefreshed:
    """The directory attributes of this queue manager are now those that the directory has."""

    queue_manager: QueueManager


@dataclass(frozen=True, slots=True)
class LocalQueueRefreshed:
    """A public queue of this queue manager has these attributes in the directory: give it the same."""

    queue: Queue


@dataclass(frozen=True, slots=True)
class FindDirectoryServers:
    """The list of directory servers is due: whoever can ask the DNS hands in another one."""


Effect = SendChangeNotification | LocalQueueManagerRefreshed | LocalQueueRefreshed | FindDirectoryServers
