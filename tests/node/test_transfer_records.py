"""MS-MQQB 3.1.1.3.2: what of transfer survives, on both stores."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.engines import Engine, LmdbEngine, MemoryEngine
from waypost.clock import Now
from waypost.core.queues import Queue, QueueAttributes
from waypost.guid import NULL_GUID
from waypost.node import queue_store, sequences
from waypost.node.incoming_store import IncomingStore, write_incoming
from waypost.store import keys
from waypost.store.port import Batch, Table
from waypost.store.records import SequenceRecord
from waypost.transfer.duplicates import MessageHistory
from waypost.transfer.incoming import ANY_ADDRESS, AddressPlace, IncomingSequences, Verdict
from waypost.transfer.order_acks import SequenceKey
from waypost.transfer.sequences import IncomingSequence, OutgoingSequence
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.path_names import PathName
from waypost.wire.transaction_header import TransactionHeader

SOURCE, OTHER_SOURCE = b"\x01" * 16, b"\x02" * 16
LARGEST = 0xFFFF_FFFF
NOW = Now(monotonic=50.0, wall=1_700_000_000.5)
PEER = "10.0.0.1"
PERIOD = 1800.0


@pytest.fixture(params=["memory", "lmdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    engine: Engine = MemoryEngine() if request.param == "memory" else LmdbEngine(tmp_path)
    yield engine
    engine.stop()


def commit(engine: Engine, batch: Batch) -> None:
    """It is durable, and the process starts again."""
    engine.store.commit(batch, 1)
    engine.restart()


def identifier(ordinal: int) -> bytes:
    """As it is kept: with eight bytes for the destination."""
    return MessageIdentifier(SOURCE, ordinal).encode() + bytes(8)


def read_incoming(engine: Engine) -> dict[SequenceKey, IncomingSequences]:
    found, _ = IncomingStore(engine.store).page(b"")
    return dict(found)


def blocks(engine: Engine) -> int:
    return len(engine.store.keys(Table.DUPLICATES, limit=1000))


def test_an_empty_store_has_nothing(engine: Engine) -> None:
    assert sequences.read_outgoing(engine.store) == {}
    assert sequences.last_time_stamp(engine.store) == 0
    history = MessageHistory(10, PERIOD)
    sequences.restore_history(engine.store, history, NOW)
    assert (len(history), history.deadline()) == (0, None)


def test_an_outgoing_sequence_goes_on_where_it_stopped(engine: Engine) -> None:
    batch = Batch()
    sequence = OutgoingSequence(TxSequenceId(3, LARGEST))
    assert [sequence.number(), sequence.number()] == [1, 2]
    sequences.write_outgoing(batch, 7, sequence)
    sequences.write_outgoing(batch, 1 << 40, OutgoingSequence(TxSequenceId(LARGEST, 1), LARGEST))
    commit(engine, batch)
    outgoing = sequences.read_outgoing(engine.store)
    assert outgoing == {7: sequence, 1 << 40: OutgoingSequence(TxSequenceId(LARGEST, 1), LARGEST)}
    assert outgoing[7].number() == 3
    assert read_incoming(engine) == {}


def test_an_accepted_message_is_a_duplicate_after_a_restart(engine: Engine) -> None:
    batch = Batch()
    first = TransactionHeader(0, TxSequenceId(1, LARGEST).value, 1, 0)
    taken = IncomingSequences()
    taken.take("10.0.0.1", first, NOW.wall)
    many = IncomingSequences()
    for number, address in enumerate(("10.0.0.1", "2001:db8:0:7::", "10.0.0.2")):
        many.take(address, TransactionHeader(0, TxSequenceId(1, number).value, LARGEST - 1, 0), NOW.wall)
        many.take(address, TransactionHeader(0, TxSequenceId(2, number + 9).value, 1, 0), NOW.wall)
    write_incoming(batch, (SOURCE, 7), taken)
    write_incoming(batch, (OTHER_SOURCE, 7), many)
    write_incoming(batch, (SOURCE, 8), IncomingSequences(takes_any=True))
    commit(engine, batch)
    assert sequences.read_outgoing(engine.store) == {}
    incoming = read_incoming(engine)
    assert incoming == {(SOURCE, 7): taken, (OTHER_SOURCE, 7): many, (SOURCE, 8): IncomingSequences(takes_any=True)}
    assert incoming[SOURCE, 7].judge("10.0.0.1", first, NOW.wall) is Verdict.BEFORE


def test_a_record_of_the_first_format_is_of_every_address(engine: Engine) -> None:
    batch = Batch()
    value = SequenceRecord(TxSequenceId(3, 70).value, 5, 2, 1_700_000_000).encode()
    batch.put(Table.SEQUENCES, keys.incoming_sequence_key(7, SOURCE), value)
    commit(engine, batch)
    sequence = IncomingSequence(TxSequenceId(3, 70).value, 5, 2, 1_700_000_000)
    of_every_address = {ANY_ADDRESS: AddressPlace(70, 1_700_000_000)}
    assert read_incoming(engine) == {(SOURCE, 7): IncomingSequences({70: sequence}, of_every_address, went_on=True)}


def test_the_sequences_of_a_queue_go_with_it(engine: Engine) -> None:
    attributes = QueueAttributes(PathName.parse("host\\private$\\orders"))
    batch = Batch()
    for queue in (7, 8):
        sequences.write_outgoing(batch, queue, OutgoingSequence.first(1))
        write_incoming(batch, (SOURCE, queue), IncomingSequences(takes_any=True))
        write_incoming(batch, (b"\xff" * 16, queue), IncomingSequences(takes_any=True))
    queue_store.delete(batch, Queue(7, NULL_GUID, attributes, attributes.pathname))
    commit(engine, batch)
    assert set(sequences.read_outgoing(engine.store)) == {8}
    assert set(read_incoming(engine)) == {(SOURCE, 8), (b"\xff" * 16, 8)}


@pytest.mark.spec("MQQB-3.1.1.3.1-03")
def test_no_two_first_sequences_have_the_same_time_stamp_even_if_the_clock_goes_back(engine: Engine) -> None:
    time_stamps = []
    for queue, wall in enumerate((1_700_000_000.5, 1_700_000_000.9, 5.0, 1_800_000_000.0)):
        batch = Batch()
        last = sequences.last_time_stamp(engine.store)
        sequence = sequences.begin_outgoing(batch, queue, last, Now(0.0, wall))
        assert (sequence.sequence_id.ordinal, sequence.next_number) == (1, 1)
        time_stamps.append(sequence.sequence_id.time_stamp)
        commit(engine, batch)
        assert sequences.read_outgoing(engine.store)[queue] == sequence
    assert time_stamps == [1_700_000_000, 1_700_000_001, 1_700_000_002, 1_800_000_000]


@pytest.mark.spec("MQQB-6-08")
def test_a_duplicate_is_known_after_a_restart_for_as_long_as_without_one(engine: Engine) -> None:
    history, batch = MessageHistory(10_000, PERIOD), Batch()
    history.add(identifier(1), PEER, NOW.monotonic)
    history.add_recoverable(identifier(2), PEER, NOW.monotonic)
    sequences.write_history(batch, history, NOW)
    later = Now(NOW.monotonic + 1000, NOW.wall + 1000)
    history.add_recoverable(identifier(3), PEER, later.monotonic)
    sequences.write_history(batch, history, later)
    commit(engine, batch)

    # Another process has another monotonic clock.
    again, start = MessageHistory(10_000, PERIOD), Now(3.0, NOW.wall + 1100)
    sequences.restore_history(engine.store, again, start)
    assert len(again) == 2
    deadline = again.deadline()
    assert deadline is not None
    assert deadline == pytest.approx(3.0 - 1100 + PERIOD, abs=1.0)
    again.clean_up(deadline + 1)
    assert not again.is_duplicate(identifier(2), PEER, deadline)
    assert again.is_duplicate(identifier(3), PEER, deadline)


def test_a_clock_that_was_put_back_makes_no_message_come_in_the_future(engine: Engine) -> None:
    history, batch = MessageHistory(10, PERIOD), Batch()
    history.add_recoverable(identifier(1), PEER, NOW.monotonic)
    sequences.write_history(batch, history, NOW)
    commit(engine, batch)
    again = MessageHistory(10, PERIOD)
    sequences.restore_history(engine.store, again, Now(3.0, NOW.wall - 86_400))
    assert again.deadline() == 3.0 + PERIOD


@pytest.mark.spec("MQQB-6-08")
def test_what_is_stored_of_the_history_is_bounded_by_its_size(engine: Engine) -> None:
    history = MessageHistory(4, PERIOD)
    for turn in range(20):
        batch = Batch()
        for ordinal in (2 * turn, 2 * turn + 1):
            history.add_recoverable(identifier(ordinal), PEER, NOW.monotonic)
        sequences.write_history(batch, history, NOW)
        engine.store.commit(batch, turn)
        assert blocks(engine) == min(turn + 1, 2)
    engine.restart()
    again, batch = MessageHistory(4, PERIOD), Batch()
    sequences.restore_history(engine.store, again, NOW)
    later = Now(NOW.monotonic + PERIOD * 0.9, NOW.wall + PERIOD * 0.9)
    known = [
        again.is_duplicate(identifier(ordinal), PEER, later.monotonic, recoverable=True) for ordinal in range(34, 40)
    ]
    assert known == [False] * 2 + [True] * 4
    sequences.write_history(batch, again, later)
    engine.store.commit(batch, 20)
    assert blocks(engine) == 1, "the new block has all four, so the two before it are of no use"


def test_the_address_that_brought_a_message_is_known_after_a_restart(engine: Engine) -> None:
    history, batch = MessageHistory(2, PERIOD), Batch()
    history.add_recoverable(identifier(1), PEER, NOW.monotonic)
    for ordinal in range(10, 20):
        history.add_recoverable(identifier(ordinal), "2001:db8::", NOW.monotonic)
    sequences.write_history(batch, history, NOW)
    commit(engine, batch)
    again = MessageHistory(2, PERIOD)
    sequences.restore_history(engine.store, again, NOW)
    assert len(again) == 3
    again.add(identifier(20), "2001:db8::", NOW.monotonic)
    known = [again.is_known(identifier(ordinal)) for ordinal in (1, 18, 19, 20)]
    assert known == [True, False, True, True]


def test_what_was_written_without_an_address_is_known(engine: Engine) -> None:
    record = struct.pack("<BI", 1, int(NOW.wall)) + identifier(1) + identifier(2)
    batch = Batch()
    batch.put(Table.DUPLICATES, keys.duplicates_key(7), record)
    commit(engine, batch)
    history = MessageHistory(10, PERIOD)
    sequences.restore_history(engine.store, history, NOW)
    assert history.is_duplicate(identifier(1), PEER, NOW.monotonic)
    assert history.is_duplicate(identifier(2), "10.0.0.2", NOW.monotonic)


def test_a_batch_without_new_messages_writes_nothing(engine: Engine) -> None:
    history, batch = MessageHistory(10, PERIOD), Batch()
    history.add(identifier(1), PEER, NOW.monotonic)
    sequences.write_history(batch, history, NOW)
    assert len(batch) == 0


def test_the_clean_up_reaches_the_store(engine: Engine) -> None:
    history, batch = MessageHistory(10, PERIOD), Batch()
    history.add_recoverable(identifier(1), PEER, 0.0)
    sequences.write_history(batch, history, Now(0.0, NOW.wall))
    engine.store.commit(batch, 1)
    assert blocks(engine) == 1
    history.clean_up(PERIOD + 1)
    batch = Batch()
    sequences.write_history(batch, history, NOW)
    engine.store.commit(batch, 2)
    assert blocks(engine) == 0
