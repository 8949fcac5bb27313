"""MS-MQQP 3.1.4.1, 3.1.4.10, 3.1.4.11: what the Start methods refuse, with which code, and in which order."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from tests.remote.harness import Answer
from tests.remote.qm2qm_reader import (
    CANCELED,
    FOREVER,
    INVALID_HANDLE,
    INVALID_PARAMETER,
    PEEK,
    PEEK_NEXT,
    RECEIVE,
    STATUS_INVALID_PARAMETER,
    ByLookupId,
    Reader,
    ReadHost,
    StartReceive,
    StartReceive2,
    has_failed,
    label,
)
from tests.test_error_codes import PUBLISHED
from waypost.core.positions import PositionState
from waypost.core.queues import AccessType, ShareMode
from waypost.hresult import CUSTOMER, HResult
from waypost.remote.interfaces import qm2qm
from waypost.remote.interfaces.qm2qm import RemoteReadDesc, RemoteReadDesc2
from waypost.remote.interfaces.remote_read import ReceiveAction
from waypost.remote.qm2qm.reads import Outcome, Reads
from waypost.rpc.calls import FaultStatus
from waypost.rpc.interface import ResultReply, encode_request
from waypost.rpc.server_calls import Call
from waypost.wire.format_names import FormatName
from waypost.wire.ndr import NdrSyntax

BOTH = pytest.mark.parametrize("opnum", [StartReceive, StartReceive2])
UNKNOWN = 0x7777


@pytest.fixture
def host() -> ReadHost:
    return ReadHost()


@pytest.fixture
def reader(host: ReadHost) -> Reader:
    return Reader(host)


@pytest.mark.spec("MQQP-3.1.4.1-08")
def test_a_read_without_a_descriptor_has_an_invalid_handle(host: ReadHost, reader: Reader) -> None:
    """readings MQQP 3.17: no stub of RemoteQMStartReceive can say NULL, but what it shares with opnum 9 can be told."""
    outcomes: list[Outcome] = []

    def answer(outcome: Outcome) -> ResultReply:
        outcomes.append(outcome)
        return ResultReply()

    client, method = reader.qm2qm, qm2qm.QM2QM.methods[5]
    handles = client.association.handles(qm2qm.QM2QM.uuid, client.caller.name)
    call = Call(host.qm2qm, method, client.caller, handles, NdrSyntax.NDR20, Answer(method, NdrSyntax.NDR20))
    Reads(host, host.queues).start(call, None, answer, host.now)
    assert outcomes == [Outcome(INVALID_HANDLE)]


@pytest.mark.spec("MQQP-3.1.4.10-03", "MQQP-3.1.4.10-04", "MQQP-3.1.4.11-08")
@pytest.mark.parametrize("syntax", NdrSyntax)
def test_a_null_descriptor_is_an_invalid_handle(host: ReadHost, syntax: NdrSyntax) -> None:
    """readings MQQP 3.17: lpRemoteReadDesc2 takes no room, so the NULL that can be sent is that of pRemoteReadDesc."""
    reader = Reader(host, syntax=syntax)
    null = RemoteReadDesc2(None, 0)
    for request in (qm2qm.StartReceive2Request(null), qm2qm.StartReceiveByLookupIdRequest(1, null)):
        opnum = StartReceive2 if isinstance(request, qm2qm.StartReceive2Request) else ByLookupId
        stub = encode_request(qm2qm.QM2QM.methods[opnum], request, syntax)
        assert not any(stub[-16:])
        reply = reader.qm2qm.ask(opnum, request)
        assert reply.hresult == INVALID_HANDLE
        assert reply.context.is_null
        assert reply.remote_read_desc2 == null


@pytest.mark.spec("MQQP-3.1.4.1-09", "MQQP-3.1.4.1-10", "MQQP-3.1.4.10-05")
@BOTH
def test_dw_queue_is_not_zero_and_equals_h_remote_queue(reader: Reader, host: ReadHost, opnum: int) -> None:
    handle, other = reader.open(), reader.open()
    host.put("a")
    desc = reader.desc(handle)
    assert has_failed(reader.start(replace(desc, queue=0), opnum), INVALID_PARAMETER)
    assert has_failed(reader.start(replace(desc, queue=0, remote_queue=0), opnum), INVALID_PARAMETER)
    assert has_failed(reader.start(replace(desc, queue=other), opnum), INVALID_PARAMETER)
    assert label(reader.start(desc, opnum)) == "a"


@pytest.mark.spec("MQQP-3.1.4.1-11", "MQQP-3.1.4.10-06")
@pytest.mark.parametrize("first", [StartReceive, StartReceive2])
@pytest.mark.parametrize("second", [StartReceive, StartReceive2])
def test_a_request_id_is_pending_once_on_a_handle(host: ReadHost, reader: Reader, first: int, second: int) -> None:
    handle = reader.open()
    waiting = reader.start(reader.desc(handle, RECEIVE, FOREVER, request_id=7), first)
    for action in (RECEIVE, PEEK):
        again = reader.start(reader.desc(handle, action, FOREVER, request_id=7), second)
        assert has_failed(again, INVALID_PARAMETER)
    assert not waiting.is_there
    host.put("a")
    assert label(waiting) == "a"


@pytest.mark.spec("MQQP-3.1.4.1-12")
def test_two_handles_can_have_the_same_request_id_pending(host: ReadHost, reader: Reader) -> None:
    one, two = reader.open(), reader.open()
    waiting = [reader.start(reader.desc(handle, RECEIVE, FOREVER, request_id=7)) for handle in (one, two)]
    assert not any(read.is_there for read in waiting)
    host.put("a")
    host.put("b")
    assert [label(read) for read in waiting] == ["a", "b"]


@pytest.mark.spec("MQQP-3.1.4.1-13", "MQQP-3.1.4.10-07")
@BOTH
def test_peek_next_needs_a_cursor(host: ReadHost, reader: Reader, opnum: int) -> None:
    handle = reader.open()
    host.put("a")
    assert has_failed(reader.read(handle, PEEK_NEXT, opnum=opnum), STATUS_INVALID_PARAMETER)


@pytest.mark.spec("MQQP-3.1.4.1-14", "MQQP-3.1.4.10-08")
@BOTH
def test_a_queue_is_read_between_its_open_queue_and_its_close_queue(
    host: ReadHost, reader: Reader, opnum: int
) -> None:  # fmt: skip
    host.put("a")
    handle = reader.open_remote().queue
    assert has_failed(reader.read(handle, PEEK, opnum=opnum), INVALID_PARAMETER)
    reader.sessions[handle] = reader.enter(handle).context
    assert label(reader.read(handle, PEEK, opnum=opnum)) == "a"
    reader.close(handle)
    assert has_failed(reader.read(handle, PEEK, opnum=opnum), INVALID_PARAMETER)


@pytest.mark.spec("MQQP-3.1.4.1-15", "MQQP-3.1.4.10-09", "MQQP-2.2.2.1-03")
@BOTH
def test_a_cursor_is_zero_or_one_of_the_very_handle(host: ReadHost, reader: Reader, opnum: int) -> None:
    handle, other = reader.open(), reader.open()
    cursor, foreign = reader.cursor(handle), reader.cursor(other)
    host.put("a")
    for action in (PEEK, PEEK_NEXT, RECEIVE):
        assert has_failed(reader.read(handle, action, cursor=foreign, opnum=opnum), STATUS_INVALID_PARAMETER)
        assert has_failed(reader.read(handle, action, cursor=UNKNOWN, opnum=opnum), STATUS_INVALID_PARAMETER)
    assert label(reader.read(handle, PEEK, cursor=0, opnum=opnum)) == "a"
    assert label(reader.read(handle, PEEK, cursor=cursor, opnum=opnum)) == "a"


@pytest.mark.spec("MQQP-3.1.4.1-16")
def test_the_first_check_that_fails_gives_the_code(host: ReadHost, reader: Reader) -> None:
    handle, closed = reader.open(), reader.open_remote().queue
    waiting = reader.start(reader.desc(handle, RECEIVE, FOREVER, request_id=7))
    bad_cursor = reader.desc(handle, PEEK_NEXT, cursor=UNKNOWN)
    without_cursor = replace(bad_cursor, cursor=0)
    ladder = [
        # dwQueue before all that follows.
        (replace(without_cursor, queue=closed, request_id=7), INVALID_PARAMETER),
        # A duplicate before PEEK_NEXT without a cursor.
        (replace(without_cursor, request_id=7), INVALID_PARAMETER),
        # That before the look-up of the queue.
        (replace(without_cursor, queue=closed, remote_queue=closed), STATUS_INVALID_PARAMETER),
        # That before the look-up of the cursor.
        (replace(bad_cursor, queue=closed, remote_queue=closed), INVALID_PARAMETER),
        (bad_cursor, STATUS_INVALID_PARAMETER),
    ]
    for desc, status in ladder:
        assert has_failed(reader.start(desc), status), desc
    assert reader.cancel(handle, bad_cursor.request_id) == HResult.MQ_ERROR
    assert not waiting.is_there
    assert reader.cancel(handle, 7) == HResult.MQ_OK
    assert waiting.status == CANCELED


@pytest.mark.spec("MQQP-3.1.4.1-22")
@BOTH
@pytest.mark.parametrize(
    "action", [1, 2, 0x8000_0002, 0x4000_0000, 0xFFFF_FFFF, *(action for action in ReceiveAction if action.is_lookup)]
)
def test_other_actions_read_nothing(host: ReadHost, reader: Reader, action: int, opnum: int) -> None:
    handle = reader.open()
    host.put("a")
    assert has_failed(reader.read(handle, action, opnum=opnum), INVALID_PARAMETER)
    assert host.contents(host.orders) == [("a", PositionState.AVAILABLE)]


Change = Callable[[RemoteReadDesc], RemoteReadDesc]


@pytest.mark.spec("MQQP-3.1.4.11-09", "MQQP-3.1.4.11-10", "MQQP-3.1.4.11-11", "MQQP-3.1.4.11-12")
@pytest.mark.parametrize(
    "change",
    [
        lambda desc: replace(desc, remote_queue=0),
        lambda desc: replace(desc, timeout=1),
        lambda desc: replace(desc, timeout=FOREVER),
        lambda desc: replace(desc, cursor=1),
        lambda desc: replace(desc, remote_queue=UNKNOWN, queue=UNKNOWN),
    ],
    ids=["no handle", "timeout 1", "timeout infinite", "cursor", "unknown handle"],
)
def test_a_look_up_has_a_handle_and_neither_time_nor_cursor(host: ReadHost, reader: Reader, change: Change) -> None:
    handle = reader.open()
    host.put("a")
    desc = reader.desc(handle, ReceiveAction.MQ_LOOKUP_PEEK_NEXT)

    def look_up(desc: RemoteReadDesc) -> Answer:
        return reader.qm2qm.start(ByLookupId, qm2qm.StartReceiveByLookupIdRequest(0, RemoteReadDesc2(desc)))

    assert has_failed(look_up(change(desc)), INVALID_PARAMETER)
    assert label(look_up(desc)) == "a"


@pytest.mark.spec("MQQP-3.1.4.11-12")
def test_a_look_up_needs_an_open_queue_entry(host: ReadHost, reader: Reader) -> None:
    host.put("a")
    handle = reader.open_remote().queue
    assert has_failed(reader.look_up(handle, ReceiveAction.MQ_LOOKUP_PEEK_NEXT, 0), INVALID_PARAMETER)
    reader.enter(handle)
    assert label(reader.look_up(handle, ReceiveAction.MQ_LOOKUP_PEEK_NEXT, 0)) == "a"


def test_lookup_id_0_has_a_meaning_for_next_alone(host: ReadHost, reader: Reader) -> None:
    """readings MQQP 4."""
    handle = reader.open()
    host.put("a")
    for action in (
        ReceiveAction.MQ_LOOKUP_PEEK_CURRENT,
        ReceiveAction.MQ_LOOKUP_PEEK_PREV,
        ReceiveAction.MQ_LOOKUP_RECEIVE_CURRENT,
        ReceiveAction.MQ_LOOKUP_RECEIVE_PREV,
        RECEIVE,
        PEEK,
        0x4000_0030,
    ):
        assert has_failed(reader.look_up(handle, action, 0), INVALID_PARAMETER)


@pytest.mark.spec("MQQP-1.4-01")
def test_handles_come_from_qmcomm_alone(host: ReadHost, reader: Reader) -> None:
    """The number of a descriptor that an application of this computer has opened is nothing to a remote reader."""
    assert host.qm2qm.interface.name == "qm2qm"
    assert host.qmcomm.interface.name == "qmcomm"
    local = host.manager.open_queue(
        FormatName.parse("DIRECT=OS:host\\private$\\orders"), AccessType.RECEIVE, ShareMode.DENY_NONE, host.now
    )
    local_cursor = host.manager.open_cursor(local)
    assert local_cursor is not None
    assert reader.enter(local.handle).hresult == INVALID_PARAMETER
    assert reader.close_cursor(local.handle, local_cursor.handle) == INVALID_HANDLE
    assert reader.purge(local.handle) == INVALID_HANDLE
    assert has_failed(reader.read(local.handle), INVALID_PARAMETER)

    opened = reader.open_remote()
    assert opened.queue == opened.dwp_queue == opened.dw_context
    assert reader.enter(opened.queue).hresult == HResult.MQ_OK
    cursor = reader.cursor(opened.queue)
    assert reader.close_cursor(opened.queue, cursor) == HResult.MQ_OK


@pytest.mark.spec("MQQP-1.8-01", "MQQP-2.2-02")
def test_failures_have_the_severity_bit_and_are_published_or_have_the_customer_bit(reader: Reader) -> None:
    handle = reader.open()
    read_only = reader.open(0x20)
    failures = {
        StartReceive: [reader.read(at, opnum=StartReceive).status for at in (handle, UNKNOWN, read_only)],
        1: [reader.qm2qm.start(1, qm2qm.EndReceiveRequest(qm2qm.EndReceiveReply().context, 2)).status],
        2: [reader.enter(UNKNOWN).hresult],
        3: [reader.qm2qm.ask(3, qm2qm.CloseQueueRequest(qm2qm.CloseQueueReply().context)).hresult],
        4: [reader.close_cursor(handle, UNKNOWN), reader.close_cursor(UNKNOWN, UNKNOWN)],
        5: [reader.cancel(handle, 1), reader.cancel(UNKNOWN, 1)],
        6: [reader.purge(UNKNOWN), reader.purge(read_only)],
        StartReceive2: [
            *(reader.read(at, opnum=StartReceive2).status for at in (handle, UNKNOWN, read_only)),
            reader.read(handle, PEEK_NEXT, opnum=StartReceive2).status,
        ],
        ByLookupId: [reader.look_up(at, ReceiveAction.MQ_LOOKUP_PEEK_NEXT, 0).status for at in (handle, UNKNOWN)],
    }
    assert {opnum for opnum, method in qm2qm.QM2QM.methods.items() if method.idl.startswith("HRESULT")} == set(failures)
    failures[-1] = [
        reader.open_remote(access=3).hresult,
        reader.open_remote(name="DIRECT=OS:host\\private$\\none").hresult,
    ]
    for status in chain.from_iterable(failures.values()):
        assert status & 0x8000_0000
        assert _is_published_or_marked(status)
    # A code that somebody has made up is found by that.
    assert [_is_published_or_marked(status) for status in (0xC00E7777, 0xC00E0003 | CUSTOMER)] == [False, True]


def _is_published_or_marked(status: int) -> bool:
    return status in PUBLISHED.values() or bool(status & CUSTOMER)


def _request(opnum: int, reader: Reader) -> Any:
    desc = reader.desc(1)
    return {
        0: qm2qm.StartReceiveRequest(desc),
        1: qm2qm.EndReceiveRequest(qm2qm.EndReceiveReply().context, 2),
        2: qm2qm.OpenQueueRequest(b"x" * 16, 0, 1, 1, 1),
        3: qm2qm.CloseQueueRequest(qm2qm.CloseQueueReply().context),
        4: qm2qm.CloseCursorRequest(1, 1),
        5: qm2qm.CancelReceiveRequest(1, 1, 1),
        6: qm2qm.PurgeQueueRequest(1),
        7: qm2qm.GetServerPortRequest(0),
        9: qm2qm.StartReceive2Request(RemoteReadDesc2(desc)),
        10: qm2qm.StartReceiveByLookupIdRequest(1, RemoteReadDesc2(desc)),
    }[opnum]


@pytest.mark.spec("MQQP-3.1.4-01")
@pytest.mark.parametrize("syntax", NdrSyntax)
@pytest.mark.parametrize("opnum", [0, 1, 2, 3, 4, 5, 6, 7, 9, 10])
def test_malformed_stubs_are_refused(host: ReadHost, opnum: int, syntax: NdrSyntax) -> None:
    reader = Reader(host, syntax=syntax)
    stub = encode_request(qm2qm.QM2QM.methods[opnum], _request(opnum, reader), syntax)
    for size in range(len(stub)):
        assert reader.qm2qm.start_stub(opnum, stub[:size]).raised == FaultStatus.BAD_STUB_DATA
    assert reader.qm2qm.start_stub(opnum, stub + bytes(8)).raised == FaultStatus.BAD_STUB_DATA
    assert reader.qm2qm.start_stub(opnum, stub).is_there


@pytest.mark.spec("MQQP-3.1.4.2-01", "MQQP-3.1.4.3-01", "MQQP-2.2.2.1-06")
def test_numbers_outside_their_range_are_refused(reader: Reader) -> None:
    handle = reader.open()
    for ack in (0, 3, 0xFFFF_FFFF):
        assert reader.qm2qm.start_stub(1, bytes(20) + ack.to_bytes(4, "little")).raised == FaultStatus.BAD_STUB_DATA
    guid, handles = b"x" * 16, handle.to_bytes(4, "little") * 3
    assert reader.qm2qm.start_stub(2, guid + b"\x11\0\0\0" + handles).raised == FaultStatus.BAD_STUB_DATA
    assert reader.qm2qm.start_stub(2, guid + b"\x10\0\0\0" + handles).status == HResult.MQ_OK
    stub = bytearray(encode_request(qm2qm.QM2QM.methods[0], _request(0, reader), NdrSyntax.NDR20))
    assert not any(stub[16:20])
    stub[16:20] = (0x0042_0001).to_bytes(4, "little")
    assert reader.qm2qm.start_stub(0, bytes(stub)).raised == FaultStatus.BAD_STUB_DATA
