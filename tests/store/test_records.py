"""The keys and records of the store: order, exactness, versions, hostile bytes."""

from dataclasses import replace
from typing import Protocol, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store import strategies
from waypost.errors import StoreDamaged, StoreTooNew
from waypost.guid import NULL_GUID
from waypost.store import keys
from waypost.store.ack_records import AdmittedRecord, DestinationRecord, KeptAckRecord
from waypost.store.bulk_records import (
    BatchesRecord,
    ClaimRecord,
    CommitRecord,
    CommitsRecord,
    DoneRecord,
    FrameRecord,
    FrameRun,
    LostRunRecord,
    PassedWrite,
    RunRecord,
    StageRecord,
)
from waypost.store.queue_records import QueueKind, QueueManagerRecord, QueueRecord
from waypost.store.records import (
    VERSION,
    CounterRecord,
    DuplicatesRecord,
    MessageDetails,
    MessageRecord,
    OperationRecord,
    OperationType,
    PositionRecord,
    SequenceRecord,
    TotalsRecord,
    TransactionRecord,
    split_messages,
)
from waypost.store.sequence_records import AddressRecord, IncomingRecord, PlaceRecord


class Record(Protocol):
    @classmethod
    def decode(cls, value: bytes) -> Self: ...
    def encode(self) -> bytes: ...


RECORDS: list[type[Record]] = [
    MessageRecord,
    PositionRecord,
    QueueRecord,
    QueueManagerRecord,
    TotalsRecord,
    SequenceRecord,
    TransactionRecord,
    DuplicatesRecord,
    CounterRecord,
    ClaimRecord,
    StageRecord,
    BatchesRecord,
    DestinationRecord,
    KeptAckRecord,
    AdmittedRecord,
    CommitsRecord,
    DoneRecord,
    LostRunRecord,
    FrameRecord,
    IncomingRecord,
    AddressRecord,
]
# Of those that have another version than the first.
NEWEST: dict[type[Record], int] = {DuplicatesRecord: 2, ClaimRecord: 2, StageRecord: 3, IncomingRecord: 2}
ANY_RECORD = st.one_of(
    strategies.MESSAGES,
    strategies.POSITIONS,
    strategies.QUEUES,
    strategies.QUEUE_MANAGERS,
    strategies.TOTALS,
    strategies.SEQUENCES,
    strategies.TRANSACTIONS,
    strategies.DUPLICATES,
    strategies.COUNTERS,
    strategies.CLAIMS,
    strategies.STAGES,
    strategies.BATCHES,
    strategies.DESTINATIONS,
    strategies.KEPT_ACKS,
    strategies.ADMITTED,
    strategies.COMMITS,
    strategies.DONE,
    strategies.LOST_RUNS,
    strategies.FRAMES,
    strategies.INCOMING,
    strategies.ADDRESSES,
)


def newest(cls: type[Record]) -> int:
    """The newest format of a record."""
    return NEWEST.get(cls, VERSION)


@given(ANY_RECORD)
def test_a_record_comes_back_as_it_went_in(record: Record) -> None:
    value = record.encode()
    assert VERSION <= value[0] <= newest(type(record))
    decoded = type(record).decode(value)
    assert decoded == record
    assert decoded.encode() == value


@given(st.sampled_from(RECORDS), st.binary(max_size=120))
def test_any_bytes_give_a_record_with_these_bytes_or_an_error(cls: type[Record], data: bytes) -> None:
    for value in (data, bytes([VERSION]) + data, bytes([newest(cls)]) + data):
        try:
            record = cls.decode(value)
        except (StoreDamaged, StoreTooNew):
            continue
        assert record.encode() == value or value[0] < NEWEST.get(cls, VERSION)


@given(ANY_RECORD, st.data())
def test_a_record_with_one_changed_byte_is_another_record_or_an_error(record: Record, data: st.DataObject) -> None:
    value = bytearray(record.encode())
    value[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        other = type(record).decode(bytes(value))
    except (StoreDamaged, StoreTooNew):
        return
    # One of an older version is written in the newest.
    assert other.encode() == value or value[0] < newest(type(record))


@given(ANY_RECORD)
def test_a_newer_version_is_named(record: Record) -> None:
    too_new = newest(type(record)) + 1
    with pytest.raises(
        StoreTooNew, match=rf"record has format {too_new}, but this version of Waypost supports only formats up to"
    ):
        type(record).decode(bytes([too_new]) + record.encode()[1:])


@given(ANY_RECORD)
def test_an_older_version_than_the_first_is_damage(record: Record) -> None:
    with pytest.raises(StoreDamaged):
        type(record).decode(b"\0" + record.encode()[1:])


@pytest.mark.parametrize("cls", RECORDS)
def test_an_empty_value_is_damage(cls: type[Record]) -> None:
    with pytest.raises(StoreDamaged):
        cls.decode(b"")


@pytest.mark.parametrize(
    "record",
    [
        QueueRecord(QueueKind.PRIVATE, label="x"),
        TotalsRecord(1, 2),
        CounterRecord(1),
        DuplicatesRecord(1, bytes(40)),
        DuplicatesRecord(1, bytes(56), "10.0.0.1"),
        SequenceRecord(1, 2),
        AddressRecord(1, 2),
        IncomingRecord(1, [SequenceRecord(1, 2)], [PlaceRecord(b"1234", 0, 5, [6, 7])]),
        ClaimRecord(1.0, spans=[range(1, 3)]),
        StageRecord(1.0, 0, "q", [RunRecord(1, is_quiet=True, spans=[range(1, 3)])]),
        BatchesRecord(1, [1, 2]),
        CommitsRecord(1, None, [CommitRecord(1)]),
        DoneRecord("q", "there", 1, 2, [CommitRecord(1)], [PassedWrite(1, bytes(16), bytes(16))]),
        StageRecord(1.0, 0, "q", frames=2, left=3, queues=[7]),
        FrameRecord([FrameRun(1, is_quiet=True, head=b"h", packets=[b"p", b""])]),
    ],
)
def test_a_byte_too_many_or_too_few_is_damage(record: Record) -> None:
    value = record.encode()
    for damaged in (value + b"\0", value[:-1]):
        with pytest.raises(StoreDamaged):
            type(record).decode(damaged)


def test_a_count_beyond_the_data_is_refused_before_it_is_used() -> None:
    value = bytearray(TransactionRecord(operations=[OperationRecord(OperationType.MOVE, 1, 2, 3)]).encode())
    value[2:6] = b"\xff\xff\xff\xff"
    with pytest.raises(StoreDamaged):
        TransactionRecord.decode(bytes(value))


@pytest.mark.parametrize("spans", [[range(1, 1)], [range(1, 2_000_000)], [range(1 << 63, (1 << 63) + 1)]])
def test_spans_that_no_claim_can_have_are_damage(spans: list[range]) -> None:
    with pytest.raises(StoreDamaged):
        ClaimRecord.decode(ClaimRecord(1.0, spans=spans).encode())


@pytest.mark.parametrize("record", [CommitsRecord(1), DoneRecord("q", None, 1, 1)])
def test_commits_that_are_out_of_order_are_damage(record: CommitsRecord | DoneRecord) -> None:
    record.commits = [CommitRecord(2), CommitRecord(1)]
    with pytest.raises(StoreDamaged):
        type(record).decode(record.encode())


@given(strategies.TEXT, st.none() | strategies.TEXT)
def test_the_commits_of_a_query_stand_together(query: str, destination: str | None) -> None:
    key = keys.done_key(query, destination)
    for start, stop in (keys.done_range(query), keys.done_range()):
        assert start <= key < stop
    start, stop = keys.done_range(query + "x")
    assert not start <= key < stop
    assert keys.is_done(key)


@given(strategies.GUID, strategies.U32)
def test_the_frames_of_a_stage_stand_together(stage: bytes, number: int) -> None:
    key = keys.frame_key(stage, number)
    start, stop = keys.frame_range(stage)
    assert start <= key < stop
    assert keys.frame_of(key) == (stage, number)
    assert keys.frame_of(keys.stage_key(stage)) is None


@given(strategies.TEXT, st.none() | strategies.TEXT)
def test_the_key_of_commits_tells_their_query_and_fits(query: str, destination: str | None) -> None:
    key = keys.commits_key(query, destination)
    assert keys.committing_query_of(key) == query
    assert (keys.claim_of(key), keys.stage_of(key), keys.query_of(key)) == (None, None, None)
    assert len(key) == 17 + len(query.encode("utf-8", "surrogatepass"))


@given(strategies.U64, strategies.TEXT)
def test_the_key_of_a_claim_tells_whose_it_is(queue_id: int, name: str) -> None:
    key = keys.claim_key(queue_id, name)
    assert keys.claim_of(key) == (queue_id, name)
    assert (keys.stage_of(key), keys.query_of(key)) == (None, None)


@given(strategies.GUID, strategies.TEXT)
def test_the_keys_of_stages_and_batches_tell_what_they_are(identifier: bytes, query: str) -> None:
    stage, batches = keys.stage_key(identifier), keys.batches_key(query)
    assert (keys.claim_of(stage), keys.stage_of(stage), keys.query_of(stage)) == (None, identifier, None)
    assert (keys.claim_of(batches), keys.stage_of(batches), keys.query_of(batches)) == (None, None, query)


def test_a_key_that_is_no_text_is_damage() -> None:
    with pytest.raises(StoreDamaged):
        keys.query_of(b"\x02\xff")


def test_a_message_keeps_its_packet_untouched_at_the_end() -> None:
    packet = bytes(range(256)) * 8
    details = MessageDetails(target_subqueue="retry", origin_address=b"\x0a\0\0\x01")
    value = MessageRecord(packet, details=details).encode()
    assert value.endswith(packet)
    assert MessageRecord.decode(value).packet == packet


ORIGINS = st.builds(MessageDetails, st.just(NULL_GUID), strategies.GUID, st.sampled_from([b"", bytes(4), bytes(16)]))
SOME_ORIGINS = [MessageDetails(origin_queue_manager=bytes([at]) * 16, origin_address=bytes(4 * at)) for at in (1, 1, 4)]


@given(
    st.lists(strategies.MESSAGES, max_size=6)
    | st.lists(st.builds(replace, strategies.MESSAGES, details=st.none() | st.sampled_from(SOME_ORIGINS) | ORIGINS))
)
def test_messages_are_split_as_each_is_decoded(records: list[MessageRecord]) -> None:
    heads, packets = split_messages([record.encode() for record in records])
    assert packets == [record.packet for record in records]
    assert heads == b"".join(replace(record, packet=b"", details=None).encode() for record in records)


@pytest.mark.parametrize("size", [19, 20, 50, 71, 72, 75])
@pytest.mark.parametrize("others", [0, 2])
def test_a_message_whose_details_are_cut_is_damage_in_bulk_too(size: int, others: int) -> None:
    whole = MessageRecord(b"packet", details=SOME_ORIGINS[0]).encode()
    with pytest.raises(StoreDamaged):
        split_messages([whole] * others + [whole[:size]])


@pytest.mark.parametrize("changed", [{0: 2}, {0: 0}, {0: 0xFF}])
def test_details_that_cannot_be_are_damage_in_bulk_too(changed: dict[int, int]) -> None:
    whole = bytearray(MessageRecord(b"packet", details=SOME_ORIGINS[0]).encode())
    for at, value in changed.items():
        whole[19 + at] = value
    with pytest.raises(StoreDamaged):
        split_messages([bytes(whole)])


@given(*[st.tuples(strategies.U64, strategies.U64)] * 2)
def test_message_keys_order_by_queue_and_then_by_lookup_id(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (keys.message_key(*one) < keys.message_key(*other)) == (one < other)


@given(st.integers(0, (1 << 64) - 2), strategies.U64)
def test_a_queue_is_the_range_of_its_messages(queue_id: int, lookup_id: int) -> None:
    start, stop = keys.message_range(queue_id)
    key = keys.message_key(queue_id, lookup_id)
    assert start <= key < stop
    assert keys.queue_id_of(key) == queue_id == keys.queue_id_of(keys.queue_key(queue_id))
    assert keys.lookup_id_of(key) == lookup_id
    assert not start <= keys.message_key(queue_id + 1, lookup_id) < stop


@given(st.integers(0, (1 << 64) - 2), strategies.GUID)
def test_the_incoming_sequences_of_a_queue_are_a_range_without_the_outgoing(queue_id: int, source: bytes) -> None:
    start, stop = keys.incoming_sequence_range(queue_id)
    assert start <= keys.incoming_sequence_key(queue_id, source) < stop
    assert not start <= keys.incoming_sequence_key(queue_id + 1, source) < stop
    assert not start <= keys.outgoing_sequence_key(queue_id) < stop


@given(strategies.U64, strategies.GUID)
def test_the_key_of_a_sequence_tells_whose_it_is(queue_id: int, source: bytes) -> None:
    assert keys.sequence_of(keys.incoming_sequence_key(queue_id, source)) == (queue_id, source)
    assert keys.sequence_of(keys.outgoing_sequence_key(queue_id)) == (queue_id, None)


@given(strategies.U64, strategies.U64)
def test_blocks_of_duplicates_are_in_the_order_of_their_numbers(one: int, other: int) -> None:
    assert (keys.duplicates_key(one) < keys.duplicates_key(other)) == (one < other)
    assert keys.duplicates_number_of(keys.duplicates_key(one)) == one


def test_no_two_keys_of_the_counters_collide() -> None:
    names = [each.value for each in keys.Counter] + [keys.QUEUE_MANAGER_KEY]
    assert len(set(names)) == len(names)
    assert not any(name.startswith(keys.totals_key(1)[:6]) for name in names)
    assert len({keys.totals_key(1), keys.totals_key(2)}) == 2
