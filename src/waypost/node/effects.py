"""Effects: requests of a node to the shell around it, which carries them out in order."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from waypost.api.operations import Operation
from waypost.core.external_transactions import Outgoing
from waypost.directory.effects import FindDirectoryServers, SendChangeNotification
from waypost.errors import WaypostError
from waypost.security.callers import Caller
from waypost.security.work import CheckSignature
from waypost.store.port import Batch
from waypost.wire.keys import PublicKeyBlob
from waypost.wire.sid import Sid


@dataclass(frozen=True, slots=True)
class Commit:
    """Submit the batch to the store, and call `Node.persisted(token)` when it is durable."""

    batch: Batch
    token: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request. It leaves when the facts that it promises are durable."""

    request: int
    value: object = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of a request that had to wait."""

    request: int
    error: WaypostError


@dataclass(frozen=True, slots=True)
class ToCoordinator:
    """A message to the coordinator of external transactions. It leaves when the facts that it promises are durable."""

    message: Outgoing


class DialReason(Enum):
    """Purpose of a connection: messages, OrderAcks and FinalAcks for a known host, or queues that messages name."""

    OWN = "own"
    OWED = "owed"
    NAMED = "named"


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a TCP connection, then call `Network.connected` or `Network.connect_failed`.

    `reason` is its purpose: connections that others cause get only a share of all at a time.
    """

    connection: int
    address: str
    port: int
    reason: DialReason = DialReason.OWN


@dataclass(frozen=True, slots=True)
class Write:
    """Send these bytes on a connection. They leave when the facts that they promise are durable."""

    connection: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection when all written bytes are sent; the node expects no more calls about it."""

    connection: int


@dataclass(frozen=True, slots=True)
class HoldReading:
    """Pause or resume reading from a connection."""

    connection: int
    is_held: bool


@dataclass(frozen=True, slots=True)
class Resolve:
    """Find the IP addresses of a host, then call `Network.resolved`."""

    request: int
    host: str


@dataclass(frozen=True, slots=True)
class SendDatagram:
    """Send a UDP datagram: a Ping Request, from a new port that receives the response, or a response."""

    data: bytes
    address: str
    port: int
    is_request: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """A line of the log for an operator. `facts` are its fields."""

    event: str
    facts: dict[str, object]


@dataclass(frozen=True, slots=True)
class KeyOperation:
    """Perform an operation about keys or certificates. The result is its reply.

    `user` and `sid` are those of the user that it names, or of the caller. `names` are the names of users by SID.
    """

    operation: Operation[object]
    user: str
    sid: Sid
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RemoveCertificates:
    """Remove all certificates of a user, with their private keys. The result is None."""

    sid: Sid


@dataclass(frozen=True, slots=True)
class SignFor:
    """Sign digests for a caller, with the certificate of this digest or PEM text, or its newest internal one for "".

    The result is a Signed.
    """

    caller: Caller
    certificate: str
    algorithm: int
    digests: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Signed:
    """The certificate of the signer, and a signature for each digest."""

    certificate: bytes
    signatures: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class CheckSignatures:
    """Check signatures. The result is a list with a CheckedSignature for each."""

    checks: tuple[CheckSignature, ...]


@dataclass(frozen=True, slots=True)
class MakeKeys:
    """Make symmetric keys, encrypted for this key. The result is a list of WrappedKeys."""

    key: PublicKeyBlob
    size: int
    count: int


@dataclass(frozen=True, slots=True)
class OpenKeys:
    """Decrypt symmetric keys with the exchange keys of this queue manager. The result is as that of UnwrapKeys."""

    ciphertexts: tuple[bytes, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NoteAnswer:
    """Remember which queue manager answers at a host. The result is None."""

    host: str
    guid: bytes


@dataclass(frozen=True, slots=True)
class EndKeys:
    """Delete the private keys of this queue manager whose grace has ended at this time. The result is None."""

    wall: float


KeyRequest = NoteAnswer | KeyOperation | RemoveCertificates | SignFor | CheckSignatures | MakeKeys | OpenKeys | EndKeys


@dataclass(frozen=True, slots=True)
class KeyWork:
    """Work with keys, outside of the engine. Call `Kernel.job_done` with its result, or with its error.

    `peer` is the peer that causes it; "" stands for the callers of this computer. Peers have their work done in turn.
    """

    job: int
    request: KeyRequest
    peer: str = ""


@dataclass(frozen=True, slots=True)
class DropKeyWork:
    """Nobody waits for this work with keys any more. The parts that have not begun can be left out."""

    job: int


# Effects on a network.
NetworkEffect = Connect | Write | Close | HoldReading | Resolve | SendDatagram
# Effects beyond the store and the answers. FindDirectoryServers and SendChangeNotification are for shells with DNS
# and MS-MQCN.
OutsideEffect = NetworkEffect | Notice | ToCoordinator | SendChangeNotification | FindDirectoryServers
# A union, so that a shell matches all effects: one without a case fails the type checker.
Effect = Commit | Reply | Failure | KeyWork | DropKeyWork | OutsideEffect
