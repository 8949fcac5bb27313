"""MS-MQRR 3.1.4.9: what R_EndReceive does, and the codes of its failures."""

import pytest

from tests.remote.harness import Host
from tests.remote.reader import (
    ACK,
    NACK,
    UOW,
    Reader,
    label,
    serve,
)
from waypost.core.positions import PositionState
from waypost.hresult import HResult
from waypost.remote.interfaces.remote_read import EndReceiveRequest
from waypost.rpc.calls import FaultStatus
from waypost.rpc.interface import encode_request
from waypost.wire.message_class import MessageClass
from waypost.wire.ndr import ContextHandle, NdrSyntax

OK = HResult.MQ_OK
INVALID_PARAMETER = HResult.MQ_ERROR_INVALID_PARAMETER
INVALID_HANDLE = HResult.MQ_ERROR_INVALID_HANDLE
NOT_FOUND = HResult.MQ_ERROR_MESSAGE_NOT_FOUND
AVAILABLE, LOCKED = PositionState.AVAILABLE, PositionState.LOCKED


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def reader(host: Host) -> Reader:
    return Reader(serve(host), host)


@pytest.fixture
def other(host: Host, reader: Reader) -> Reader:
    return Reader(reader.service.handler, host)  # type: ignore[arg-type]


@pytest.fixture
def handle(reader: Reader) -> ContextHandle:
    return reader.open()


@pytest.mark.spec("MQRR-3.1.4.9-02")
def test_an_acknowledged_message_is_gone_for_good(host: Host, reader: Reader, handle: ContextHandle) -> None:
    host.put("a")
    reader.read(handle)
    assert reader.end(handle, ACK) == OK
    assert host.contents(host.orders) == []
    assert host.reasons == [("a", MessageClass.MQMSG_CLASS_ACK_RECEIVE)]


@pytest.mark.spec("MQRR-3.1.4.9-03")
def test_a_message_that_did_not_arrive_is_back_at_its_place_and_wakes_a_reader(
    host: Host, reader: Reader, other: Reader, handle: ContextHandle
) -> None:
    host.put("a")
    host.put("b")
    reader.read(handle, request_id=1)
    reader.read(handle, request_id=2)
    assert reader.end(handle, NACK, 1) == OK
    assert host.contents(host.orders) == [("a", AVAILABLE), ("b", LOCKED)]
    assert label(reader.read(handle, request_id=3)) == "a"
    waiting = other.read(other.open(), timeout=1000)
    assert reader.end(handle, NACK, 3) == OK
    assert label(waiting) == "a"


@pytest.mark.spec("MQRR-3.1.4.9-04", "MQRR-3.1.4.9-05", "MQRR-3.1.4.9-06", "MQRR-3.1.1.3-01")
def test_a_request_is_ended_once_on_its_handle(host: Host, reader: Reader, handle: ContextHandle) -> None:
    host.put("a")
    host.put("b")
    elsewhere = reader.open()
    assert reader.end(handle, ACK, 1) == INVALID_HANDLE
    reader.read(handle, request_id=1)
    reader.read(elsewhere, request_id=1)
    assert reader.end(handle, ACK, 2) == INVALID_PARAMETER
    assert reader.end(handle, ACK, 1) == OK
    assert host.contents(host.orders) == [("b", LOCKED)]
    assert reader.end(handle, ACK, 1) == INVALID_HANDLE
    assert reader.end(elsewhere, NACK, 1) == OK
    assert host.contents(host.orders) == [("b", AVAILABLE)]


@pytest.mark.spec("MQRR-3.1.4.9-06")
def test_the_timer_of_a_request_that_was_ended_does_nothing(
    host: Host, reader: Reader, handle: ContextHandle
) -> None:  # fmt: skip
    host.put("a")
    reader.read(handle, request_id=1)
    reader.end(handle, NACK, 1)
    host.tick(200)
    reader.read(handle, request_id=1)
    host.tick(150)
    assert host.contents(host.orders) == [("a", LOCKED)]
    assert reader.end(handle, ACK, 1) == OK


@pytest.mark.spec("MQRR-3.1.4.9-01", "MQRR-3.1.4.15-01")
@pytest.mark.parametrize("opnum", [9, 15])
@pytest.mark.parametrize("ack", [0, 3, 0xFFFF_FFFF])
def test_an_acknowledgment_out_of_range_is_a_fault(
    host: Host, reader: Reader, handle: ContextHandle, opnum: int, ack: int
) -> None:
    host.put("a")
    reader.read(handle, request_id=1, tx=bytes(16) if opnum == 15 else None)
    method = reader.service.interface.methods[opnum]
    stub = encode_request(method, method.request(handle, ACK, 1), NdrSyntax.NDR20)  # type: ignore[call-arg]
    wrong = stub[:20] + ack.to_bytes(4, "little") + stub[24:]
    assert reader.start_stub(opnum, wrong).raised == FaultStatus.BAD_STUB_DATA
    assert host.contents(host.orders) == [("a", LOCKED)]
    assert reader.start_stub(opnum, stub).status == OK
    assert issubclass(method.request, EndReceiveRequest)


@pytest.mark.spec("MQRR-3.1.4.9-07", "MQRR-3.1.4.15-07")
@pytest.mark.parametrize("tx", [None, UOW])
def test_the_queue_of_a_request_may_be_gone(host: Host, reader: Reader, tx: bytes | None) -> None:
    handle = reader.open("ledger")
    host.put("a", host.ledger)
    reader.read(handle, request_id=1, tx=tx)
    host.manager.delete_queue(host.ledger)
    end = reader.end if tx is None else reader.end_tx
    assert end(handle, ACK, 2) == INVALID_PARAMETER, "the request is looked for first"
    assert end(handle, ACK, 1) == INVALID_HANDLE
    assert end(handle, ACK, 1) == INVALID_HANDLE


@pytest.mark.spec("MQRR-3.1.4.9-08", "MQRR-3.1.4.15-08")
@pytest.mark.parametrize("tx", [None, UOW])
def test_the_message_of_a_request_may_be_gone(host: Host, reader: Reader, tx: bytes | None) -> None:
    handle = reader.open("ledger")
    lookup_id = host.put("a", host.ledger)
    reader.read(handle, tx=tx)
    host.manager.positions.deleted(host.ledger, lookup_id, MessageClass.MQMSG_CLASS_NACK_DELETED)
    assert (reader.end if tx is None else reader.end_tx)(handle, ACK) == NOT_FOUND
    waiting = reader.read(reader.open("ledger"), timeout=1000)
    assert reader.close(handle).status == OK
    assert not waiting.is_there, "a message that is gone is released to nobody"


@pytest.mark.spec("MQRR-3.1.4.9-09")
def test_the_status_is_that_of_dequeue_message_end(host: Host, reader: Reader, handle: ContextHandle) -> None:
    lookup_id = host.put("a")
    reader.read(handle)
    (descriptor,) = host.orders.descriptors.values()
    host.manager.reading.dequeue_message_end(descriptor, lookup_id, delete_message=False)
    assert reader.end(handle) == HResult.MQ_ERROR_TRANSACTION_SEQUENCE
    assert host.contents(host.orders) == [("a", AVAILABLE)]
