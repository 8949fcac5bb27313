"""The keys of the store's tables, as waypost.store.records lists them.

Numbers are big-endian, so that keys order as numbers do: a queue is a range of MESSAGES in list order (readings
MQDMPR 3.A).
"""

from collections.abc import Iterable
from enum import Enum
from hashlib import blake2b
from itertools import repeat
from struct import Struct
from typing import Final

from waypost.store.records import decode_text, encode_text

_QUEUE_KEY: Final = Struct(">Q")
_MESSAGE_KEY: Final = Struct(">QQ")
# Also of a claim: what kind of key it is, and a queue id.
_SEQUENCE_KEY: Final = Struct(">BQ")
_INCOMING, _OUTGOING, _ADDRESS = 0, 1, 2
TOTALS_PREFIX: Final = b"queue:"
_MET_HOST: Final = b"met_host:"
_RENUMBERING: Final = b"renumbering:"
_DESTINATION, _KEPT_ACK, _ADMITTED = b"destination:", b"kept_ack:", b"admitted:"
_KEPT_ACK_KEY: Final = Struct(">QII")
_BYTES: Final = b"\1"
_CLAIM, _STAGE, _BATCHES, _COMMITS, _FRAME, _DONE, _LOST_RUN = 0, 1, 2, 3, 4, 5, 6
# Bytes of the digest of a destination or a query.
_PLACE: Final = 16
_FRAME_KEY: Final = Struct(">B16sI")


class Counter(Enum):
    """Numbers that outlive the process. The stored number is the end of a block of which any part may be used up."""

    SEQUENTIAL_ID = b"sequential_id"
    MESSAGE_ID_ORDINAL = b"message_id_ordinal"
    QUEUE_ID = b"queue_id"
    PRIVATE_QUEUE_NUMBER = b"private_queue_number"
    TRANSACTION_NUMBER = b"transaction_number"
    # The greatest TimeStamp of an outgoing transactional sequence.
    SEQUENCE_TIME_STAMP = b"sequence_time_stamp"
    # The latest time of the clock that a record with a transactional message was made at, to the minute.
    LATEST_TIME = b"latest_time"


QUEUE_MANAGER_KEY: Final = b"queue_manager"
RESTORED_KEY: Final = b"restored"


def message_key(queue_id: int, lookup_id: int) -> bytes:
    return _MESSAGE_KEY.pack(queue_id, lookup_id)


def message_keys(queue_id: int, lookup_ids: Iterable[int]) -> list[bytes]:
    """The same for many messages of a queue."""
    return list(map(_MESSAGE_KEY.pack, repeat(queue_id), lookup_ids))


def lookup_id_of(key: bytes) -> int:
    """The LookupIdentifier in a key of MESSAGES."""
    return int.from_bytes(key[8:], "big")


def message_range(queue_id: int) -> tuple[bytes, bytes]:
    """Start and stop of the keys of all messages of a queue."""
    return _QUEUE_KEY.pack(queue_id), _QUEUE_KEY.pack(queue_id + 1)


def damaged_bytes_key(message: bytes) -> bytes:
    """Of what was found in place of the message with this key."""
    return message + _BYTES


def is_damaged_bytes(key: bytes) -> bool:
    """Whether a key of DAMAGED is such a one."""
    return len(key) > _MESSAGE_KEY.size


def queue_key(queue_id: int) -> bytes:
    return _QUEUE_KEY.pack(queue_id)


def queue_id_of(key: bytes) -> int:
    """The queue id that a key of QUEUES or MESSAGES starts with."""
    return int.from_bytes(key[:8], "big")


def incoming_sequence_key(queue_id: int, source: bytes) -> bytes:
    """readings MQQB 3.18: sequences are kept per source queue manager and destination queue."""
    return _SEQUENCE_KEY.pack(_INCOMING, queue_id) + source


def incoming_sequence_range(queue_id: int) -> tuple[bytes, bytes]:
    return _SEQUENCE_KEY.pack(_INCOMING, queue_id), _SEQUENCE_KEY.pack(_INCOMING, queue_id + 1)


def all_incoming_sequences() -> tuple[bytes, bytes]:
    return bytes([_INCOMING]), bytes([_INCOMING + 1])


def outgoing_sequence_key(queue_id: int) -> bytes:
    return _SEQUENCE_KEY.pack(_OUTGOING, queue_id)


def all_outgoing_sequences() -> tuple[bytes, bytes]:
    return bytes([_OUTGOING]), bytes([_OUTGOING + 1])


def sequence_address_key(queue_id: int, address: bytes) -> bytes:
    """Of the sources that send to a queue from an address."""
    return _SEQUENCE_KEY.pack(_ADDRESS, queue_id) + address


def sequence_address_range(queue_id: int) -> tuple[bytes, bytes]:
    return _SEQUENCE_KEY.pack(_ADDRESS, queue_id), _SEQUENCE_KEY.pack(_ADDRESS, queue_id + 1)


def all_sequence_addresses() -> tuple[bytes, bytes]:
    return bytes([_ADDRESS]), bytes([_ADDRESS + 1])


def sequence_of(key: bytes) -> tuple[int, bytes | None]:
    """The queue id in a key of SEQUENCES, and the source queue manager of an incoming one."""
    return int.from_bytes(key[1:9], "big"), key[9:] if key[0] == _INCOMING else None


def is_sequence_address(key: bytes) -> bool:
    """Whether a key of SEQUENCES is that of an AddressRecord."""
    return key[0] == _ADDRESS


def sequence_address_of(key: bytes) -> tuple[int, bytes]:
    """The queue id and the address in the key of an AddressRecord."""
    return int.from_bytes(key[1:9], "big"), key[9:]


def duplicates_key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def duplicates_number_of(key: bytes) -> int:
    return int.from_bytes(key, "big")


def totals_key(queue_id: int) -> bytes:
    return TOTALS_PREFIX + _QUEUE_KEY.pack(queue_id)


def destination_key(digest: bytes) -> bytes:
    """By a digest of a format name, which may be longer than a key."""
    return _DESTINATION + digest


def kept_ack_key(sequence_identifier: int, sequence_number: int, message_id: int, address: str) -> bytes:
    return _KEPT_ACK + _KEPT_ACK_KEY.pack(sequence_identifier, sequence_number, message_id) + encode_text(address)


def admitted_key(guid: bytes, address: str) -> bytes:
    return _ADMITTED + guid + encode_text(address)


def admitted_of(key: bytes) -> tuple[bytes, str]:
    """The GUID and the address in such a key."""
    at = len(_ADMITTED)
    return key[at : at + 16], decode_text(key[at + 16 :], "address")


def destination_range() -> tuple[bytes, bytes]:
    return _whole(_DESTINATION)


def kept_ack_range() -> tuple[bytes, bytes]:
    return _whole(_KEPT_ACK)


def admitted_range() -> tuple[bytes, bytes]:
    return _whole(_ADMITTED)


def met_host_key(host: str) -> bytes:
    return _MET_HOST + encode_text(host)


def met_host_of(key: bytes) -> str:
    return decode_text(key.removeprefix(_MET_HOST), "met host")


def met_host_range() -> tuple[bytes, bytes]:
    """Start and stop of the keys of all hosts that were met."""
    return _whole(_MET_HOST)


def renumbering_key(queue_id: int) -> bytes:
    return _RENUMBERING + _QUEUE_KEY.pack(queue_id)


def renumbering_queue_of(key: bytes) -> int:
    """The queue id in such a key."""
    return int.from_bytes(key[len(_RENUMBERING) :], "big")


def renumbering_range() -> tuple[bytes, bytes]:
    """Start and stop of all of them."""
    return _whole(_RENUMBERING)


def _whole(prefix: bytes) -> tuple[bytes, bytes]:
    """Start and stop of all keys that begin like this."""
    return prefix, prefix[:-1] + bytes([prefix[-1] + 1])


def directory_key(object_type: int, identifier: bytes) -> bytes:
    """The objects of a type stand together, in the order of their identifiers."""
    return bytes([object_type]) + identifier


def object_type_of(key: bytes) -> int:
    """The number of the type in a key of DIRECTORY."""
    return key[0]


def object_identifier_of(key: bytes) -> bytes:
    return key[1:]


def claim_key(queue_id: int, claim: str) -> bytes:
    """The claims on a queue stand together."""
    return _SEQUENCE_KEY.pack(_CLAIM, queue_id) + encode_text(claim)


def stage_key(identifier: bytes) -> bytes:
    return bytes([_STAGE]) + identifier


def batches_key(query: str) -> bytes:
    return bytes([_BATCHES]) + encode_text(query)


def frame_key(stage: bytes, number: int) -> bytes:
    """The frames of a stage stand together, in their order."""
    return _FRAME_KEY.pack(_FRAME, stage, number)


def frame_range(stage: bytes) -> tuple[bytes, bytes]:
    """All frames of a stage."""
    start = bytes([_FRAME]) + stage
    return start, start + b"\xff" * 5


def all_frames() -> tuple[bytes, bytes]:
    return bytes([_FRAME]), bytes([_FRAME + 1])


def commits_key(query: str, destination: str | None) -> bytes:
    """A destination may be longer than a key has room for, so that its digest stands for it; zeros stand for all."""
    place = bytes(_PLACE) if destination is None else _digest(destination)
    return bytes([_COMMITS]) + place + encode_text(query)


def done_key(query: str, destination: str | None) -> bytes:
    """The commits of a query stand together, by their destinations, for which digests stand as in `commits_key`."""
    place = bytes(_PLACE) if destination is None else _digest(destination)
    return bytes([_DONE]) + _digest(query) + place


def done_range(query: str | None = None) -> tuple[bytes, bytes]:
    """The commits of a query, or of all."""
    if query is None:
        return bytes([_DONE]), bytes([_DONE + 1])
    start = bytes([_DONE]) + _digest(query)
    return start, start + b"\xff" * (_PLACE + 1)


def lost_run_key(query: str, run: bytes) -> bytes:
    """The lost runs of a query stand together."""
    return bytes([_LOST_RUN]) + _digest(query) + run


def lost_run_range() -> tuple[bytes, bytes]:
    """All lost runs. They have the last keys of BULK."""
    return bytes([_LOST_RUN]), bytes([_LOST_RUN + 1])


def held_range() -> tuple[bytes, bytes]:
    """All claims and stages."""
    return bytes([_CLAIM]), bytes([_STAGE + 1])


def old_commits_range() -> tuple[bytes, bytes]:
    """All commits of the two old forms."""
    return bytes([_BATCHES]), bytes([_COMMITS + 1])


def _digest(text: str) -> bytes:
    return blake2b(encode_text(text), digest_size=_PLACE).digest()


def claim_of(key: bytes) -> tuple[int, str] | None:
    """The queue id and the text in the key of a claim; None for another key of BULK."""
    return (int.from_bytes(key[1:9], "big"), decode_text(key[9:], "claim")) if key[0] == _CLAIM else None


def stage_of(key: bytes) -> bytes | None:
    """The GUID in the key of a stage; None for another key of BULK."""
    return key[1:] if key[0] == _STAGE else None


def query_of(key: bytes) -> str | None:
    """The query in the key of its batches; None for another key of BULK."""
    return decode_text(key[1:], "batches") if key[0] == _BATCHES else None


def committing_query_of(key: bytes) -> str | None:
    """The query in the key of its commits for a destination; None for another key of BULK."""
    return decode_text(key[1 + _PLACE :], "commits") if key[0] == _COMMITS else None


def frame_of(key: bytes) -> tuple[bytes, int] | None:
    """The GUID of the stage and the number in the key of a frame; None for another key of BULK."""
    return (key[1:17], int.from_bytes(key[17:], "big")) if key[0] == _FRAME else None


def lost_run_of(key: bytes) -> bytes | None:
    """The GUID of the run in the key of a lost run; None for another key of BULK."""
    return key[1 + _PLACE :] if key[0] == _LOST_RUN else None


def is_done(key: bytes) -> bool:
    """Whether it is the key of the commits of a query for a destination, in the present form."""
    return key[0] == _DONE
