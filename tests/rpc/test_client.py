"""ClientConnection against the server of this project: C706 12.6, MS-RPCE 3.3.2."""

import pytest

from tests.rpc.calling import ToyInitiator, Wire, toy_security
from tests.rpc.serving import (
    ECHO,
    FAIL,
    NOW,
    OPEN,
    OTHER,
    TOY,
    USE,
    WAIT,
    Number,
    Octets,
    ToyHandler,
    toy_server,
)
from waypost.clock import Now
from waypost.errors import AuthenticationFailed, DecodeError, EncodeError
from waypost.limits import MAX_REMOTE_PACKET_SIZE
from waypost.rpc.authentication import AuthLevel, AuthType, Parts
from waypost.rpc.binds import NDR20, NDR64, Bind
from waypost.rpc.calls import FaultStatus
from waypost.rpc.client import ClientConnection
from waypost.rpc.client_binding import ClientSecurity
from waypost.rpc.client_errors import BindRefused, CallTimedOut, ConnectionFailed, InterfaceNotSupported
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Empty
from waypost.rpc.pdu import PFC_CONC_MPX, PFC_SUPPORT_HEADER_SIGN, PacketType
from waypost.rpc.verification import SIGNATURE


def connected(handler: ToyHandler | None = None, security: ClientSecurity | None = None) -> Wire:
    return Wire(ClientConnection([TOY], security), toy_server(handler or ToyHandler()))


def statuses(wire: Wire) -> list[tuple[int, object]]:
    return [
        (call_id, result.status if isinstance(result, RpcFault) else result)
        for call_id, result in wire.connection.take_results()
    ]


def test_a_bind_offers_both_syntaxes_and_the_features_and_a_call_is_answered() -> None:
    wire = connected()
    assert wire.connection.is_bound
    bind = Bind.decode(wire.sent[0])
    assert [element.abstract for element in bind.contexts] == [TOY.syntax] * 3
    assert [element.context_id for element in bind.contexts] == [0, 1, 2]
    assert [element.transfers[0] for element in bind.contexts[:2]] == [NDR20, NDR64]
    assert bind.contexts[2].transfers[0].feature_bitmask is not None
    assert wire.sent[0].header.pfc_flags & PFC_CONC_MPX
    assert wire.ask(ECHO, Octets(b"abc")) == Octets(b"abc")


def test_several_interfaces_are_bound_at_once_and_called_in_any_order() -> None:
    wire = Wire(ClientConnection([TOY, OTHER]), toy_server(ToyHandler()), listener="2105")
    assert wire.ask(ECHO, Octets(b"1"), OTHER) == Octets(b"1")
    assert wire.ask(ECHO, Octets(b"2"), TOY) == Octets(b"2")


def test_an_interface_that_the_endpoint_does_not_have_is_told_by_its_error() -> None:
    wire = Wire(ClientConnection([TOY, OTHER]), toy_server(ToyHandler()))
    assert isinstance(wire.ask(ECHO, Octets(b""), OTHER), InterfaceNotSupported)
    assert wire.ask(ECHO, Octets(b"x"), TOY) == Octets(b"x")


def test_a_connection_whose_interfaces_are_all_unknown_is_closed() -> None:
    connection = ClientConnection([OTHER])
    call_id = connection.call(OTHER, ECHO, Octets(b""))
    Wire(connection, toy_server(ToyHandler()))
    ((answered, error),) = connection.take_results()
    assert (answered, type(error)) == (call_id, InterfaceNotSupported)
    assert connection.is_closed
    assert "other" in str(error)


def test_calls_made_before_the_bind_are_sent_after_it_in_order() -> None:
    connection = ClientConnection([TOY])
    ids = [connection.call(TOY, ECHO, Octets(bytes([number]))) for number in range(3)]
    wire = Wire(connection, toy_server(ToyHandler()))
    assert wire.connection.take_results() == [(ids[number], Octets(bytes([number]))) for number in range(3)]


def test_calls_that_wait_do_not_hold_up_others_and_end_in_any_order() -> None:
    handler = ToyHandler()
    wire = connected(handler)
    waits = [wire.connection.call(TOY, WAIT, Number(number)) for number in range(3)]
    wire.run()
    assert wire.ask(ECHO, Octets(b"now")) == Octets(b"now")
    for number in (2, 0, 1):
        wire.answer(handler, number)
    assert wire.connection.take_results() == [(waits[2], Number(2)), (waits[0], Number(0)), (waits[1], Number(1))]
    assert wire.connection.open_calls == 0


@pytest.mark.parametrize(
    "security", [None, AuthLevel.CONNECT, AuthLevel.PACKET, AuthLevel.INTEGRITY, AuthLevel.PRIVACY]
)
def test_long_requests_and_answers_travel_in_fragments_at_every_level(security: AuthLevel | None) -> None:
    wire = connected(security=toy_security(security) if security else None)
    data = bytes(range(256)) * 100
    assert wire.ask(ECHO, Octets(data)) == Octets(data)
    requests = [fragment for fragment in wire.sent if fragment.header.ptype == PacketType.REQUEST]
    responses = [fragment for fragment in wire.received if fragment.header.ptype == PacketType.RESPONSE]
    assert len(requests) > 4
    assert len(responses) > 4
    assert max(fragment.header.frag_length for fragment in requests) <= 5840


def test_the_largest_packet_of_a_remote_read_fits_into_an_answer() -> None:
    handler = ToyHandler()
    wire = connected(handler)
    call_id = wire.connection.call(TOY, WAIT, Number(1))
    wire.run()
    method = TOY.methods[ECHO]
    wire.connection._calls[call_id].method = method
    call = handler.waiting.pop(1)
    call.method = method
    call.reply(Octets(bytes(MAX_REMOTE_PACKET_SIZE)))
    wire.deliver()
    ((_, reply),) = wire.connection.take_results()
    assert len(reply.octets) == MAX_REMOTE_PACKET_SIZE


def test_a_fault_is_the_result_of_its_call_alone() -> None:
    wire = connected()
    error = wire.ask(FAIL, Number(0xC00E0003))
    assert isinstance(error, RpcFault)
    assert error.status == 0xC00E0003
    assert wire.ask(ECHO, Octets(b"")) == Octets(b"")


def test_a_request_that_cannot_be_encoded_is_the_result_of_its_call_alone() -> None:
    wire = connected()
    assert isinstance(wire.ask(WAIT, Number(-1)), EncodeError)
    assert wire.ask(ECHO, Octets(b"")) == Octets(b"")


def test_a_context_handle_is_good_on_another_connection_of_the_association_and_nowhere_else() -> None:
    server = toy_server(ToyHandler())
    first = Wire(ClientConnection([TOY]), server)
    handle = first.ask(OPEN, Empty())
    assert first.connection.assoc_group_id
    second = Wire(ClientConnection([TOY], None, first.connection.assoc_group_id), server, 2)
    assert second.connection.assoc_group_id == first.connection.assoc_group_id
    assert second.ask(USE, handle) == Number(1)
    stranger = Wire(ClientConnection([TOY]), server, 3)
    error = stranger.ask(USE, handle)
    assert isinstance(error, RpcFault)
    assert error.status == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH


def test_an_association_that_does_not_exist_refuses_the_bind() -> None:
    connection = ClientConnection([TOY], None, 4711)
    connection.call(TOY, ECHO, Octets(b""))
    Wire(connection, toy_server(ToyHandler()))
    ((_, error),) = connection.take_results()
    assert isinstance(error, BindRefused)
    assert connection.is_closed


# --- Security


def test_the_last_of_three_tokens_goes_in_an_auth3() -> None:
    handler = ToyHandler()
    wire = connected(handler, toy_security())
    assert wire.ask(ECHO, Octets(b"secret")) == Octets(b"secret")
    assert [fragment.header.ptype for fragment in wire.sent][:2] == [PacketType.BIND, PacketType.AUTH3]
    assert handler.calls[0].caller.name == "CORP\\alice"
    assert handler.calls[0].caller.level is AuthLevel.PRIVACY
    assert all(b"secret" not in fragment.body for fragment in (*wire.sent, *wire.received))


def test_two_tokens_need_one_round() -> None:
    handler = ToyHandler()
    wire = connected(handler, toy_security(auth_type=AuthType.SPNEGO))
    assert wire.ask(ECHO, Octets(b"")) == Octets(b"")
    assert [fragment.header.ptype for fragment in wire.sent] == [PacketType.BIND, PacketType.REQUEST]
    assert handler.calls[0].caller.name == "CORP\\alice"


def test_a_package_of_unknown_legs_goes_on_with_alter_context() -> None:
    server = toy_server(ToyHandler())
    acceptor = server._endpoints["2103"].acceptors(AuthType.NTLM)
    assert acceptor is not None
    acceptor.auth_type = AuthType.KERBEROS  # type: ignore[misc]
    object.__setattr__(server._endpoints["2103"], "acceptors", lambda auth_type: acceptor)
    wire = Wire(
        ClientConnection([TOY], ClientSecurity(ToyInitiator(AuthType.KERBEROS, 3, "a"), AuthLevel.PRIVACY)), server
    )
    assert wire.ask(ECHO, Octets(b"")) == Octets(b"")
    assert [fragment.header.ptype for fragment in wire.sent][:2] == [PacketType.BIND, PacketType.ALTER_CONTEXT]
    assert wire.received[1].header.ptype == PacketType.ALTER_CONTEXT_RESP


def test_credentials_that_the_server_does_not_believe_end_each_call() -> None:
    wire = connected(security=toy_security(name="mallory"))
    call_id = wire.connection.call(TOY, ECHO, Octets(b""))
    wire.run()
    assert statuses(wire) == [(call_id, FaultStatus.ACCESS_DENIED)]


def test_a_package_that_the_server_does_not_offer_refuses_the_bind() -> None:
    connection = ClientConnection([TOY], toy_security(auth_type=AuthType.KERBEROS))
    connection.call(TOY, ECHO, Octets(b""))
    Wire(connection, toy_server(ToyHandler()))
    ((_, error),) = connection.take_results()
    assert isinstance(error, BindRefused)
    assert "AUTHENTICATION_TYPE_NOT_RECOGNIZED" in str(error)


def test_the_first_protected_request_has_a_verification_trailer_and_others_have_none() -> None:
    wire = connected(security=toy_security(AuthLevel.INTEGRITY))
    for _ in range(2):
        assert wire.ask(ECHO, Octets(b"1234")) == Octets(b"1234")
    first, second = (fragment.body for fragment in wire.sent if fragment.header.ptype == PacketType.REQUEST)
    assert SIGNATURE in first
    assert SIGNATURE not in second


def test_who_takes_the_offer_to_sign_headers_out_of_a_bind_is_found_out() -> None:
    server = toy_server(ToyHandler())
    connection = ClientConnection([TOY], toy_security(AuthLevel.INTEGRITY))
    call_id = connection.call(TOY, ECHO, Octets(b""))
    server.connected(1, "2103", "10.0.0.9", NOW)
    connection.start()
    bind = bytearray(connection.take_output())
    bind[3] &= ~PFC_SUPPORT_HEADER_SIGN
    server.received(1, bytes(bind), NOW)
    while output := [data for _, data in server.take_output() if data is not None]:
        connection.feed(b"".join(output))
        server.received(1, connection.take_output(), NOW)
    ((answered, error),) = connection.take_results()
    assert (answered, error.status) == (call_id, FaultStatus.ACCESS_DENIED)


class Unwilling(ToyInitiator):
    """Logs on and then protects nothing."""

    def protect(self, parts: Parts, level: AuthLevel) -> tuple[bytes, bytes]:
        raise AuthenticationFailed("the context has expired")


def test_a_request_that_cannot_be_protected_ends_the_connection() -> None:
    wire = connected(security=ClientSecurity(Unwilling(name="a"), AuthLevel.PRIVACY))
    assert isinstance(wire.ask(ECHO, Octets(b"")), AuthenticationFailed)
    assert wire.connection.is_closed


def test_without_protection_there_is_no_verification_trailer() -> None:
    for security in (None, toy_security(AuthLevel.CONNECT)):
        wire = connected(security=security)
        wire.ask(ECHO, Octets(b""))
        assert SIGNATURE not in wire.sent[-1].body


def test_an_answer_that_was_changed_on_the_way_ends_the_connection() -> None:
    wire = connected(security=toy_security(AuthLevel.INTEGRITY))
    call_id = wire.connection.call(TOY, ECHO, Octets(b"price: 10"))
    wire.server.received(1, wire.connection.take_output(), NOW)
    ((_, data),) = wire.server.take_output()
    assert data is not None
    wire.connection.feed(data.replace(b"price: 10", b"price: 99"))
    ((answered, error),) = wire.connection.take_results()
    assert answered == call_id
    assert "signature" in str(error)
    assert wire.connection.is_closed


# --- Cancels, time-outs, ends


def test_a_cancel_asks_the_server_and_its_fault_is_the_result() -> None:
    wire = connected()
    call_id = wire.connection.call(TOY, WAIT, Number(1))
    wire.run()
    wire.connection.cancel(call_id)
    wire.run()
    assert statuses(wire) == [(call_id, FaultStatus.CALL_CANCELLED)]
    assert wire.sent[-1].header.ptype == PacketType.CO_CANCEL


def test_a_call_that_was_not_sent_is_cancelled_at_once() -> None:
    connection = ClientConnection([TOY])
    call_id = connection.call(TOY, WAIT, Number(1))
    connection.cancel(call_id)
    ((answered, error),) = connection.take_results()
    assert (answered, error.status) == (call_id, FaultStatus.NCA_FAULT_CANCEL)
    connection.cancel(call_id)
    wire = Wire(connection, toy_server(ToyHandler()))
    assert len(wire.sent) == 1


def test_an_orphaned_call_has_its_result_at_once_and_the_connection_stays() -> None:
    handler = ToyHandler(ends_cancelled=False)
    wire = connected(handler)
    call_id = wire.connection.call(TOY, WAIT, Number(1))
    wire.run()
    wire.connection.orphan(call_id)
    wire.run()
    assert statuses(wire) == [(call_id, FaultStatus.NCA_FAULT_CANCEL)]
    assert wire.sent[-1].header.ptype == PacketType.ORPHANED
    assert wire.ask(ECHO, Octets(b"still")) == Octets(b"still")


def test_a_server_that_does_not_keep_connections_is_left_after_an_orphan() -> None:
    wire = connected()
    wire.connection._binding.keeps_connection_on_orphan = False
    call_id, other = (wire.connection.call(TOY, WAIT, Number(number)) for number in (1, 2))
    wire.run()
    wire.connection.orphan(call_id)
    assert wire.connection.is_closed
    (_, (answered, error)) = wire.connection.take_results()
    assert (answered, type(error)) == (other, ConnectionFailed)


def test_a_call_whose_time_is_over_is_cancelled_and_not_waited_for() -> None:
    wire = connected(ToyHandler(ends_cancelled=False))
    started = NOW.monotonic
    call_id = wire.connection.call(TOY, WAIT, Number(1), started + 300.0)
    patient = wire.connection.call(TOY, WAIT, Number(2))
    wire.run()
    due = wire.connection.next_deadline
    assert due == started + 300.0
    wire.connection.expire(Now(started + 299.9, 0.0))
    assert wire.connection.take_results() == []
    wire.connection.expire(Now(started + 300.0, 0.0))
    ((answered, error),) = wire.connection.take_results()
    assert (answered, type(error)) == (call_id, CallTimedOut)
    wire.run()
    assert [fragment.header.ptype for fragment in wire.sent[-2:]] == [PacketType.CO_CANCEL, PacketType.ORPHANED]
    assert {fragment.header.call_id for fragment in wire.sent[-2:]} == {call_id}
    assert wire.connection.next_deadline is None
    wire.connection.cancel(patient)
    assert wire.connection.open_calls == 1


def test_a_connection_that_goes_ends_all_calls_and_takes_no_more() -> None:
    wire = connected()
    ids = [wire.connection.call(TOY, WAIT, Number(number)) for number in range(2)]
    wire.run()
    wire.connection.closed()
    late = wire.connection.call(TOY, ECHO, Octets(b""))
    results = wire.connection.take_results()
    assert [call_id for call_id, _ in results] == [*ids, late]
    assert all(isinstance(error, ConnectionFailed) and not isinstance(error, DecodeError) for _, error in results)
    assert not wire.connection.is_open_for_calls
