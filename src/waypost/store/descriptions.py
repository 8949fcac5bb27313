"""The records of the store by name, for sentences about them. waypost.store.records lists their keys."""

import struct
from collections.abc import Callable
from typing import Final

from waypost.errors import StoreDamaged
from waypost.guid import guid_text
from waypost.store import keys
from waypost.store.port import Table
from waypost.store.user_records import LOST_KEY, STATE_KEY, audit_number_of

_GUID_SIZE: Final = 16


def describe(table: Table, key: bytes) -> str:
    """A description of the record under this key: `message 7 of queue 3`. An invalid key is shown as it is."""
    try:
        return _DESCRIPTIONS[table](key)
    except (ValueError, StoreDamaged, struct.error):
        return f"the record {key.hex()} of the table {table.name.lower()}"


def _message(key: bytes) -> str:
    _demand(len(key) == len(keys.message_key(0, 0)))
    return f"message {keys.lookup_id_of(key)} of queue {keys.queue_id_of(key)}"


def _queue(key: bytes) -> str:
    _demand(len(key) == len(keys.queue_key(0)))
    return f"the record of queue {keys.queue_id_of(key)}"


def _sequence(key: bytes) -> str:
    _demand(len(key) >= len(keys.outgoing_sequence_key(0)))
    queue, source = keys.sequence_of(key)
    if keys.is_sequence_address(key):
        return f"the record of the senders at {key[9:].hex()} for queue {queue}"
    if source is None:
        _demand(key == keys.outgoing_sequence_key(queue))
        return f"the outgoing sequence of queue {queue}"
    return f"the incoming sequence from {guid_text(source[:_GUID_SIZE])} to queue {queue}"


def _transaction(key: bytes) -> str:
    return f"the prepared transaction {guid_text(key)}"


def _duplicates(key: bytes) -> str:
    return f"block {keys.duplicates_number_of(key)} of the table of messages that have arrived"


def _counter(key: bytes) -> str:
    if key.startswith(keys.TOTALS_PREFIX):
        return f"the count of messages of queue {int.from_bytes(key[len(keys.TOTALS_PREFIX) :], 'big')}"
    if key == keys.QUEUE_MANAGER_KEY:
        return "the record of the queue manager"
    name = key.split(b":")[0].decode("ascii")
    return f"the record {name} of the queue manager"


def _directory(key: bytes) -> str:
    return f"the directory object {guid_text(keys.object_identifier_of(key))}"


def _bulk(key: bytes) -> str:
    if (claim := keys.claim_of(key)) is not None:
        return f"the claim {claim[1]} on queue {claim[0]}"
    if (stage := keys.stage_of(key)) is not None:
        return f"the stage {guid_text(stage)}"
    if (frame := keys.frame_of(key)) is not None:
        return f"frame {frame[1]} of the stage {guid_text(frame[0])}"
    if keys.is_done(key):
        return f"the committed batches {key[1:].hex()} of a query"
    if (run := keys.lost_run_of(key)) is not None:
        return f"the lost run {guid_text(run)} of a query"
    query = keys.query_of(key) or keys.committing_query_of(key)
    _demand(query is not None)
    return f"the committed batches of the query {query}"


def _user(key: bytes) -> str:
    if key == STATE_KEY:
        return "the record of the users"
    if key == LOST_KEY:
        return "the record of lost users"
    kind, _, name = key.partition(b":")
    _demand(kind in (b"user", b"group"))
    return f"the {kind.decode('ascii')} {name.decode('utf-8')}"


def _demand(holds: bool) -> None:  # noqa: FBT001
    if not holds:
        raise ValueError


_DESCRIPTIONS: Final[dict[Table, Callable[[bytes], str]]] = {
    Table.MESSAGES: _message,
    Table.POSITIONS: lambda key: f"the position of {_message(key)}",
    Table.QUEUES: _queue,
    Table.SEQUENCES: _sequence,
    Table.TRANSACTIONS: _transaction,
    Table.DUPLICATES: _duplicates,
    Table.COUNTERS: _counter,
    Table.DIRECTORY: _directory,
    Table.BULK: _bulk,
    Table.USERS: _user,
    Table.AUDIT: lambda key: f"entry {audit_number_of(key)} of the audit trail",
    Table.DAMAGED: lambda key: f"the remains of {_message(key[: len(keys.message_key(0, 0))])}",
}
