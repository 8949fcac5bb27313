"""The results of waypost.msmq from the answers of a host: errors with a sentence, and messages of any content."""

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.msmq_reading import OPEN, relay, run
from tests.daemon.running import loopback, running
from tests.remote.conversing import ORDERS, user_message
from waypost import aio, errors
from waypost.client.message import Message
from waypost.client.transports.msmq import reading as readings_module
from waypost.client.transports.msmq.access import Access
from waypost.client.transports.msmq.address import HostAddress
from waypost.client.transports.msmq.failures import Failures, is_lost_handle, is_passing
from waypost.client.transports.msmq.reading import Patience
from waypost.client.transports.msmq.reading_session import ReadingSession
from waypost.client.transports.msmq.received import message_of as core_message_of
from waypost.errors import DecodeError, WaypostError
from waypost.hresult import HResult
from waypost.remote.client.conversations import CALL_TIMEOUT_S, Ask, CallFailed
from waypost.remote.client.reads import Opening, Received, Transaction
from waypost.rpc.authentication import AuthLevel, SecurityContextFailed
from waypost.rpc.binds import BindNak, RejectReason
from waypost.rpc.calls import FaultStatus
from waypost.rpc.client_errors import BindRefused, CallTimedOut, ConnectionFailed, InterfaceNotSupported
from waypost.rpc.endpoint_lookup import EPT_S_NOT_REGISTERED
from waypost.rpc.faults import RpcFault
from waypost.rpc.pdu import fragment_of
from waypost.wire import user_header
from waypost.wire.message_class import MessageClass
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.remote_packet import Origin, RemotePacket
from waypost.wire.remote_trailers import SubqueueHeader
from waypost.wire.security_header import SecurityHeader
from waypost.wire.user_message import UserMessage

HERE = loopback(13)
NO_RPC = f"^{HERE}:22103 is not an RPC server$"
FAILURES = Failures("winserver01", "orders", Access())
ALICE = Failures("winserver01", "orders", Access("CORP\\alice", "pw", AuthLevel.PRIVACY))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (HResult.MQ_ERROR_QUEUE_NOT_FOUND, errors.QueueNotFound),
        (HResult.MQ_ERROR_QUEUE_DELETED, errors.QueueDeleted),
        (HResult.MQ_ERROR_SHARING_VIOLATION, errors.SharingViolation),
        (HResult.MQ_ERROR_IO_TIMEOUT, errors.Timeout),
        (HResult.MQ_ERROR_MESSAGE_NOT_FOUND, errors.MessageNotFound),
        (HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED, errors.MessageAlreadyReceived),
        (HResult.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION, errors.MessageLocked),
        (HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION, errors.IllegalCursorAction),
        (HResult.MQ_ERROR_OPERATION_CANCELLED, errors.OperationCancelled),
        (HResult.MQ_INFORMATION_REMOTE_CANCELED_BY_CLIENT, errors.OperationCancelled),
        (HResult.MQ_ERROR_TRANSACTION_USAGE, errors.TransactionUsage),
        (HResult.MQ_ERROR_TRANSACTION_SEQUENCE, errors.TransactionSequence),
        (HResult.MQ_ERROR_INVALID_HANDLE, errors.InvalidHandle),
        (HResult.STATUS_INVALID_HANDLE, errors.InvalidHandle),
        (HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE, errors.QueueNotAvailable),
        (HResult.MQ_ERROR_INVALID_PARAMETER, errors.InvalidParameter),
        (HResult.STATUS_INVALID_PARAMETER, errors.InvalidParameter),
        (HResult.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, errors.UnsupportedFormatName),
        (HResult.MQ_ERROR_INSUFFICIENT_RESOURCES, errors.InsufficientResources),
        (HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE, errors.ServiceNotAvailable),
        (HResult.MQ_ERROR_ACCESS_DENIED, errors.AccessDenied),
        (HResult.STATUS_ACCESS_DENIED, errors.AccessDenied),
    ],
)
def test_a_status_is_an_error_of_the_tree_with_the_queue_in_its_sentence(
    status: int, kind: type[WaypostError]
) -> None:  # fmt: skip
    error = FAILURES.of(CallFailed("R_StartReceive", status))
    assert type(error) is kind
    assert str(error).startswith("orders ")


@given(status=st.integers(1, 0xFFFF_FFFF))
def test_any_status_and_any_fault_is_an_error_with_a_sentence(status: int) -> None:
    for raised in (CallFailed("R_OpenQueue", status), RpcFault(status)):
        error = FAILURES.of(raised)
        assert isinstance(error, WaypostError)
        assert str(error)
        assert isinstance(is_lost_handle(raised) or is_passing(raised), bool)


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        (RpcFault(FaultStatus.ACCESS_DENIED), errors.AuthenticationFailed, "refuses .*: pass `user` and `password`$"),
        (
            RpcFault(EPT_S_NOT_REGISTERED),
            errors.SessionRefused,
            "does not serve remote readers: MSMQ is not running there, or uses another rpc_port",
        ),
        (InterfaceNotSupported("qmcomm"), errors.SessionRefused, "does not serve remote readers: .*qmcomm"),
        (CallFailed("m", HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE), errors.SessionRefused, "does not serve"),
        (BindRefused(RejectReason.LOCAL_LIMIT_EXCEEDED), errors.SessionRefused, "LOCAL_LIMIT_EXCEEDED; try again"),
        (
            BindRefused(RejectReason.AUTHENTICATION_TYPE_NOT_RECOGNIZED),
            errors.AuthenticationFailed,
            "has no user accounts",
        ),
        (RpcFault(FaultStatus.NCA_SERVER_TOO_BUSY), errors.InsufficientResources, "try again later"),
        (RpcFault(FaultStatus.NCA_OP_RNG_ERROR), errors.UnsupportedAccessMode, "too old"),
        (RpcFault(FaultStatus.NCA_FAULT_CONTEXT_MISMATCH), errors.InvalidHandle, "no longer open at the host"),
        (ConnectionFailed("it ended"), errors.SessionLost, "winserver01 is lost: it ended"),
        (CallTimedOut("R_PurgeQueue"), errors.NotAcknowledged, "winserver01 does not answer: R_PurgeQueue"),
    ],
)
def test_what_the_transport_says_is_told_with_what_to_do(
    raised: WaypostError, kind: type[WaypostError], words: str
) -> None:  # fmt: skip
    error = FAILURES.of(raised, (0,))
    assert type(error) is kind
    with pytest.raises(kind, match=words):
        raise error
    if isinstance(error, errors.SessionLost | errors.NotAcknowledged):
        assert error.is_outcome_unknown


def test_the_user_is_named_and_the_password_is_not() -> None:
    error = ALICE.of(SecurityContextFailed("ntlm: wrong"))
    assert str(error).startswith("winserver01 refuses the user CORP\\alice: check the name")
    assert type(error) is errors.AuthenticationFailed
    denied = ALICE.of(CallFailed("R_OpenQueue", HResult.MQ_ERROR_ACCESS_DENIED))
    assert str(denied).startswith("orders denies access to the user CORP\\alice; grant the permission")


# Hosts that are none.


def talking(data: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(data)
        writer.close()

    return talk


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            b"",
            f"^{HERE} closed the connection to port 22103 without an answer: .* does not serve RPC on this port$",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", NO_RPC),
        (b"\x05\x00\x0c\x03" + bytes(12), NO_RPC),
        (b"\x05\x00\x02\x03\x10\0\0\0\x10\0\0\0\x01\0\0\0", NO_RPC),
        (fragment_of(BindNak(RejectReason.TEMPORARY_CONGESTION), 1).encode(), "TEMPORARY_CONGESTION"),
    ],
    ids=["nothing", "HTTP", "a PDU too short", "an answer to nothing", "a bind_nak"],
)
def test_whatever_answers_at_the_port_is_an_error_with_a_sentence(answer: bytes, words: str) -> None:
    async def work() -> None:
        server = await asyncio.start_server(talking(answer), HERE, 22103)  # type: ignore[arg-type]
        async with server, aio.msmq(HERE, rpc_port=22103, timeout=60) as host:
            with pytest.raises(errors.SessionRefused, match=words):
                await host.queue("orders").receive(20)

    run(work())


# Time.


@pytest.mark.spec("MQRR-3.1.2.1-01")
def test_opening_and_enlisting_have_five_minutes_and_then_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = ReadingSession(HostAddress.of(HERE, 1801, "", 1000, None), Access())
    client = session.remote_read
    asks: list[Ask] = [
        next(client.open(Opening(ORDERS))),
        next(client.open_for_move(ORDERS)),
        next(client.enlist(Transaction(bytes(range(16)), b"token"), ORDERS)),
    ]
    assert [ask.opnum for ask in asks] == [2, 11, 12]
    assert [session.usual(ask)[1] for ask in asks] == [300.0] * 3
    assert CALL_TIMEOUT_S == 300.0
    # A shorter one, to see what it does.
    monkeypatch.setattr("waypost.remote.client.remote_read.CALL_TIMEOUT_S", 0.2)

    async def work() -> None:
        async with running(tmp_path / "alpha", HERE) as found, relay(HERE) as middle:
            await found.manager.create_queue("orders")
            middle.held = {OPEN}
            async with aio.msmq("127.0.0.1", rpc_port=middle.port, timeout=1000) as host:
                with pytest.raises(errors.NotAcknowledged, match="R_OpenQueue did not get an answer in time"):
                    await host.queue(rf"DIRECT=TCP:{HERE}\private$\orders").receive()

    run(work())


def test_connections_are_kept_alive(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path / "alpha", HERE) as found, aio.msmq(HERE) as host:
            await found.manager.create_queue("orders")
            with pytest.raises(errors.Timeout):
                await host.queue("orders").peek(0)
            session = host._transport._reader.session()
            (association,) = session._associations.values()
            (connection,) = association._connections
            assert connection._transport is not None
            sock = connection._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30

    run(work())


def test_patience_ends_and_begins_anew_after_a_long_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(readings_module, "time", type("Clock", (), {"monotonic": lambda: clock[0]}))
    patience = Patience(2.0, None)
    assert not patience.is_tried
    pauses = []
    while (pause := patience.wait()) is not None:
        pauses.append(pause)
        clock[0] += pause
    assert pauses == [0.0, 0.05, 0.1, 0.2, 0.4, 0.8]
    clock[0] += 3
    assert patience.wait() == 0.0
    hurried = Patience(2.0, clock[0] + 0.01)
    assert [hurried.wait(), hurried.wait()] == [0.0, None]
    assert time.monotonic() > 0


# Messages.


def message_of(received: Received) -> Message:
    return Message(core_message_of(received))


def received(message: UserMessage, **changes: object) -> Received:
    packet = RemotePacket.of(message.encode(), Origin(b"q" * 16))
    for name, value in changes.items():
        setattr(packet, name, value)
    return Received(packet, message, 1_000_007, 5)


def test_a_message_has_what_its_packet_and_its_place_say() -> None:
    header = SubqueueHeader(abort_counter=3, move_counter=2, last_move_time=9, subqueue_name="later")
    message = message_of(received(user_message(), subqueue=header))
    assert (message.body, message.sent_time.timestamp(), message.arrived_time.timestamp()) == (
        b"twelve bytes",
        1_000_000,
        1_000_007,
    )
    assert (message.abort_count, message.move_count) == (3, 2)
    assert message.lookup_id & 0xFF == 5
    assert message.packet == user_message().encode()
    # MS-MQRR 2.2.5.3: outside a subqueue the header says nothing.
    outside = message_of(received(user_message(), subqueue=replace(header, subqueue_name="")))
    assert (outside.abort_count, outside.move_count) == (0, 0)
    # The oldest servers of qm2qm do not tell the place.
    assert message_of(replace(received(user_message()), sequence_id=0)).lookup_id == 0


def test_a_message_with_names_that_are_not_understood_shows_them_as_unknown() -> None:
    message = user_message()
    message.user.destination_queue = DirectQueueFormatName("no direct name")
    message.user.admin_queue = DirectQueueFormatName("OS:host\\private$\\admin")
    message.user.response_queue = DirectQueueFormatName("IPX:host\\q")
    came = message_of(Received(RemotePacket(b""), message, 1_000_007, 5))
    assert (came.body, came.destination_queue) == (b"twelve bytes", "UNKNOWN=no direct name")
    assert (came.admin_queue, came.response_queue) == ("DIRECT=OS:host\\PRIVATE$\\admin", "UNKNOWN=IPX:host\\q")
    assert came.class_name == MessageClass.MQMSG_CLASS_NORMAL.name


@given(text=st.text(max_size=20), code=st.integers(0, 7), provider=st.binary(max_size=8))
def test_every_message_that_can_be_decoded_is_one(text: str, code: int, provider: bytes) -> None:
    message = user_message()
    message.user.destination_queue = DirectQueueFormatName(text)
    message.user.response_queue = DirectQueueFormatName(text)
    message.user.flags |= code << user_header.RQ_SHIFT
    message.security = SecurityHeader(provider_info=provider)
    try:
        decoded = UserMessage.decode(message.encode())
    except (DecodeError, errors.EncodeError):
        return
    assert message_of(Received(RemotePacket(b""), decoded, 0, 5)).body == b"twelve bytes"
