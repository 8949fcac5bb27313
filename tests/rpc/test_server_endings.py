from typing import Any

import pytest

from tests.rpc.serving import (
    ECHO,
    OPEN,
    TOY,
    USE,
    WAIT,
    Number,
    Octets,
    Peer,
    ToyHandler,
    bound,
    echo_parts,
    echoes,
    toy_server,
)
from waypost.clock import Now
from waypost.errors import DecodeError
from waypost.rpc import server_connection
from waypost.rpc.calls import Fault, FaultStatus, Request, cut
from waypost.rpc.interface import Empty, encode_request
from waypost.rpc.pdu import (
    PFC_FIRST_FRAG,
    PFC_PENDING_CANCEL,
    PacketType,
    fragment_of,
)
from waypost.rpc.server import Call
from waypost.wire.ndr import NdrSyntax


def test_a_later_fragment_of_a_call_that_nobody_knows_ends_the_connection() -> None:
    for call_id, is_passed_over in ((201, False), (200, True), (51, True), (50, False)):
        client, _ = bound()
        client.ask(ECHO, Octets(b""), 200)
        answers = client.send(echo_parts(client, bytes(100), call_id)[1])
        assert client.is_closed is not is_passed_over
        assert [Fault.decode(answer).status for answer in answers] == [FaultStatus.NCA_PROTO_ERROR] * (
            not is_passed_over
        )


def test_a_request_does_not_begin_before_the_last_one_has_ended() -> None:
    client, _ = bound()
    client.send(echo_parts(client, bytes(100), 2)[0])
    (answer,) = client.send(echo_parts(client, bytes(100), 3)[0])
    assert Fault.decode(answer).status == FaultStatus.NCA_PROTO_ERROR
    assert client.is_closed


def test_the_number_of_an_open_call_is_not_used_again() -> None:
    client, handler = bound()
    client.start(WAIT, Number(1), 5)
    (answer,) = client.start(ECHO, Octets(b""), 5)
    assert Fault.decode(answer).status == FaultStatus.NCA_PROTO_ERROR
    assert client.is_closed
    assert handler.events == ["gone"]


def test_a_cancel_reaches_the_handler_and_the_call_is_still_answered() -> None:
    client, handler = bound()
    client.start(WAIT, Number(1), 5)
    (answer,) = client.tell(PacketType.CO_CANCEL, 5)
    assert handler.events == ["cancelled"]
    assert (answer.header.call_id, Fault.decode(answer).status) == (5, FaultStatus.CALL_CANCELLED)
    assert client.tell(PacketType.CO_CANCEL, 5) == []
    assert handler.events == ["cancelled"]
    assert echoes(client)


def test_a_handler_may_pass_over_a_cancel() -> None:
    client, handler = bound(ToyHandler(ends_cancelled=False))
    client.start(WAIT, Number(1), 5)
    assert client.tell(PacketType.CO_CANCEL, 5) == []
    handler.answer(1)
    assert client.result(WAIT, client.take()) == Number(1)


@pytest.mark.parametrize("is_flag", [True, False], ids=["flag", "co_cancel"])
def test_a_cancel_that_comes_before_the_last_fragment_counts(is_flag: object) -> None:
    client, handler = bound()
    stub = encode_request(TOY.methods[WAIT], Number(1), NdrSyntax.NDR20) + bytes(2)
    first, last = cut(Request(0, 0, WAIT, stub), 5, 4)
    if is_flag:
        first.header.pfc_flags |= PFC_PENDING_CANCEL
    assert client.send(first.encode()) == []
    if not is_flag:
        assert client.tell(PacketType.CO_CANCEL, 5) == []
    (answer,) = client.send(last.encode())
    assert handler.events == ["cancelled"]
    assert Fault.decode(answer).status == FaultStatus.CALL_CANCELLED


def test_an_orphaned_call_is_given_up_and_has_no_answer() -> None:
    client, handler = bound()
    client.start(WAIT, Number(1), 5)
    assert client.tell(PacketType.ORPHANED, 5) == []
    assert handler.events == ["gone"]
    call = handler.waiting[1]
    assert (call.is_open, call.is_deliverable) == (False, False)
    handler.answer(1)
    call.fault(FaultStatus.CALL_FAILED)
    assert client.take() == []
    assert echoes(client)


def test_a_request_that_is_orphaned_before_its_last_fragment_is_forgotten() -> None:
    client, handler = bound()
    first, *rest = echo_parts(client, bytes(100), 2)
    client.send(first)
    client.tell(PacketType.ORPHANED, 2)
    assert client.send(b"".join(rest)) == []
    assert echoes(client)
    assert len(handler.calls) == 1


def test_a_cancel_of_nothing_changes_nothing() -> None:
    client, handler = bound()
    assert client.tell(PacketType.CO_CANCEL, 5) == client.tell(PacketType.ORPHANED, 6) == []
    assert handler.events == []
    assert echoes(client)


def test_the_end_of_the_last_connection_gives_up_its_calls_and_then_runs_down_the_handles_by_order() -> None:
    client, handler = bound()
    client.ask(OPEN, Empty(), 2)
    handler.new_kind = handler.reads
    client.ask(OPEN, Empty(), 3)
    client.start(WAIT, Number(1), 4)
    client.start(WAIT, Number(2), 5)
    client.close()
    assert handler.events == ["gone", "gone", "rundown read 2", "rundown queue 1"]
    handler.answer(1)
    assert client.take() == []


def test_the_end_of_one_of_two_connections_gives_up_its_calls_alone() -> None:
    handler = ToyHandler()
    server = toy_server(handler)
    first, second = Peer(server, 1), Peer(server, 2)
    second.bind(group=first.bind().assoc_group_id)
    handle = first.ask(OPEN, Empty())
    first.start(WAIT, Number(1), 3)
    second.start(WAIT, Number(2), 3)
    first.close()
    assert handler.events == ["gone"]
    handler.answer(2)
    assert second.result(WAIT, second.take()) == Number(2)
    assert second.ask(USE, handle, 4) == Number(1)
    second.close()
    assert handler.events == ["gone", "rundown queue 1"]


def test_a_connection_that_the_server_ends_runs_down_at_once() -> None:
    client, handler = bound()
    client.ask(OPEN, Empty())
    client.send(b"GET / HTTP/1.1\r\n\r\n")
    assert client.is_closed
    assert handler.events == ["rundown queue 1"]
    client.close()
    assert client.send(b"more") == []
    assert handler.events == ["rundown queue 1"]


def test_fragments_before_the_break_of_a_stream_are_served() -> None:
    client, _ = bound()
    answers = client.send(b"".join(echo_parts(client, b"last", 2, 0x1000)) + b"\5\0\xff\3\x10\0\0\0\x10\0\0\0\1\0\0\0")
    assert [answer.header.ptype for answer in answers] == [PacketType.RESPONSE, PacketType.FAULT]
    assert client.is_closed


def test_big_endian_requests_are_a_protocol_error() -> None:
    client, _ = bound()
    data = bytearray(echo_parts(client, b"", 2, 0x1000)[0])
    data[4] = 0
    (answer,) = client.send(bytes(data))
    assert Fault.decode(answer).status == FaultStatus.NCA_PROTO_ERROR
    assert client.is_closed


def test_a_request_without_its_fixed_part_is_a_protocol_error() -> None:
    client, _ = bound()
    fragment = fragment_of(Request(0, 0, ECHO, b""), 2)
    fragment.body = fragment.body[:-1]
    (answer,) = client.send(fragment.encode())
    assert Fault.decode(answer).status == FaultStatus.NCA_PROTO_ERROR
    assert client.is_closed


def test_fragments_of_one_call_agree_on_the_method() -> None:
    client, _ = bound()
    client.send(echo_parts(client, bytes(100), 2)[0])
    other = next(cut(Request(0, 0, OPEN, bytes(16)), 2, 16))
    other.header.pfc_flags &= ~PFC_FIRST_FRAG
    (answer,) = client.send(other.encode())
    assert Fault.decode(answer).status == FaultStatus.NCA_PROTO_ERROR
    assert client.is_closed


def test_a_call_is_answered_once() -> None:
    client, handler = bound()
    client.start(WAIT, Number(1))
    call = handler.waiting[1]
    call.reply(Number(1))
    with pytest.raises(AssertionError):
        call.reply(Number(1))


class Clumsy(ToyHandler):
    def call(self, call: Call, request: Any, now: Now) -> None:
        raise DecodeError("nowhere", "nothing", 0, "a mistake of the handler")


def test_what_a_handler_does_wrong_is_not_put_down_to_the_client() -> None:
    client, _ = bound(Clumsy())
    with pytest.raises(DecodeError):
        client.start(OPEN, Empty())
    assert client.take() == []
    assert not client.is_closed


def test_requests_that_are_not_whole_are_bounded_over_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_connection, "MAX_RPC_UNFINISHED_REQUESTS", 100)
    server = toy_server(ToyHandler())
    greedy, modest = Peer(server, 1), Peer(server, 2, address="192.0.2.77")
    for client in (greedy, modest):
        client.bind()
    parts = echo_parts(greedy, bytes(200), 2)
    assert greedy.send(b"".join(parts[:6])) == []
    # The address with the most of it makes room, whoever comes last.
    assert modest.send(echo_parts(modest, bytes(200), 2)[0]) == []
    (answer,) = greedy.take()
    assert Fault.decode(answer).status == FaultStatus.NCA_SERVER_TOO_BUSY
    assert greedy.send(parts[6]) == []
    assert echoes(greedy)
    (answer,) = modest.send(b"".join(echo_parts(modest, bytes(200), 2)[1:7]))
    assert Fault.decode(answer).status == FaultStatus.NCA_SERVER_TOO_BUSY
    assert echoes(modest)
    greedy.close()
    for call_id in (100, 101):
        assert modest.result(ECHO, modest.send(b"".join(echo_parts(modest, bytes(80), call_id)))) == Octets(bytes(80))
