"""What a queue manager is, keeps and does as a whole: MS-MQDMPR 3.1.1.1 without its collections, and its states.

Identity is what others know it by; QueueManagerAttributes is what survives a restart and is nobody else's; the states
decide whether it works at all. Attributes that are neither are volatile and stand in the QueueManager itself.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final

from waypost.guid import NULL_GUID
from waypost.wire.format_names import Suffix
from waypost.wire.property_values import DEFAULT_QUOTA, INITIALIZATION_RETRY_SECONDS, UNLIMITED

# MS-MQDMPR 3.1.3: the system queues that applications can open, by the suffix that names them.
SYSTEM_QUEUES: Final = {
    Suffix.JOURNAL: "journal",
    Suffix.DEADLETTER: "deadletter",
    Suffix.DEADXACT: "deadxact",
}

# 127.0.0.1 and ::1.
_LOCALHOST: Final = (b"\x7f\x00\x00\x01", bytes(15) + b"\x01")


@dataclass(frozen=True, slots=True)
class Identity:
    """QueueManager.Identifier, ComputerName and QualifiedComputerName, and the other names that mean this computer.

    `addresses` are those that this queue manager is reached at, each an IP address. Others may be reached at other
    addresses of the same computer, so that localhost means this one only if 127.0.0.1 or ::1 is among them.
    """

    identifier: bytes
    computer_name: str
    qualified_computer_name: str
    addresses: frozenset[str] = field(default_factory=frozenset)
    aliases: frozenset[str] = field(default_factory=frozenset)
    _names: frozenset[str] = field(init=False, repr=False, compare=False)
    _addresses: frozenset[bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        addresses = frozenset(filter(None, map(_packed, self.addresses)))
        names = {".", self.computer_name, self.qualified_computer_name, *self.aliases}
        if not addresses.isdisjoint(_LOCALHOST):
            names.add("localhost")
        object.__setattr__(self, "_names", frozenset(name.casefold() for name in names))
        object.__setattr__(self, "_addresses", addresses)

    def is_local(self, host: str) -> bool:
        """Whether the host in a direct name or a path, which is a name or an IP address, means this queue manager."""
        return host.casefold() in self._names or _packed(host) in self._addresses


@lru_cache(maxsize=1024)
def _packed(text: str) -> bytes | None:
    """An IP address as its bytes, the same for all its spellings and for IPv4 within IPv6. The zone does not count."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.packed
    return address.packed


@dataclass(frozen=True, slots=True)
class QueueManagerAttributes:
    """The persistent attributes of MS-MQDMPR 3.1.1.1. Quotas are in kilobytes (readings MQDMPR 3.F).

    `last_domain` is NULL_GUID for a computer that was in no domain when it last started.
    """

    create_time: int = 0
    modify_time: int = 0
    queue_manager_quota: int = DEFAULT_QUOTA
    journal_quota: int = UNLIMITED
    security: bytes = b""
    last_domain: bytes = NULL_GUID
    directory_server_list: tuple[str, ...] = ()
    directory_integrated: bool = False
    srmp_http_support: bool = False
    srmp_pgm_support: bool = False
    hardened_security: bool = False
    initialization_retry_timer_duration: int = INITIALIZATION_RETRY_SECONDS


class QueueManagerState(Enum):
    """MS-MQDMPR 3.1.1.1. Only Ready works."""

    STOPPED = auto()
    INITIALIZING = auto()
    READY = auto()
    STOPPING = auto()


class Step(Enum):
    """What moves a queue manager from one state to another."""

    START = auto()
    INITIALIZED = auto()
    FAILED = auto()
    STOP = auto()
    SHUT_DOWN = auto()


# A pair that is absent is a mistake of the one who drives the queue manager.
STATES: Final = {
    (QueueManagerState.STOPPED, Step.START): QueueManagerState.INITIALIZING,
    (QueueManagerState.INITIALIZING, Step.INITIALIZED): QueueManagerState.READY,
    (QueueManagerState.INITIALIZING, Step.FAILED): QueueManagerState.STOPPED,
    (QueueManagerState.READY, Step.STOP): QueueManagerState.STOPPING,
    (QueueManagerState.STOPPING, Step.SHUT_DOWN): QueueManagerState.STOPPED,
}
