"""The ports of the servers of remote reading to the queue manager: MS-MQRR 3.1 and MS-MQQP 3.1.

A handler runs inside an operation of the queue manager. It works on the core and answers its call; the answer leaves
when what was done is durable, which is the host's concern. Later events come back through callbacks, inside a
separate operation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from waypost.clock import Now
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import AccessType, OpenQueueDescriptor, Queue
from waypost.core.reading import Read
from waypost.hresult import HResult
from waypost.remote.cursors import RemoteCursors
from waypost.rpc.authentication import AuthLevel, Caller
from waypost.rpc.statistics import RpcStatistics

# MS-MQRR 3.1.4.1, MS-MQQP 3.1.4.3: a port that is taken is left for the one this much higher.
REMOTE_READ_PORT: Final = 2103
QM2QM_PORT: Final = 2105
PORT_STEP: Final = 11

# ulTimeout of both protocols: MS-MQQP 2.2.2.1 INFINITE.
INFINITE_TIMEOUT: Final = 0xFFFF_FFFF

ReadThen: TypeAlias = Callable[[Read, Now], None]


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """Settings of the servers of remote reading.

    `pending_request_timeout_s` is how long a message that was given out waits for its end (MS-MQRR 3.1.2.2, product
    note 11); it is never 0. `transaction_timeout_s` is how long a transaction that a remote reader began may take until
    it is prepared. The last three are the registry values of MS-MQRR product note 19: AllowNonauthenticatedRpc,
    NewRemoteReadServerDenyWorkgroupClient and NewRemoteReadServerAllowNoneSecurityClient.
    """

    pending_request_timeout_s: float = 300.0
    transaction_timeout_s: float = 300.0
    min_auth_level: AuthLevel = AuthLevel.PRIVACY
    allows_nonauthenticated_rpc: bool = False
    denies_workgroup_client: bool = False
    allows_none_security_client: bool = False

    def __post_init__(self) -> None:
        assert self.pending_request_timeout_s > 0


class Coordinator(Protocol):
    """The one that brings the transactions of remote readers to their end."""

    def enlist(self, transaction_id: bytes, propagation_token: bytes, now: Now) -> HResult:
        """Take part in the transaction that the token stands for: with MQ_OK it is in the TransactionCollection.

        Else nothing is left behind.
        """

    def admits(self, transaction_id: bytes) -> bool:
        """Whether a remote reader may receive or move a message in this transaction.

        One that is under way here is admitted. One that nobody knows is a transaction for a single message (readings
        MQRR 3.15), if a coordinator could have brought it to its end; one that can never end as its reader means is
        refused.
        """


class RemoteHost(Protocol):
    """The queue manager, as a server of remote reading sees it."""

    @property
    def manager(self) -> QueueManager: ...

    @property
    def cursors(self) -> RemoteCursors:
        """Those that remote readers have open."""

    @property
    def settings(self) -> RemoteSettings: ...

    @property
    def coordinator(self) -> Coordinator: ...

    @property
    def statistics(self) -> RpcStatistics: ...

    @property
    def remote_read_port(self) -> int:
        """The TCP port on which RemoteRead listens; 0 if it does not."""

    @property
    def qm2qm_port(self) -> int:
        """The same for qm2qm."""

    def may(self, caller: Caller, queue: Queue, access: AccessType) -> bool:
        """Whether the caller may open the queue with this access, by the security descriptor that guards it."""

    def refused(self, caller: Caller, queue: Queue, access: AccessType) -> None:
        """Count a caller that may not open the queue, and note it in the log."""

    def await_read(self, wait_id: int, then: ReadThen) -> None:
        """Have `then` called once, when the read that waits has ended."""

    def purge(self, descriptor: OpenQueueDescriptor, then: Callable[[], None]) -> None:
        """Purge the queue of a handle that is open for receiving, and call `then` when nothing is left to be purged."""

    def new_guid(self) -> bytes:
        """16 random bytes."""
