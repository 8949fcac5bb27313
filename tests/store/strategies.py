"""Hypothesis strategies for the records of the store."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

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
    Written,
)
from waypost.store.queue_records import QueueKind, QueueManagerRecord, QueueRecord
from waypost.store.records import (
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
)
from waypost.store.sequence_records import AddressRecord, IncomingRecord, PlaceRecord

U8 = st.integers(0, 0xFF)
U16 = st.integers(0, 0xFFFF)
U32 = st.integers(0, 0xFFFF_FFFF)
U64 = st.integers(0, 0xFFFF_FFFF_FFFF_FFFF)
GUID = st.binary(min_size=16, max_size=16)
# Any code point: names come from packets, which can hold lone surrogates.
TEXT = st.text(st.characters(), max_size=12)
DATA = st.binary(max_size=40)

DETAILS: SearchStrategy[MessageDetails] = st.builds(
    MessageDetails, GUID, st.none() | GUID, st.binary(max_size=16), U32, TEXT, TEXT, TEXT
)
MESSAGES: SearchStrategy[MessageRecord] = st.builds(
    MessageRecord, DATA, st.integers(0, 0x7F), U8, U32, U32, U32, U32, st.none() | DETAILS
)
POSITIONS: SearchStrategy[PositionRecord] = st.builds(PositionRecord, U8, U64)
QUEUES: SearchStrategy[QueueRecord] = st.builds(
    QueueRecord,
    kind=st.sampled_from(QueueKind),
    privacy_level=st.integers(0, 2),
    scope=st.integers(0, 1),
    flags=U8,
    base_priority=st.integers(-0x8000, 0x7FFF),
    private_queue_number=U32,
    quota=U32,
    journal_quota=U32,
    create_time=U32,
    modify_time=U32,
    parent=U64,
    identifier=GUID,
    type_guid=GUID,
    pathname=TEXT,
    qualified_pathname=TEXT,
    label=TEXT,
    multicast_address=TEXT,
    full_path=TEXT,
    directory_path=TEXT,
    destination_format_name=TEXT,
    security=DATA,
)
QUEUE_MANAGERS: SearchStrategy[QueueManagerRecord] = st.builds(
    QueueManagerRecord, U8, U32, U32, U32, U32, U32, GUID, GUID, TEXT, DATA, st.lists(TEXT, max_size=3)
)
OPERATIONS: SearchStrategy[OperationRecord] = st.builds(
    OperationRecord, st.sampled_from(OperationType), U64, U64, U64, U16
)
TRANSACTIONS: SearchStrategy[TransactionRecord] = st.builds(
    TransactionRecord, st.booleans(), st.lists(OPERATIONS, max_size=4), DATA
)
SEQUENCES: SearchStrategy[SequenceRecord] = st.builds(SequenceRecord, U64, U32, U32, U32)
ADDRESSES: SearchStrategy[AddressRecord] = st.builds(AddressRecord, U32, U32)
TOTALS: SearchStrategy[TotalsRecord] = st.builds(TotalsRecord, U64, U64)
IDENTIFIERS = st.lists(st.binary(min_size=28, max_size=28), max_size=3).map(b"".join)
DUPLICATES: SearchStrategy[DuplicatesRecord] = st.builds(
    DuplicatesRecord, U32, IDENTIFIERS, st.sampled_from(["", "10.0.0.1", "2001:db8::", "x" * 255])
)
COUNTERS: SearchStrategy[CounterRecord] = st.builds(CounterRecord, U64)
SECONDS = st.floats(allow_nan=False, allow_infinity=False)
SPANS = st.lists(
    st.builds(lambda first, count: range(first, first + count), st.integers(0, 1 << 62), st.integers(1, 1000)),
    max_size=3,
)
CLAIMS: SearchStrategy[ClaimRecord] = st.builds(
    ClaimRecord,
    *(SECONDS, U32, U64, U64, U64, SPANS),
    term=U64,
    driver=TEXT,
    asked=SECONDS,
    leader=TEXT,
    is_lost=st.booleans(),
    query=TEXT,
    batch=st.none() | U32,
    written=st.sampled_from(Written),
    run=GUID,
    past=st.lists(GUID, max_size=3).map(tuple),
)
STAGES: SearchStrategy[StageRecord] = st.builds(
    StageRecord,
    SECONDS,
    U64,
    TEXT,
    st.lists(st.builds(RunRecord, U64, st.booleans(), SPANS), min_size=1, max_size=3),
    st.none() | TEXT,
    GUID,
) | st.builds(
    StageRecord,
    SECONDS,
    U64,
    TEXT,
    destination=st.none() | TEXT,
    run=GUID,
    write=GUID,
    partition=U32,
    serial=U32,
    number=U64,
    frames=st.just(9),
    left=st.integers(0, 1_000_000),
    size=U64,
    queues=st.lists(U64, max_size=3),
    commit=U64,
    place=U32,
    frames_done=st.integers(0, 9),
    messages_done=U32,
)
FRAMES: SearchStrategy[FrameRecord] = st.builds(
    FrameRecord,
    st.lists(
        st.builds(
            FrameRun,
            U64,
            st.booleans(),
            st.binary(max_size=9),
            st.lists(st.binary(max_size=9), min_size=1, max_size=3),
        ),
        max_size=3,
    ),
)
BATCHES: SearchStrategy[BatchesRecord] = st.builds(
    BatchesRecord, U64, st.lists(U64, max_size=4, unique=True).map(sorted)
)
MET = st.lists(st.tuples(GUID, TEXT), max_size=3)
DESTINATIONS: SearchStrategy[DestinationRecord] = st.builds(DestinationRecord, TEXT, U64, U32, MET)
KEPT_ACKS: SearchStrategy[KeptAckRecord] = st.builds(KeptAckRecord, U64, U32, U32, U16, U32, GUID, GUID, TEXT)
ADMITTED: SearchStrategy[AdmittedRecord] = st.builds(AdmittedRecord, U32)


@st.composite
def _commits(draw: st.DrawFn) -> CommitsRecord:
    batches = sorted(draw(st.lists(U64, max_size=4, unique=True)))
    commits = [CommitRecord(batch, draw(GUID), draw(GUID), draw(U32)) for batch in batches]
    return CommitsRecord(draw(U64), draw(st.none() | TEXT), commits)


COMMITS: SearchStrategy[CommitsRecord] = _commits()


@st.composite
def _done(draw: st.DrawFn) -> DoneRecord:
    places = sorted(draw(st.lists(st.tuples(U64, U32), max_size=4, unique=True)))
    commits = [CommitRecord(batch, draw(GUID), draw(GUID), draw(U32), ordinal, draw(GUID)) for batch, ordinal in places]
    passed = draw(st.lists(st.builds(PassedWrite, U64, GUID, GUID), max_size=3))
    return DoneRecord(draw(TEXT), draw(st.none() | TEXT), draw(U64), draw(U32), commits, passed)


DONE: SearchStrategy[DoneRecord] = _done()
LOST_RUNS: SearchStrategy[LostRunRecord] = st.builds(LostRunRecord, TEXT, TEXT, U64)


@st.composite
def _incoming(draw: st.DrawFn) -> IncomingRecord:
    lines = draw(st.lists(SEQUENCES, max_size=3))
    address = st.binary(min_size=4, max_size=4) | st.binary(min_size=8, max_size=8) | st.just(b"")
    place = st.builds(PlaceRecord, address, st.integers(0, len(lines) - 1), U32, st.lists(U32, max_size=16))
    return IncomingRecord(draw(st.integers(0, 3)), lines, draw(st.lists(place, max_size=3)) if lines else [])


INCOMING: SearchStrategy[IncomingRecord] = _incoming()
