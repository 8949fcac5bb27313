"""The nontransactional messages that came, by the addresses that brought them: MS-MQQB 3.1.5.8.1 and 3.1.5.8.2."""

from functools import lru_cache
from hashlib import blake2b
from typing import Final

from waypost.clock import Now
from waypost.node.sequences import Sequences
from waypost.peers import peer_of
from waypost.routing.routes import Relays
from waypost.transfer.session import Session
from waypost.transfer.settings import TransferSettings
from waypost.wire import base_header, user_header
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.user_message import UserMessage

# SourceQueueManager and MessageID stand here in a packet: together they are the identifier of a message.
_SOURCE: Final = slice(base_header.SIZE, base_header.SIZE + 16)
_MESSAGE_ID: Final = slice(base_header.SIZE + 40, base_header.SIZE + 44)


class KnownMessages:
    """What is remembered of messages, so that one that comes again is known (waypost.transfer.duplicates)."""

    __slots__ = ("_relay_guids", "add_new", "history")

    def __init__(self, sequences: Sequences, settings: TransferSettings, relays: Relays) -> None:
        self._relay_guids: Final = relays.guids
        self.history: Final = sequences.history(
            settings.duplicate_history_size, settings.duplicate_history_s, map(peer_of, relays.addresses)
        )
        self.add_new: Final = self.history.add_new

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
        """The message is known from now on."""
        if packet.user.delivery == user_header.RECOVERABLE:
            self.history.add_recoverable(identifier, peer, now.monotonic)
        else:
            self.history.add(identifier, peer, now.monotonic)


def identifier(data: bytes, destination: bytes) -> bytes:
    """What a message is known by."""
    return data[_SOURCE] + data[_MESSAGE_ID] + destination


def destination(packet: UserMessage) -> bytes:
    """What tells copies of one message to several queues apart, which have the same identifier."""
    name = packet.user.destination_queue
    if isinstance(name, DirectQueueFormatName):
        return digest(name.direct_format_name)
    return digest(repr(name))


@lru_cache(maxsize=1024)
def digest(name: str) -> bytes:
    """The same of a direct name."""
    return blake2b(name.lower().encode("utf-16-le", "surrogatepass"), digest_size=8).digest()
