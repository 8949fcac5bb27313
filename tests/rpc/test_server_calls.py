import tracemalloc

import pytest

from tests.rpc.serving import (
    CLOSE,
    ECHO,
    FAIL,
    OPEN,
    OTHER,
    TOY,
    USE,
    WAIT,
    Handle,
    Number,
    Octets,
    Peer,
    ToyHandler,
    bound,
    echo_parts,
    echoes,
    offer,
    toy_server,
)
from waypost.rpc import server_connection
from waypost.rpc.binds import NDR64, AlterContext
from waypost.rpc.calls import Fault, FaultStatus, Request, Response
from waypost.rpc.interface import Empty, encode_request
from waypost.rpc.pdu import (
    PFC_CONC_MPX,
    PFC_DID_NOT_EXECUTE,
    PFC_OBJECT_UUID,
    WHOLE,
    PacketType,
)
from waypost.wire.ndr import ContextHandle, NdrSyntax


def test_a_call_is_answered_on_its_number_and_context() -> None:
    client, _ = bound()
    (answer,) = client.start(ECHO, Octets(b"hello"), 17)
    assert (answer.header.ptype, answer.header.call_id, answer.header.pfc_flags) == (PacketType.RESPONSE, 17, WHOLE)
    response = Response.decode(answer)
    assert (response.context_id, response.alloc_hint) == (0, len(response.stub_data))
    assert client.result(ECHO, [answer]) == Octets(b"hello")


def test_both_syntaxes_are_served_on_one_connection() -> None:
    client, _ = bound()
    client.send_pdu(AlterContext(5840, 5840, 0, [offer(1, NDR64)]), 3)
    assert client.ask(ECHO, Octets(b"x" * 9), 4, 1, NdrSyntax.NDR64) == Octets(b"x" * 9)
    assert client.ask(ECHO, Octets(b"y" * 9), 5, 0, NdrSyntax.NDR20) == Octets(b"y" * 9)


def test_requests_are_joined_however_they_are_cut() -> None:
    client, _ = bound()
    data = b"".join(echo_parts(client, bytes(range(256)), 2))
    for at in range(len(data) - 1):
        assert client.send(data[at : at + 1]) == []
    assert client.result(ECHO, client.send(data[-1:])) == Octets(bytes(range(256)))


def test_a_handler_sees_the_object_and_the_caller() -> None:
    client, handler = bound()
    stub = encode_request(TOY.methods[ECHO], Octets(b""), NdrSyntax.NDR20)
    request = Request(0, 0, ECHO, stub, b"o" * 16)
    (answer,) = client.send_pdu(request, 2, WHOLE | PFC_OBJECT_UUID)
    assert client.result(ECHO, [answer]) == Octets(b"")
    (call,) = handler.calls
    assert (call.object_uuid, call.interface, call.opnum) == (b"o" * 16, TOY, ECHO)
    assert (call.caller.name, call.caller.address) == (None, "10.0.0.9")


def test_calls_that_wait_are_answered_in_any_order() -> None:
    client, handler = bound()
    for number in (1, 2, 3):
        assert client.start(WAIT, Number(number), number + 10) == []
    assert echoes(client)
    answered = []
    for number in (2, 3, 1):
        handler.answer(number)
        (answer,) = client.take()
        answered.append((answer.header.call_id, client.result(WAIT, [answer]).number))
    assert answered == [(12, 2), (13, 3), (11, 1)]


def test_a_cancel_or_another_call_on_a_second_connection_reaches_what_the_first_has_opened() -> None:
    handler = ToyHandler()
    server = toy_server(handler)
    first, second = Peer(server, 1), Peer(server, 2)
    group = first.bind().assoc_group_id
    second.bind(group=group)
    handle = first.ask(OPEN, Empty())
    assert second.ask(USE, handle) == Number(1)
    assert second.ask(CLOSE, handle, 3) == Handle(ContextHandle())
    assert first.ask(USE, handle, 3) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH


def test_an_opnum_that_is_not_there_is_out_of_range_and_the_connection_goes_on() -> None:
    client, handler = bound()
    for call_id, opnum in ((2, 1), (3, 8), (4, 0xFFFF)):
        (answer,) = client.send(b"".join(client.requests(opnum, b"", call_id)))
        assert Fault.decode(answer).status == 0x1C010002
        assert answer.header.pfc_flags == WHOLE | PFC_DID_NOT_EXECUTE
        assert answer.header.call_id == call_id
    assert handler.calls == []
    assert echoes(client)


@pytest.mark.parametrize("stub", [b"", b"\x05\0\0\0\x05\0\0\0abcd", b"\x04\0\0\0\x05\0\0\0abcde", b"\0" * 12])
def test_bad_stub_data_never_reaches_the_method(stub: bytes) -> None:
    client, handler = bound()
    (answer,) = client.send(b"".join(client.requests(ECHO, stub, 2)))
    assert Fault.decode(answer).status == 0x6F7
    assert handler.calls == []
    assert echoes(client)


def test_a_handler_may_end_a_call_with_any_status() -> None:
    client, _ = bound()
    (answer,) = client.start(FAIL, Number(0xC00E0003))
    assert Fault.decode(answer).status == 0xC00E0003
    assert answer.header.pfc_flags == WHOLE
    assert echoes(client)


@pytest.mark.parametrize("handle", [ContextHandle(), ContextHandle(0, b"?" * 16)])
def test_an_unknown_context_handle_is_a_context_mismatch(handle: ContextHandle) -> None:
    client, _ = bound()
    assert client.ask(USE, Handle(handle)) == 0x1C00001A
    assert echoes(client)


def test_a_context_handle_of_another_association_is_a_context_mismatch() -> None:
    server = toy_server(ToyHandler())
    mine, other = Peer(server, 1), Peer(server, 2)
    mine.bind()
    other.bind()
    handle = mine.ask(OPEN, Empty())
    assert other.ask(USE, handle) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    assert mine.ask(USE, handle, 3) == Number(1)


def test_a_context_handle_is_refused_on_another_interface() -> None:
    client = Peer(toy_server(ToyHandler()), listener="2105")
    client.bind(offer(0), offer(1, abstract=OTHER.syntax))
    handle = client.ask(OPEN, Empty(), 2, 0)
    assert client.ask(USE, handle, 3, 1) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    assert client.ask(USE, handle, 4, 0) == Number(1)


def test_an_answer_of_4_mb_is_cut_into_fragments_of_the_agreed_size() -> None:
    client, handler = bound()
    octets = bytes(range(256)) * 0x3F00
    fragments = client.send(b"".join(echo_parts(client, octets, 2, 0x1000)))
    assert client.result(ECHO, fragments) == Octets(octets)
    total = len(octets) + 8
    for fragment in fragments:
        response = Response.decode(fragment)
        assert fragment.header.frag_length <= 5840
        assert response.alloc_hint == total
        total -= len(response.stub_data)
        assert len(response.stub_data) % 8 == 0 or fragment is fragments[-1]
    assert len(fragments) == -(-(len(octets) + 8) // 5808)
    assert handler.calls[0].is_open is False


def test_a_request_of_more_than_4_mb_is_denied_as_soon_as_it_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_connection, "MAX_RPC_REQUEST", 64)
    client, handler = bound()
    answers = [answer for part in echo_parts(client, bytes(200), 2) for answer in client.send(part)]
    assert [Fault.decode(answer).status for answer in answers] == [FaultStatus.ACCESS_DENIED]
    assert handler.calls == []
    assert echoes(client)


def test_a_request_that_is_refused_is_answered_before_its_last_fragment_and_the_rest_passed_over() -> None:
    client, handler = bound()
    first, *rest = client.requests(77, bytes(100), 2, 16)
    (answer,) = client.send(first)
    assert Fault.decode(answer).status == FaultStatus.NCA_OP_RNG_ERROR
    assert client.send(b"".join(rest)) == []
    assert handler.calls == []
    assert echoes(client)


def test_open_calls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_connection, "MAX_RPC_OPEN_CALLS", 2)
    client, handler = bound()
    for number in (1, 2):
        client.start(WAIT, Number(number), number + 10)
    assert client.ask(ECHO, Octets(b""), 13) == FaultStatus.NCA_SERVER_TOO_BUSY
    handler.answer(1)
    client.take()
    assert echoes(client)


def test_open_calls_of_an_address_are_bounded_over_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_connection, "MAX_RPC_OPEN_CALLS_OF_PEER", 2)
    first, handler = bound()
    second, other = Peer(first.server, 2), Peer(first.server, 3, address="192.0.2.99")
    for client in (second, other):
        client.bind(flags=WHOLE | PFC_CONC_MPX)
    for client, number in ((first, 1), (second, 2), (other, 3)):
        client.start(WAIT, Number(number), number + 10)
    assert first.ask(ECHO, Octets(b""), 20) == FaultStatus.NCA_SERVER_TOO_BUSY
    assert second.ask(ECHO, Octets(b""), 21) == FaultStatus.NCA_SERVER_TOO_BUSY
    assert echoes(other)
    handler.answer(1)
    first.take()
    assert echoes(second)


def test_500_calls_that_wait_take_little_memory() -> None:
    client, handler = bound()
    requests = [
        b"".join(client.requests(WAIT, encode_request(TOY.methods[WAIT], Number(n), NdrSyntax.NDR20), n + 10))
        for n in range(500)
    ]
    tracemalloc.start()
    try:
        for request in requests:
            assert client.send(request) == []
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(handler.waiting) == 500
    assert used < 1_000_000


def test_a_short_answer_is_one_fragment() -> None:
    client, _ = bound()
    (answer,) = client.start(OPEN, Empty())
    assert answer.header.frag_length == 16 + 8 + 20
