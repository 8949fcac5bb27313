"""MS-MQQP 3.1.4.1, 3.1.4.2, 3.1.4.10, 3.1.4.11: what is read, with and without a cursor, by a number, and its end."""

from dataclasses import replace

import pytest

from tests.remote import reader as remote_read
from tests.remote.qm2qm_reader import (
    ACK,
    DENIED,
    INVALID_HANDLE,
    LOOKUP_PEEKS,
    LOOKUP_RECEIVES,
    NACK,
    NULL,
    OK,
    PEEK,
    PEEK_ACCESS,
    PEEK_NEXT,
    RECEIVE,
    TIMEOUT,
    Reader,
    ReadHost,
    StartReceive,
    StartReceive2,
    desc_of,
    has_failed,
    label,
)
from waypost.clock import Now
from waypost.core.positions import PositionState
from waypost.core.serialization import packet_of
from waypost.hresult import HResult
from waypost.remote.interfaces import qm2qm
from waypost.remote.interfaces.remote_read import ReceiveAction
from waypost.remote.lookups import LAST
from waypost.rpc.calls import FaultStatus
from waypost.rpc.faults import RpcFault
from waypost.wire.message_class import MessageClass
from waypost.wire.ndr import NdrSyntax
from waypost.wire.user_message import UserMessage

BOTH = pytest.mark.parametrize("opnum", [StartReceive, StartReceive2])
AVAILABLE, LOCKED = PositionState.AVAILABLE, PositionState.LOCKED
NOT_FOUND = HResult.MQ_ERROR_MESSAGE_NOT_FOUND
ALREADY_RECEIVED = HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED


@pytest.fixture
def host() -> ReadHost:
    return ReadHost()


@pytest.fixture
def reader(host: ReadHost) -> Reader:
    return Reader(host)


@pytest.mark.spec("MQQP-4.1-01", "MQQP-3.1.4.2-03", "MQQP-2.2.2.1-04")
@pytest.mark.parametrize("syntax", NdrSyntax)
@BOTH
def test_a_receive_is_a_start_and_an_acknowledgment(host: ReadHost, opnum: int, syntax: NdrSyntax) -> None:
    reader = Reader(host, syntax=syntax)
    handle = reader.open()
    first, _ = host.put("a"), host.put("b")
    read = reader.read(handle, 0x0000_0000, opnum=opnum)
    assert label(read) == "a"
    assert host.contents(host.orders) == [("a", LOCKED), ("b", AVAILABLE)]
    assert reader.end(read, 2) == qm2qm.EndReceiveReply(NULL, OK)
    assert host.contents(host.orders) == [("b", AVAILABLE)]
    assert host.reasons == [("a", MessageClass.MQMSG_CLASS_ACK_RECEIVE)]
    for action in (*LOOKUP_PEEKS[:1], *LOOKUP_RECEIVES[:1]):
        assert has_failed(reader.look_up(handle, action, first), NOT_FOUND)


@pytest.mark.spec("MQQP-3.1.4.2-04", "MQQP-1.3.3-01", "MQQP-3.1.4.2-07")
def test_between_start_and_end_a_message_is_for_nobody_else(host: ReadHost, reader: Reader) -> None:
    other = Reader(host)
    handle, theirs = reader.open(), other.open()
    host.put("a")
    read = reader.read(handle)
    for action in (PEEK, RECEIVE):
        assert has_failed(other.read(theirs, action), TIMEOUT)
    assert host.contents(host.orders) == [("a", LOCKED)]
    host.put("b")
    assert label(other.read(theirs, PEEK)) == "b"

    assert reader.end(read, NACK).hresult == OK
    assert host.contents(host.orders) == [("a", AVAILABLE), ("b", AVAILABLE)]
    again = other.read(theirs)
    assert label(again) == "a"
    assert other.end(again, ACK).hresult == OK
    assert host.contents(host.orders) == [("b", AVAILABLE)]


@pytest.mark.spec("MQQP-2.2.2.1-04", "MQQP-3.1.4.1-20", "MQQP-3.1.4.1-02", "MQQP-3.1.4.10-10")
@BOTH
def test_a_peek_leaves_the_message_and_the_cursor_where_they_are(host: ReadHost, reader: Reader, opnum: int) -> None:
    handle = reader.open()
    cursor = reader.cursor(handle)
    host.put("a")
    host.put("b")
    for number in (0, cursor):
        for _ in range(2):
            read = reader.read(handle, 0x8000_0000, cursor=number, opnum=opnum)
            assert label(read) == "a"
            assert read.record.context == NULL
    assert host.contents(host.orders) == [("a", AVAILABLE), ("b", AVAILABLE)]


@pytest.mark.spec("MQQP-2.2.2.1-04", "MQQP-3.1.4.1-21", "MQQP-3.1.4.10-10")
@BOTH
def test_peek_next_moves_the_cursor_to_what_it_returns(host: ReadHost, reader: Reader, opnum: int) -> None:
    handle = reader.open()
    cursor = reader.cursor(handle)
    for name in ("a", "b", "c"):
        host.put(name)
    assert label(reader.read(handle, PEEK, cursor=cursor, opnum=opnum)) == "a"
    for name in ("b", "c"):
        read = reader.read(handle, 0x8000_0001, cursor=cursor, opnum=opnum)
        assert (label(read), read.record.context) == (name, NULL)
        assert label(reader.read(handle, PEEK, cursor=cursor, opnum=opnum)) == name
    assert [state for _, state in host.contents(host.orders)] == [AVAILABLE] * 3


@pytest.mark.spec("MQQP-3.1.4.1-19", "MQQP-3.1.4.10-10")
@BOTH
def test_a_receive_with_a_cursor_walks_on_from_it(host: ReadHost, reader: Reader, opnum: int) -> None:
    handle = reader.open()
    cursor = reader.cursor(handle)
    for name in ("a", "b", "c", "d"):
        host.put(name)
    reader.read(handle, PEEK, cursor=cursor, opnum=opnum)
    reader.read(handle, PEEK_NEXT, cursor=cursor, opnum=opnum)
    at = reader.read(handle, RECEIVE, cursor=cursor, opnum=opnum)
    behind = reader.read(handle, RECEIVE, cursor=cursor, opnum=opnum)
    assert (label(at), label(behind)) == ("b", "c")
    assert host.contents(host.orders) == [("a", AVAILABLE), ("b", LOCKED), ("c", LOCKED), ("d", AVAILABLE)]
    assert reader.end(at).hresult == reader.end(behind).hresult == OK
    assert [name for name, _ in host.contents(host.orders)] == ["a", "d"]


@pytest.mark.spec("MQQP-3.1.4.1-26", "MQQP-3.1.4.10-12")
@BOTH
def test_the_status_of_the_queue_is_returned_unchanged(host: ReadHost, reader: Reader, opnum: int) -> None:
    handle = reader.open()
    cursor, fresh = reader.cursor(handle), reader.cursor(handle)
    host.put("a")
    assert has_failed(reader.read(handle, PEEK_NEXT, cursor=fresh, opnum=opnum), HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION)
    assert label(reader.read(handle, PEEK, cursor=cursor, opnum=opnum)) == "a"
    reader.end(reader.read(handle, opnum=opnum))
    assert has_failed(reader.read(handle, PEEK, cursor=cursor, opnum=opnum), ALREADY_RECEIVED)
    host.manager.delete_queue(host.orders)
    host.pump()
    assert has_failed(reader.read(handle, PEEK, opnum=opnum), HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE)


@pytest.mark.spec(
    "MQQP-3.1.4.1-23",
    "MQQP-2.2.2.1-11",
    "MQQP-2.2.2.1-10",
    "MQQP-2.2.2.1-09",
    "MQQP-3.1.4.10-11",
    "MQQP-3.1.4.11-15",
)
@pytest.mark.parametrize("read_with", [StartReceive, StartReceive2, 10])
def test_the_packet_is_the_plain_user_message(host: ReadHost, reader: Reader, read_with: int) -> None:
    handle = reader.open()
    host.now = Now(host.now.monotonic, 1_700_000_123.75)
    message = replace(host.message("a", priority=5), body=b"body" * 5, time_to_reach_queue=77)
    lookup_id = host.put(message)
    if read_with == 10:
        read = reader.look_up(handle, ReceiveAction.MQ_LOOKUP_PEEK_CURRENT, lookup_id)
    else:
        desc = replace(reader.desc(handle, PEEK), reserved=0xDEAD, ack_nack=0x1234, arrive_time=99)
        read = reader.start(desc, read_with)
    desc = desc_of(read)
    stored = packet_of(host.messages.get(host.orders.number, lookup_id))
    assert desc.buffer == stored
    decoded = UserMessage.decode(stored)
    assert decoded.base.packet_size == len(desc.buffer)
    # readings MQQP 3.24: relative, and nothing behind the UserMessage.
    assert decoded.base.time_to_reach_queue == 77
    assert decoded.encode() == stored
    assert desc.arrive_time == 1_700_000_123
    assert desc.reserved == 1
    if read_with != StartReceive:
        assert read.record.remote_read_desc2.sequential_id == lookup_id & 0x00FF_FFFF_FFFF_FFFF


@pytest.mark.spec("MQQP-2.2.2.1-09")
@BOTH
def test_reserved_and_ack_nack_mean_nothing(host: ReadHost, reader: Reader, opnum: int) -> None:
    handle = reader.open()
    for reserved, ack_nack in ((0, 0), (1, 1), (0xFFFF_FFFF, 2), (7, 0x7FFF)):
        host.put("a")
        read = reader.start(replace(reader.desc(handle), reserved=reserved, ack_nack=ack_nack), opnum)
        assert label(read) == "a"
        assert reader.end(read).hresult == OK
        assert host.contents(host.orders) == []


@pytest.mark.spec("MQQP-2.2.2.2-02", "MQQP-3.1.4.10-01", "MQQP-3.1.4.10-02", "MQQP-1.3.1-01")
def test_sequential_id_is_the_low_seven_bytes_of_the_lookup_identifier(host: ReadHost, reader: Reader) -> None:
    handle = reader.open()
    same = host.message("same", priority=0)
    lookup_ids = [host.put(replace(same, lookup_identifier=5)) for _ in range(3)]
    assert len(set(lookup_ids)) == 3
    for lookup_id in lookup_ids:
        assert lookup_id >> 56 == 7
        read = reader.read(handle, opnum=StartReceive2)
        assert read.record.remote_read_desc2.sequential_id == lookup_id & 0x00FF_FFFF_FFFF_FFFF
        buffer = desc_of(read).buffer
        assert buffer is not None
        assert lookup_id.to_bytes(8, "little") not in buffer
        assert desc_of(reader.look_up(handle, LOOKUP_PEEKS[0], 5)).buffer is None
        reader.end(read)
    assert reader.read(handle, opnum=StartReceive2).record.remote_read_desc2.sequential_id == 0


@pytest.mark.spec("MQQP-3.1.4.1-07", "MQQP-3.1.4.1-25", "MQQP-3.1.4.10-12", "MQQP-2.2.1.2-01", "MQQP-3.1.1.2-01")
@BOTH
def test_a_handle_comes_with_a_message_that_is_received_and_with_nothing_else(
    host: ReadHost, reader: Reader, opnum: int
) -> None:
    handle = reader.open()
    assert has_failed(reader.read(handle, opnum=opnum), TIMEOUT)
    for name in ("a", "b", "c"):
        host.put(name)
    assert reader.read(handle, PEEK, opnum=opnum).record.context == NULL
    reads = [reader.read(handle, opnum=opnum) for _ in range(2)]
    reads.append(reader.look_up(handle, LOOKUP_RECEIVES[1], 0))
    contexts = [read.record.context for read in reads]
    assert NULL not in contexts
    assert len(set(contexts)) == 3
    # Each handle belongs to its message, whatever the order.
    assert [label(read) for read in reads] == ["a", "b", "c"]
    assert reader.end(reads[1], NACK).hresult == OK
    assert host.contents(host.orders) == [("a", LOCKED), ("b", AVAILABLE), ("c", LOCKED)]
    assert reader.end(reads[2], ACK).hresult == OK
    assert reader.end(reads[0], ACK).hresult == OK
    assert host.contents(host.orders) == [("b", AVAILABLE)]


@pytest.mark.spec("MQQP-3.1.4.2-05")
def test_the_null_handle_of_a_read_is_invalid(reader: Reader) -> None:
    assert reader.qm2qm.ask(1, qm2qm.EndReceiveRequest(NULL, ACK)) == qm2qm.EndReceiveReply(NULL, INVALID_HANDLE)


@pytest.mark.spec("MQQP-3.1.4.2-09", "MQQP-2.2.1.2-01")
@pytest.mark.parametrize("ack", [ACK, NACK])
def test_the_handle_of_a_read_is_gone_with_its_end(host: ReadHost, reader: Reader, ack: int) -> None:
    handle = reader.open()
    host.put("a")
    read = reader.read(handle)
    assert reader.end(read, ack) == qm2qm.EndReceiveReply(NULL, OK)
    with pytest.raises(RpcFault) as raised:
        reader.end(read, ack)
    assert raised.value.status == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    # Neither does the handle of a queue end a read, nor can anybody else do it.
    host.put("b")
    read = reader.read(handle)
    for other, context in ((reader, reader.sessions[handle]), (Reader(host), read.record.context)):
        assert (
            other.qm2qm.start(1, qm2qm.EndReceiveRequest(context, ack)).raised == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
        )
    assert reader.end(read).hresult == OK


@pytest.mark.spec("MQQP-3.1.4.2-08", "MQQP-3.1.4.2-09", "MQQP-3.1.4.2-06")
@pytest.mark.parametrize("ack", [ACK, NACK])
def test_the_end_of_a_read_whose_message_is_not_locked_is_out_of_sequence(
    host: ReadHost, reader: Reader, ack: int
) -> None:  # fmt: skip
    """As later Windows versions do, no entry is searched for: the message decides."""
    handle = reader.open()
    host.put("a")
    read = reader.read(handle)
    (descriptor,) = host.orders.descriptors.values()
    host.manager.reading.end_two_phase_reads(descriptor)
    assert host.contents(host.orders) == [("a", AVAILABLE)]
    assert reader.end(read, ack) == qm2qm.EndReceiveReply(NULL, HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
    assert host.contents(host.orders) == [("a", AVAILABLE)]
    assert reader.qm2qm.start(1, qm2qm.EndReceiveRequest(read.record.context, ack)).raised


@pytest.mark.spec("MQQP-3.1.4.2-09", "MQQP-3.1.4.2-07")
def test_the_end_of_a_read_from_a_queue_that_was_deleted_says_so(host: ReadHost, reader: Reader) -> None:
    handle = reader.open()
    host.put("a")
    read = reader.read(handle)
    host.manager.delete_queue(host.orders)
    host.pump()
    assert reader.end(read) == qm2qm.EndReceiveReply(NULL, HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE)
    assert reader.close(handle).hresult == OK


@pytest.mark.spec("MQQP-5-04")
def test_a_handle_that_was_opened_for_peeking_only_peeks(host: ReadHost, reader: Reader) -> None:
    """readings MQQP 3.20."""
    handle = reader.open(PEEK_ACCESS)
    lookup_id = host.put("a")
    for opnum in (StartReceive, StartReceive2):
        assert label(reader.read(handle, PEEK, opnum=opnum)) == "a"
        assert has_failed(reader.read(handle, RECEIVE, opnum=opnum), DENIED)
    assert label(reader.look_up(handle, LOOKUP_PEEKS[0], lookup_id)) == "a"
    for action in LOOKUP_RECEIVES:
        number = {0x20: lookup_id, 0x21: 0, 0x22: LAST}[action & 0xFF]
        assert has_failed(reader.look_up(handle, action, number), DENIED)
    assert reader.purge(handle) == DENIED
    assert host.contents(host.orders) == [("a", AVAILABLE)]


def test_a_message_of_four_megabytes_is_read_whole(host: ReadHost, reader: Reader) -> None:
    handle = reader.open()
    lookup_id = host.put(replace(host.message("big"), body=bytes(range(256)) * 16_380))
    for syntax in NdrSyntax:
        reader.qm2qm.syntax = syntax
        buffer = desc_of(reader.read(handle, PEEK, opnum=StartReceive2)).buffer
        assert buffer == packet_of(host.messages.get(host.orders.number, lookup_id))
        assert len(buffer) > 0x3F_E000


@pytest.mark.spec("MQQP-7-01")
def test_readers_of_both_protocols_see_one_queue(host: ReadHost, reader: Reader) -> None:
    newer = remote_read.Reader(remote_read.serve(host), host)
    handle, theirs = reader.open(), newer.open()
    for name in ("a", "b", "c"):
        host.put(name)
    read = reader.read(handle)
    assert label(read) == "a"
    assert remote_read.label(newer.read(theirs)) == "b"
    assert label(reader.read(handle, PEEK)) == "c"
    assert reader.end(read, NACK).hresult == OK
    assert newer.end(theirs) == OK
    assert remote_read.label(newer.read(theirs, remote_read.PEEK_CURRENT)) == "a"
    assert host.contents(host.orders) == [("a", AVAILABLE), ("c", AVAILABLE)]
