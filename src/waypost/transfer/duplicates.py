"""MessageIDHistoryTable of MS-MQQB 3.1.1.3: the nontransactional messages received last, to recognize duplicates.

An identifier is found whatever address brought it, and forgotten by that address: each address (waypost.peers) has a
share of the table, and a full share makes room by its own oldest entry. So a flood from one address does not push out
messages of others. Within a share the entries are in the order of their times, by the monotonic clock.

All shares together have MAX_REMEMBERED places and equal parts of them, so that a part is never below what one address
can have under way on a session; one more address finds no place then (`has_place_for`). A relay brings the messages of
many others. Its share is larger, separate, and always available to it.

Recoverable messages must be known after a restart too (MS-MQQB 6, note 26). They go to disk in blocks, one for each
address and batch that received some, with ascending numbers. As soon as later blocks hold as many messages of an
address as its share, a block of it is obsolete.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from waypost.clock import Now
from waypost.limits import MAX_REMEMBERED, MAX_REMEMBERED_PEERS
from waypost.peers import peer_of
from waypost.transfer.session import Session
from waypost.wire import base_header, user_header
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.user_message import UserMessage

# A message identifier (MS-MQMQ 2.2.18.1.3), and eight bytes for its destination: a message to several queues has one
# identifier.
IDENTIFIER_SIZE: Final = 28
# The place of SourceQueueManager and MessageID in a packet: together they are the identifier of a message.
_SOURCE: Final = slice(base_header.SIZE, base_header.SIZE + 16)
_MESSAGE_ID: Final = slice(base_header.SIZE + 40, base_header.SIZE + 44)
MAX_SIZE: Final = 0x1_0000_0000

# The share of a relay is as large as this many others.
RELAY_SHARES: Final = 10

# The address of messages in blocks that name none.
UNKNOWN_PEER: Final = ""

# Seconds between two searches for expired shares, while a new address finds no place.
_LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Block:
    """Identifiers that one address brought, one behind the other, and the time of receipt."""

    number: int
    identifiers: bytes
    time: float
    peer: str = UNKNOWN_PEER


class _Share:
    """The entries of one address: at most `places`, and the blocks that have them on disk."""

    __slots__ = ("blocks", "entries", "in_blocks", "new", "peer", "places", "refreshed")

    def __init__(self, peer: str, places: int) -> None:
        self.peer: Final = peer
        self.places = places
        self.entries: OrderedDict[bytes, float] = OrderedDict()
        # The last write of an entry that was refreshed since it came.
        self.refreshed: dict[bytes, float] = {}
        self.new: list[bytes] = []
        # Of each block its number, the number of its identifiers, and their time.
        self.blocks: deque[tuple[int, int, float]] = deque()
        self.in_blocks = 0


class MessageHistory:
    """The history: at most `size` entries of one address. Every `period` seconds, older ones are removed.

    `relays` are the addresses with the share of a relay.
    """

    __slots__ = (
        "_addresses_of_relays",
        "_deadline",
        "_guids_of_relays",
        "_known",
        "_next_block",
        "_next_look",
        "_part",
        "_relays",
        "_shares",
        "_start_timer",
        "changed",
        "obsolete",
        "period",
        "size",
    )

    def __init__(
        self,
        size: int,
        period: float,
        relays: Iterable[str] = (),
        start_timer: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`start_timer` gets the time at which `clean_up` is due."""
        self._start_timer: Final = start_timer
        self.size: Final = min(size, MAX_SIZE)
        self.period: Final = period
        self._shares: dict[str, _Share] = {}
        # The share of each identifier.
        self._known: dict[bytes, _Share] = {}
        # Configured relays: by their addresses, and by GUIDs with the address that has the share for one.
        self._addresses_of_relays: Final = frozenset(relays)
        self._guids_of_relays: dict[bytes, str] = {}
        self._relays = self._addresses_of_relays
        # Number of places of every other address.
        self._part = self.size
        self._deadline: float | None = None
        self._next_look = 0.0
        # Work for the store: shares with new entries, and the numbers of obsolete blocks.
        self.changed: dict[_Share, None] = {}
        self._next_block = 0
        self.obsolete: list[int] = []

    def __len__(self) -> int:
        return len(self._known)

    @property
    def largest_share(self) -> int:
        """The most entries that an address other than a relay has."""
        return max((len(share.entries) for peer, share in self._shares.items() if peer not in self._relays), default=0)

    def is_known(self, identifier: bytes) -> bool:
        return identifier in self._known

    def is_duplicate(self, identifier: bytes, peer: str, time: float, *, recoverable: bool = False) -> bool:
        """MS-MQQB 3.1.5.8.1. A known message becomes as fresh as if it had come now.

        Only the address that brought it makes it fresh: others must not decide which entry is the oldest in its share.
        On disk it is refreshed before it is too old, and not each time: a frequent repetition must not push out
        the others there.
        """
        share = self._known.get(identifier)
        if share is None:
            return False
        if share.peer != peer:
            return True
        came = share.entries[identifier]
        share.entries[identifier] = time
        share.entries.move_to_end(identifier)
        if recoverable:
            written = share.refreshed.get(identifier, came)
            if time - written > self.period / 2:
                self._write(share, identifier)
                written = time
            share.refreshed[identifier] = written
        return True

    def has_place_for(self, peer: str, time: float) -> bool:
        """Whether the messages of this address can be remembered. If not, they must not be accepted."""
        if peer in self._shares or peer in self._relays:
            return True
        if self._strangers() < MAX_REMEMBERED_PEERS:
            return True
        if time < self._next_look:
            return False
        self._next_look = time + _LOOK_SECONDS
        self._remove_older(time - self.period)
        return self._strangers() < MAX_REMEMBERED_PEERS

    def note_relay(self, guid: bytes, peer: str) -> None:
        """Note that a session with the GUID of a relay is from this address.

        The GUID proves nothing, so it has one larger share at a time, until that is empty.
        """
        before = self._guids_of_relays.get(guid)
        if before == peer or before in self._shares:
            return
        self._guids_of_relays[guid] = peer
        self._relays = self._addresses_of_relays.union(self._guids_of_relays.values())
        share = self._shares.get(peer)
        if share is not None:
            share.places = self._relay_places()
        self._share_out()

    def add(self, identifier: bytes, peer: str, time: float) -> None:
        """Add an express message, which is not a duplicate."""
        share = self._shares.get(peer)
        if share is None:
            share = self._open(peer)
        self._insert(share, identifier, time)

    def add_new(self, identifier: bytes, peer: str, time: float, *, recoverable: bool) -> bool:
        """Add a message unless it is known. True if it was added."""
        if identifier in self._known:
            return False
        share = self._shares.get(peer) or self._open(peer)
        self._insert(share, identifier, time)
        if recoverable:
            self._write(share, identifier)
        return True

    def add_recoverable(self, identifier: bytes, peer: str, time: float) -> None:
        self.add(identifier, peer, time)
        self._write(self._shares[peer], identifier)

    def _open(self, peer: str) -> _Share:
        is_relay = peer in self._relays
        share = self._shares[peer] = _Share(peer, self._relay_places() if is_relay else self._part)
        if not is_relay:
            self._share_out()
        return share

    def _insert(self, share: _Share, identifier: bytes, time: float) -> None:
        if self._deadline is None:
            self._run_until(time + self.period)
        share.entries[identifier] = time
        self._known[identifier] = share
        if len(share.entries) > share.places:
            self._forget_oldest(share)

    def _share_out(self) -> None:
        """Give every address its part after their number has changed."""
        part = min(self.size, max(MAX_REMEMBERED, self.size) // max(self._strangers(), 1))
        if part == self._part:
            return
        self._part = part
        for share in self._shares.values():
            if share.peer in self._relays:
                continue
            share.places = part
            while len(share.entries) > part:
                self._forget_oldest(share)
            self._drop_blocks(share)

    def _relay_places(self) -> int:
        return min(self.size * RELAY_SHARES, MAX_SIZE)

    def _strangers(self) -> int:
        """Number of addresses with a share that are not relays."""
        return len(self._shares) - sum(peer in self._shares for peer in self._relays)

    def _write(self, share: _Share, identifier: bytes) -> None:
        if not share.new:
            self.changed[share] = None
        share.new.append(identifier)

    def _forget_oldest(self, share: _Share) -> None:
        identifier, _ = share.entries.popitem(last=False)
        share.refreshed.pop(identifier, None)
        del self._known[identifier]

    def deadline(self) -> float | None:
        """Expiry of the MessageIDHistory Cleanup Timer (MS-MQQB 3.1.2.8). It runs while there are entries."""
        return self._deadline

    def _run_until(self, deadline: float) -> None:
        self._deadline = deadline
        self._start_timer(deadline)

    def clean_up(self, time: float) -> None:
        """MS-MQQB 3.1.6.7, if the timer has expired."""
        if self._deadline is None or time < self._deadline:
            return
        self._remove_older(time - self.period)
        self._deadline = None
        if self._known:
            self._run_until(time + self.period)

    def _remove_older(self, oldest: float) -> None:
        for share in tuple(self._shares.values()):
            entries = share.entries
            while entries and entries[next(iter(entries))] < oldest:
                self._forget_oldest(share)
            while share.blocks and (not entries or share.blocks[0][2] < oldest):
                self._drop_block(share)
            if not entries and not share.new:
                del self._shares[share.peer]
        self._share_out()

    def take_blocks(self, time: float) -> list[Block]:
        """Blocks to write: the identifiers that became known since the last call."""
        blocks = []
        for share in self.changed:
            block = Block(self._next_block, b"".join(share.new), time, share.peer)
            self._append_block(share, block.number, len(share.new), time)
            share.new.clear()
            blocks.append(block)
        self.changed.clear()
        return blocks

    def take_obsolete(self) -> list[int]:
        """The numbers of the blocks that became obsolete since the last call."""
        obsolete, self.obsolete = self.obsolete, []
        return obsolete

    def restore(self, block: Block) -> None:
        """Add a block from before a restart. The blocks come in order."""
        share = self._shares.get(block.peer)
        if share is None:
            share = self._open(block.peer)
        identifiers = block.identifiers
        for at in range(0, len(identifiers), IDENTIFIER_SIZE):
            identifier = identifiers[at : at + IDENTIFIER_SIZE]
            before = self._known.pop(identifier, None)
            if before is not None:
                del before.entries[identifier]
            self._insert(share, identifier, block.time)
        self._append_block(share, block.number, len(identifiers) // IDENTIFIER_SIZE, block.time)

    def _append_block(self, share: _Share, number: int, count: int, time: float) -> None:
        share.blocks.append((number, count, time))
        self._next_block = number + 1
        share.in_blocks += count
        if share.in_blocks >= share.places:
            self._drop_blocks(share)

    def _drop_blocks(self, share: _Share) -> None:
        while share.blocks and share.in_blocks - share.blocks[0][1] >= share.places:
            self._drop_block(share)

    def _drop_block(self, share: _Share) -> None:
        number, count, _ = share.blocks.popleft()
        share.in_blocks -= count
        self.obsolete.append(number)


class KnownMessages:
    """Messages that came on sessions, by the addresses that brought them: MS-MQQB 3.1.5.8.1 and 3.1.5.8.2."""

    __slots__ = ("_relay_guids", "add_new", "history")

    def __init__(self, history: MessageHistory, relay_guids: frozenset[bytes]) -> None:
        self._relay_guids: Final = relay_guids
        self.history: Final = history
        self.add_new: Final = history.add_new

    def is_duplicate(self, session: Session, packet: UserMessage, data: bytes, now: Now) -> bool:
        return self.history.is_duplicate(
            identifier(data, destination(packet)),
            peer_of(session.remote_qm_address),
            now.monotonic,
            recoverable=packet.user.delivery == user_header.RECOVERABLE,
        )

    def has_place_for(self, session: Session, now: Now) -> bool:
        """Whether messages from this address can be remembered."""
        peer = peer_of(session.remote_qm_address)
        if session.remote_qm_guid in self._relay_guids:
            self.history.note_relay(session.remote_qm_guid, peer)
        return self.history.has_place_for(peer, now.monotonic)

    def add(self, packet: UserMessage, identifier: bytes, peer: str, now: Now) -> None:
        """Remember a message."""
        if packet.user.delivery == user_header.RECOVERABLE:
            self.history.add_recoverable(identifier, peer, now.monotonic)
        else:
            self.history.add(identifier, peer, now.monotonic)


def identifier(data: bytes, destination: bytes) -> bytes:
    """The identifier of a message in the history."""
    return data[_SOURCE] + data[_MESSAGE_ID] + destination


def destination(packet: UserMessage) -> bytes:
    """A digest of the destination, which separates copies of one message to several queues with the same identifier."""
    name = packet.user.destination_queue
    if isinstance(name, DirectQueueFormatName):
        return digest(name.direct_format_name)
    return digest(repr(name))


@lru_cache(maxsize=1024)
def digest(name: str) -> bytes:
    """A digest of a direct name."""
    return blake2b(name.lower().encode("utf-16-le", "surrogatepass"), digest_size=8).digest()
