"""Decide whether to believe an OrderAck or FinalAck: MS-MQQB 3.1.5.6 and 3.1.5.7 set no condition for its sender.

A GUID in a handshake proves nothing, because every host that connects learns it. An address is evidence: it is that of
the other end of a TCP connection. So an acknowledgment is believed if it is of a message that was written to a session,
is from the destination of that message, and came over a session with the destination at one of its addresses, or with a
queue manager on the way to it (ADR 22). Everything here is a decision on facts; nothing is looked up.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from waypost.guid import guid_text

# The addresses of queue managers, by their GUIDs.
Hosts = Mapping[bytes, AbstractSet[str]]


class Written(Enum):
    """Whether the acknowledged message was written to a session.

    PERHAPS: a process before this one had it, and it was not sent again yet.
    """

    NO = auto()
    PERHAPS = auto()
    YES = auto()


@dataclass(frozen=True, slots=True)
class Bringer:
    """The other end of the session that brings an acknowledgment."""

    guid: bytes
    address: str


@dataclass(frozen=True, slots=True)
class Way:
    """Facts about the destination of a message.

    `destination` is empty while its GUID is unknown. `hops` are the queue managers that relay messages to it, and those
    of `routing.relays`; None if there are none. A host at one of `relay_addresses` counts as one of them.
    `places` are the addresses of the host in a direct name.
    """

    destination: Hosts
    hops: Hosts | None = None
    relay_addresses: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()


class Decision(Enum):
    APPLY = auto()
    KEEP = auto()
    REFUSE = auto()


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` completes a sentence that begins with "it". `is_by_address`: to admit the address would help.

    `is_likely` for KEEP: it came from where the destination is, so strangers must not take its place.
    """

    decision: Decision
    reason: str = ""
    is_by_address: bool = False
    is_likely: bool = False


APPLY: Final = Verdict(Decision.APPLY)
_UNSENT: Final = Verdict(
    Decision.KEEP, "is for a message that has not been sent again since the queue manager started", is_likely=True
)
_UNDIALLED: Final = "is for a destination to which no connection has been opened yet"
_UNKNOWN: Final = Verdict(Decision.KEEP, _UNDIALLED, is_by_address=True)
_UNKNOWN_THERE: Final = Verdict(Decision.KEEP, _UNDIALLED, is_by_address=True, is_likely=True)
_NOT_WRITTEN: Final = Verdict(Decision.REFUSE, "is for a message that was never sent")


def judge(
    written: Written, way: Way, source: bytes, bringer: Bringer, *, may_be_of_any_hop: bool, is_admitted: bool
) -> Verdict:
    """Judge an acknowledgment. `source` is its SourceQueueManager.

    `may_be_of_any_hop`: it reports a refused message, which every queue manager on the way can do (MS-MQQB 3.1.5.8.2);
    only the first of them is known here, so only the bringer is checked. `is_admitted`: an operator has admitted the
    address of the bringer.
    """
    if written is Written.NO:
        return _NOT_WRITTEN
    verdict = _judge_sender(way, source, bringer, may_be_of_any_hop=may_be_of_any_hop, is_admitted=is_admitted)
    return _UNSENT if verdict is APPLY and written is Written.PERHAPS else verdict


def _judge_sender(way: Way, source: bytes, bringer: Bringer, *, may_be_of_any_hop: bool, is_admitted: bool) -> Verdict:
    if not way.destination:
        if is_admitted and source == bringer.guid:
            return APPLY
        return _UNKNOWN_THERE if bringer.address in way.places else _UNKNOWN
    hops = way.hops or {}
    if source not in way.destination and not (may_be_of_any_hop and way.hops is not None):
        return Verdict(Decision.REFUSE, f"is from {guid_text(source)}, which is not the destination")
    guid, address = guid_text(bringer.guid), bringer.address
    addresses = way.destination.get(bringer.guid, hops.get(bringer.guid))
    if addresses is None:
        if way.hops is None:
            return Verdict(Decision.REFUSE, f"came from {guid}, which is not the destination")
        if address not in way.relay_addresses:
            return Verdict(Decision.KEEP, f"came from {guid} at {address}, which is not among routing.relays")
    elif not is_admitted and address not in addresses and address not in way.relay_addresses:
        reason = f"came from {address}, which is not a known address of {guid}"
        return Verdict(Decision.KEEP, reason, is_by_address=True)
    return APPLY
