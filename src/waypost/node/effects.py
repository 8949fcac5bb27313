"""What a node asks of the shell around it. The shell carries effects out in their order."""

from dataclasses import dataclass

from waypost.core.external_transactions import Outgoing
from waypost.directory.effects import FindDirectoryServers, SendChangeNotification
from waypost.errors import WaypostError
from waypost.store.port import Batch


@dataclass(frozen=True, slots=True)
class Commit:
    """Submit the batch to the store, and tell the node when it is durable: `Node.persisted(token)`."""

    batch: Batch
    token: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request. What it says is durable, as far as it has to be."""

    request: int
    value: object = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that had to wait came to nothing."""

    request: int
    error: WaypostError


@dataclass(frozen=True, slots=True)
class ToCoordinator:
    """A message to the coordinator of external transactions. What it promises is durable."""

    message: Outgoing


# The last two are for those who speak MS-MQCN and DNS.
Effect = Commit | Reply | Failure | ToCoordinator | SendChangeNotification | FindDirectoryServers
