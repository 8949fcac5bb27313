"""Calls that never reach a method: opnums that the tables do not have, and stubs that they do not allow."""

import struct
from typing import Any

import pytest

from tests.rpc.serving import PORT, Guids, Peer, offer
from waypost.clock import Now
from waypost.errors import DecodeError
from waypost.remote.interfaces import qm2qm, remote_read
from waypost.remote.interfaces.qm2qm import QM2QM
from waypost.remote.interfaces.remote_read import REMOTE_READ
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.calls import Fault, FaultStatus
from waypost.rpc.interface import Empty, Interface, Parameters, ResultReply, decode_reply, encode_reply, encode_request
from waypost.rpc.pdu import PacketType
from waypost.rpc.server import Call, RpcServer, Service
from waypost.rpc.settings import RpcSettings
from waypost.wire.ndr import ContextHandle, NdrSyntax
from waypost.wire.queue_format import QueueFormat, QueueFormatType
from waypost.wire.receive_reply import ReceiveReply
from waypost.wire.section_buffer import SectionBuffer, SectionType

NDR20 = NdrSyntax.NDR20
GUID = bytes(range(16))
HANDLE = ContextHandle(0, GUID)
HANDLE_BYTES = bytes(4) + GUID
QUEUE = QueueFormat(QueueFormatType.PUBLIC, arm=GUID)
DIRECT = QueueFormat(QueueFormatType.DIRECT, arm="OS:host\\queue")
DESC2 = qm2qm.RemoteReadDesc2(qm2qm.RemoteReadDesc())

REMOTE_READ_REQUESTS: dict[int, Parameters] = {
    0: Empty(),
    2: remote_read.OpenQueueRequest(DIRECT, 1, 0),
    3: remote_read.CloseQueueRequest(HANDLE),
    4: remote_read.CreateCursorRequest(HANDLE),
    5: remote_read.CloseCursorRequest(HANDLE, 1),
    6: remote_read.PurgeQueueRequest(HANDLE),
    7: remote_read.StartReceiveRequest(HANDLE, 0, 0, 0, 0, 1, 0, 0),
    8: remote_read.CancelReceiveRequest(HANDLE, 1),
    9: remote_read.EndReceiveRequest(HANDLE, 2, 1),
    10: remote_read.MoveMessageRequest(HANDLE, 1, 1),
    11: remote_read.OpenQueueForMoveRequest(QUEUE, 4, 0),
    12: remote_read.QMEnlistRemoteTransactionRequest(GUID, b"token", QUEUE),
    13: remote_read.StartTransactionalReceiveRequest(HANDLE, 0, 0, 0, 0, 1, 0, 0, GUID),
    14: remote_read.SetUserAcknowledgementClassRequest(HANDLE, 1, 0xC004),
    15: remote_read.EndTransactionalReceiveRequest(HANDLE, 2, 1),
}
QM2QM_REQUESTS: dict[int, Parameters] = {
    0: qm2qm.StartReceiveRequest(qm2qm.RemoteReadDesc()),
    1: qm2qm.EndReceiveRequest(HANDLE, 2),
    2: qm2qm.OpenQueueRequest(GUID, 0, 1, 1, 1),
    3: qm2qm.CloseQueueRequest(HANDLE),
    4: qm2qm.CloseCursorRequest(1, 1),
    5: qm2qm.CancelReceiveRequest(1, 1, 1),
    6: qm2qm.PurgeQueueRequest(1),
    7: qm2qm.GetServerPortRequest(1),
    8: Empty(),
    9: qm2qm.StartReceive2Request(DESC2),
    10: qm2qm.StartReceiveByLookupIdRequest(1, DESC2),
}


class Recorder:
    """Remembers what reached it and faults with 7."""

    def __init__(self) -> None:
        self.reached: list[tuple[int, Any]] = []

    def call(self, call: Call, request: Any, now: Now) -> None:
        self.reached.append((call.opnum, request))
        call.fault(7)

    def cancelled(self, call: Call, now: Now) -> None:
        raise AssertionError


class Bench:
    """A client that is bound to one interface, whose methods are all a Recorder's."""

    def __init__(self, interface: Interface) -> None:
        self.recorder = Recorder()
        service = Service(interface, self.recorder)
        server = RpcServer({PORT: [service]}, lambda _: None, Guids(), RpcSettings(AuthLevel.NONE))
        self._peer = Peer(server)
        self._peer.bind(offer(0, abstract=interface.syntax))
        self._call_id = 1

    def fault(self, opnum: int, stub: bytes) -> int:
        self._call_id += 1
        (answer,) = self._peer.send(b"".join(self._peer.requests(opnum, stub, self._call_id)))
        assert answer.header.ptype == PacketType.FAULT
        assert not self._peer.is_closed
        return Fault.decode(answer).status


def stub_of(interface: Interface, opnum: int, request: Parameters) -> bytes:
    return encode_request(interface.methods[opnum], request, NDR20)


def check_opnums(interface: Interface, requests: dict[int, Parameters], last: int) -> None:
    """The opnums of `requests` reach their methods with these records, and those behind the last fault."""
    bench = Bench(interface)
    for opnum, request in requests.items():
        assert bench.fault(opnum, stub_of(interface, opnum, request)) == 7
        assert bench.recorder.reached.pop() == (opnum, request)
    for opnum in (last + 1, last + 2, 100, 0xFFFF):
        assert bench.fault(opnum, b"") == FaultStatus.NCA_OP_RNG_ERROR
    assert bench.recorder.reached == []


@pytest.mark.spec("MQRR-3.1.4-03")
def test_remote_read_has_the_opnums_0_and_2_to_15_and_none_above() -> None:
    assert list(REMOTE_READ_REQUESTS) == [0, *range(2, 16)]
    for opnum, request in REMOTE_READ_REQUESTS.items():
        name = REMOTE_READ.methods[opnum].name.removeprefix("R_")
        assert type(request).__name__ == ("Empty" if opnum == 0 else f"{name}Request")
    check_opnums(REMOTE_READ, REMOTE_READ_REQUESTS, 15)


@pytest.mark.spec("MQRR-3.1.4-04")
def test_opnum_1_is_never_sent_and_a_server_that_gets_it_goes_on() -> None:
    assert 1 not in REMOTE_READ.methods
    bench = Bench(REMOTE_READ)
    assert bench.fault(1, b"") == FaultStatus.NCA_OP_RNG_ERROR
    assert bench.fault(0, b"") == 7
    assert bench.recorder.reached == [(0, Empty())]


def test_qm2qm_has_the_opnums_0_to_10_and_none_above() -> None:
    names = "StartReceive EndReceive OpenQueue CloseQueue CloseCursor CancelReceive PurgeQueue GetQMQMServerPort"
    names += " GetVersion StartReceive2 StartReceiveByLookupId"
    found = [QM2QM.methods[opnum].name.removeprefix("RemoteQM").removeprefix("RemoteQm") for opnum in range(11)]
    assert found == names.split()
    assert list(QM2QM_REQUESTS) == list(range(11))
    check_opnums(QM2QM, QM2QM_REQUESTS, 10)


def spoilt(stub: bytes, at: int, *values: int) -> bytes:
    """The stub with other DWORDs at an offset."""
    data = bytearray(stub)
    data[at : at + 4 * len(values)] = struct.pack(f"<{len(values)}I", *values)
    return bytes(data)


OPEN = stub_of(REMOTE_READ, 2, REMOTE_READ_REQUESTS[2])
ENLIST = stub_of(REMOTE_READ, 12, REMOTE_READ_REQUESTS[12])


@pytest.mark.spec("MQRR-3.1.4-01")
@pytest.mark.parametrize(
    ("opnum", "stub"),
    [
        (0, bytes(4)),  # more than there is to say
        (7, bytes(55)),  # cut short
        (2, spoilt(OPEN, 0, 9)),  # no QUEUE_FORMAT_TYPE
        (2, spoilt(OPEN, 4, 1)),  # a union whose tag is not its switch
        (2, spoilt(OPEN, 12, 3)),  # a string with more characters than it may have
        (2, spoilt(OPEN, 16, 1)),  # a string that does not start at its start
        (2, spoilt(OPEN, 12, 0xFFFF_FFFF, 0, 0xFFFF_FFFF)),  # a string that is longer than the stub
        (2, OPEN[:-2]),
        (9, HANDLE_BYTES + struct.pack("<II", 0, 1)),  # out of range
        (15, HANDLE_BYTES + struct.pack("<II", 3, 1)),
        (12, spoilt(ENLIST, 16, 131073, 131073)),
        (12, spoilt(ENLIST, 20, 4)),  # sizes that disagree
    ],
)
def test_stubs_that_the_interface_does_not_allow_fault_and_reach_no_method(opnum: int, stub: bytes) -> None:
    bench = Bench(REMOTE_READ)
    assert bench.fault(opnum, stub) == 0x6F7
    assert bench.recorder.reached == []
    assert bench.fault(0, b"") == 7


@pytest.mark.spec("MQRR-3.1.4.12-02")
@pytest.mark.parametrize("sizes", [(131073, 131073), (0xFFFF_FFFF, 0xFFFF_FFFF), (5, 4), (4, 5), (0, 5)])
def test_a_token_that_is_too_long_or_not_of_its_size_faults_and_enlists_nothing(sizes: tuple[int, int]) -> None:
    bench = Bench(REMOTE_READ)
    assert bench.fault(12, spoilt(ENLIST, 16, *sizes) + bytes(131072)) == 0x6F7
    assert bench.recorder.reached == []


@pytest.mark.spec("MQRR-3.1.4-02")
def test_a_null_pointer_to_an_array_that_has_a_size_is_refused() -> None:
    """The arrays behind unique pointers: in qm2qm a client sends one, in RemoteRead a server does."""
    bench = Bench(QM2QM)
    assert bench.fault(0, spoilt(bytes(44), 16, 5)) == 0x6F7
    assert bench.recorder.reached == []
    sections = [SectionBuffer(SectionType.ST_FULL_PACKET, 5, 5, b"hello")]
    answer = encode_reply(REMOTE_READ.methods[7], ReceiveReply(1, 2, sections), NDR20)
    for at in (20, 40):
        with pytest.raises(DecodeError, match="NULL"):
            decode_reply(REMOTE_READ.methods[7], spoilt(answer, at, 0), NDR20)
    assert decode_reply(REMOTE_READ.methods[9], bytes(4), NDR20) == ResultReply(0)
