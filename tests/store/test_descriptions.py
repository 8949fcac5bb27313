"""Records by name: a sentence about damage says what was lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.guid import NULL_GUID
from waypost.store import keys
from waypost.store.descriptions import describe
from waypost.store.port import Table
from waypost.store.user_records import STATE_KEY, audit_key, group_key, user_key

GUID = bytes(range(16))
TEXT = "03020100-0504-0706-0809-0a0b0c0d0e0f"


@pytest.mark.parametrize(
    ("table", "key", "text"),
    [
        (Table.MESSAGES, keys.message_key(3, 7), "message 7 of queue 3"),
        (Table.POSITIONS, keys.message_key(3, 7), "the position of message 7 of queue 3"),
        (Table.QUEUES, keys.queue_key(3), "the record of queue 3"),
        (Table.SEQUENCES, keys.outgoing_sequence_key(3), "the outgoing sequence of queue 3"),
        (
            Table.SEQUENCES,
            keys.incoming_sequence_key(3, GUID + bytes(8)),
            f"the incoming sequence from {TEXT} to queue 3",
        ),
        (
            Table.SEQUENCES,
            keys.sequence_address_key(3, b"\x7f\0\0\1"),
            "the record of the senders at 7f000001 for queue 3",
        ),
        (Table.TRANSACTIONS, GUID, f"the prepared transaction {TEXT}"),
        (Table.DUPLICATES, keys.duplicates_key(5), "block 5 of the table of messages that have arrived"),
        (Table.COUNTERS, keys.totals_key(3), "the count of messages of queue 3"),
        (Table.COUNTERS, keys.QUEUE_MANAGER_KEY, "the record of the queue manager"),
        (Table.COUNTERS, keys.Counter.QUEUE_ID.value, "the record queue_id of the queue manager"),
        (Table.COUNTERS, keys.met_host_key("far"), "the record met_host of the queue manager"),
        (Table.DIRECTORY, keys.directory_key(1, GUID), f"the directory object {TEXT}"),
        (Table.BULK, keys.claim_key(3, "c"), "the claim c on queue 3"),
        (Table.BULK, keys.stage_key(NULL_GUID), "the stage 00000000-0000-0000-0000-000000000000"),
        (Table.BULK, keys.batches_key("q"), "the committed batches of the query q"),
        (Table.BULK, keys.commits_key("q", None), "the committed batches of the query q"),
        (Table.DAMAGED, keys.message_key(3, 7), "the remains of message 7 of queue 3"),
        (Table.DAMAGED, keys.damaged_bytes_key(keys.message_key(3, 7)), "the remains of message 7 of queue 3"),
        (Table.USERS, user_key("Ada"), "the user ada"),
        (Table.USERS, group_key("Sales"), "the group sales"),
        (Table.USERS, STATE_KEY, "the record of the users"),
        (Table.AUDIT, audit_key(7), "entry 7 of the audit trail"),
        (Table.MESSAGES, b"short", "the record 73686f7274 of the table messages"),
        (Table.COUNTERS, b"\xff", "the record ff of the table counters"),
    ],
)
def test_a_record_is_called_by_what_it_is(table: Table, key: bytes, text: str) -> None:
    assert describe(table, key) == text


@given(st.sampled_from(list(Table)), st.binary(min_size=1, max_size=40))
def test_any_key_has_a_description(table: Table, key: bytes) -> None:
    assert describe(table, key)
