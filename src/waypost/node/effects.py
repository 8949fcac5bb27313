"""What a node asks of the shell around it. The shell carries effects out in their order."""

from dataclasses import dataclass
from enum import Enum

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


class DialReason(Enum):
    """Messages, OrderAcks and FinalAcks for a host that was here, or what messages of others have named."""

    OWN = "own"
    OWED = "owed"
    NAMED = "named"


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a TCP connection, and say `Network.connected` or `Network.connect_failed`.

    `reason` is what it is for: only a part of the connections at a time is for what others have caused.
    """

    connection: int
    address: str
    port: int
    reason: DialReason = DialReason.OWN


@dataclass(frozen=True, slots=True)
class Write:
    """Send these bytes on a connection. What they promise is durable."""

    connection: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection when what was written is sent; the node wants to hear no more of it."""

    connection: int


@dataclass(frozen=True, slots=True)
class HoldReading:
    """Read nothing from a connection, or read again."""

    connection: int
    is_held: bool


@dataclass(frozen=True, slots=True)
class Resolve:
    """Find the IP addresses of a host, and say `Network.resolved`."""

    request: int
    host: str


@dataclass(frozen=True, slots=True)
class SendDatagram:
    """Send a UDP datagram: a Ping Request from a port of its own, on which the response comes, or a response."""

    data: bytes
    address: str
    port: int
    is_request: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that an operator may want to read: a line of the log. `facts` are its fields."""

    event: str
    facts: dict[str, object]


# What a network carries.
NetworkEffect = Connect | Write | Close | HoldReading | Resolve | SendDatagram
# What is beyond the store and the answers. FindDirectoryServers and SendChangeNotification are for those who speak DNS
# and MS-MQCN.
OutsideEffect = NetworkEffect | Notice | ToCoordinator | SendChangeNotification | FindDirectoryServers
# A union, so that whoever carries effects out matches all of them: one without a case does not pass the type checker.
Effect = Commit | Reply | Failure | OutsideEffect
