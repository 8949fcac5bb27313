"""Facts in a batch for the disk of a host: messages that come and go, and the positions of sequences."""

from dataclasses import dataclass, field
from typing import Final

from waypost.core.message import Message
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OutgoingQueue
from waypost.node.message_records import message_of
from waypost.node.node import Node
from waypost.store import keys
from waypost.store.port import Action, Batch, Table
from waypost.store.records import SequenceRecord
from waypost.store.sequence_records import IncomingRecord
from waypost.wire.format_names import Suffix

# The number of a queue, and a LookupIdentifier in it.
Place = tuple[int, int]

OUTGOING: Final = "outgoing"
JOURNAL: Final = ";journal"
DEAD: Final = (";deadletter", ";deadxact")
_SYSTEM: Final = {Suffix.JOURNAL: JOURNAL, Suffix.DEADLETTER: DEAD[0], Suffix.DEADXACT: DEAD[1]}


@dataclass(slots=True)
class Put:
    """A message that a batch writes. `role` is that of its queue; `counts` the numbers of arrivals before and after."""

    place: Place
    role: str
    message: Message
    counts: tuple[int, int]


@dataclass(slots=True)
class Facts:
    """The content of a batch. An end of `gone` is the place after the last one."""

    puts: list[Put] = field(default_factory=list)
    gone: list[tuple[Place, Place]] = field(default_factory=list)
    sequences: list[tuple[bytes, SequenceRecord]] = field(default_factory=list)
    forgotten: list[tuple[bytes, bytes]] = field(default_factory=list)


def facts_of(batch: Batch, node: Node, counts: tuple[int, int]) -> Facts:
    """Facts in a batch. `counts`: the numbers of messages that came over the network before it, and with it."""
    facts = Facts()
    manager = node.manager
    for action, table, key, value in batch.operations:
        if table is Table.MESSAGES:
            if action is Action.PUT:
                place = place_of(key)
                facts.puts.append(Put(place, role_of(manager, place[0]), message_of(value, place[1]), counts))
            else:
                end = (place := place_of(key))[0], place[1] + 1
                facts.gone.append((place, end if action is Action.DELETE else place_of(value)))
        elif table is Table.SEQUENCES:
            if action is Action.PUT:
                facts.sequences += _sequence_facts(key, value)
            else:
                facts.forgotten.append((key, value if action is Action.DELETE_RANGE else key + b"\xff" * 5))
    return facts


def place_of(key: bytes) -> Place:
    return keys.queue_id_of(key), int.from_bytes(key[8:16].ljust(8, b"\0"), "big")


def role_of(manager: QueueManager, number: int) -> str:
    """The key of the queue of an application with this number, or the role of another queue."""
    for suffix, system in manager.system_queues.items():
        if system.number == number:
            return _SYSTEM[suffix]
    queue = manager.collection.by_number.get(number)
    if queue is None:
        return ""
    if isinstance(queue, OutgoingQueue):
        return OUTGOING
    return f"{queue.pathname.queue};journal" if queue.is_journal else queue.pathname.queue


def _sequence_facts(key: bytes, value: bytes) -> list[tuple[bytes, SequenceRecord]]:
    """The positions of the sequences in a record of SEQUENCES, each under a key that begins with that of the record."""
    if keys.is_sequence_address(key):
        return []
    if keys.sequence_of(key)[1] is None:
        return [(key, SequenceRecord.decode(value))]
    lines = IncomingRecord.decode(value).lines
    return [(key + (line.sequence_identifier >> 32).to_bytes(4, "big"), line) for line in lines]
