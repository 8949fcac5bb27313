"""ClientConnection against servers that answer what they like."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rpc.calling import ToyInitiator, toy_security
from tests.rpc.serving import ECHO, OTHER, TOY, WAIT, Number, Octets
from waypost.errors import AuthenticationFailed, DecodeError, WaypostError
from waypost.limits import MAX_RPC_ANSWER, MAX_RPC_UNFINISHED_ANSWERS
from waypost.rpc.authentication import AuthLevel, AuthType
from waypost.rpc.binds import (
    NDR20,
    NDR64,
    AlterContextResponse,
    BindAck,
    BindNak,
    BindResult,
    ContextResult,
    RejectionReason,
    RejectReason,
)
from waypost.rpc.calls import Fault, FaultStatus, Request, Response, cut
from waypost.rpc.client import ClientConnection
from waypost.rpc.client_binding import AUTH_CONTEXT_ID, MAX_LEGS, ClientSecurity
from waypost.rpc.client_errors import BindRefused, ConnectionFailed, InterfaceNotSupported, InterfaceRefused
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import encode_reply
from waypost.rpc.pdu import (
    PFC_CONC_MPX,
    WHOLE,
    Body,
    FragmentReader,
    PacketType,
    SecurityTrailer,
    bare_fragment,
    fragment_of,
)
from waypost.wire.ndr import NdrSyntax

ACCEPTED = ContextResult(BindResult.ACCEPTANCE, 0, NDR20)
REFUSED = ContextResult(BindResult.PROVIDER_REJECTION, RejectionReason.PROPOSED_TRANSFER_SYNTAXES_NOT_SUPPORTED)
UNKNOWN = ContextResult(BindResult.PROVIDER_REJECTION, RejectionReason.ABSTRACT_SYNTAX_NOT_SUPPORTED)
FEATURES = ContextResult(BindResult.NEGOTIATE_ACK, 2)
USUAL = (ACCEPTED, REFUSED, FEATURES)


def ack(*results: ContextResult, max_recv_frag: int = 5840) -> BindAck:
    return BindAck(5840, max_recv_frag, 7, b"2103\0", list(results or USUAL))


def told(record: Body, flags: int = WHOLE | PFC_CONC_MPX, call_id: int = 1) -> ClientConnection:
    """A connection with one call, whose bind was answered with this."""
    connection = ClientConnection([TOY])
    connection.start()
    connection.call(TOY, ECHO, Octets(b""))
    connection.feed(fragment_of(record, call_id, flags).encode())
    return connection


def bound() -> ClientConnection:
    connection = ClientConnection([TOY])
    connection.start()
    connection.feed(fragment_of(ack(), 1, WHOLE | PFC_CONC_MPX).encode())
    connection.take_output()
    assert connection.is_bound
    return connection


def error_of(connection: ClientConnection) -> WaypostError:
    ((_, error),) = connection.take_results()
    assert isinstance(error, WaypostError)
    return error


def response(call_id: int, octets: bytes) -> bytes:
    stub = encode_reply(TOY.methods[ECHO], Octets(octets), NdrSyntax.NDR20)
    return b"".join(fragment.encode() for fragment in cut(Response(0, 0, stub), call_id, 5808))


@pytest.mark.parametrize("reason", [*RejectReason, 77])
def test_a_refused_bind_says_its_reason(reason: int) -> None:
    connection = told(BindNak(reason))
    error = error_of(connection)
    assert isinstance(error, BindRefused)
    assert error.reason == reason
    assert connection.is_closed


def test_why_an_interface_is_not_accepted_is_told() -> None:
    for result, kind in ((UNKNOWN, InterfaceNotSupported), (REFUSED, InterfaceRefused)):
        connection = told(ack(result, result, FEATURES))
        assert type(error_of(connection)) is kind
        assert connection.is_closed


def test_an_acceptance_counts_wherever_it_stands() -> None:
    accepted_last = ContextResult(BindResult.ACCEPTANCE, 0, NDR64)
    assert told(ack(REFUSED, accepted_last, FEATURES)).is_bound
    assert told(ack(ACCEPTED, accepted_last, REFUSED)).is_bound


@pytest.mark.parametrize(
    ("record", "call_id"),
    [
        (ack(ACCEPTED), 1),
        (ack(*USUAL, FEATURES), 1),
        (ack(ContextResult(BindResult.ACCEPTANCE, 0, TOY.syntax), REFUSED, FEATURES), 1),
        (ack(), 2),
        (AlterContextResponse(5840, 5840, 7, b"", list(USUAL)), 1),
        (Response(0, 0, b""), 1),
        (Request(0, 0, 0, b""), 1),
    ],
)
def test_an_answer_that_does_not_fit_the_bind_ends_the_connection(record: Body, call_id: int) -> None:
    connection = told(record, call_id=call_id)
    assert connection.is_closed
    assert type(error_of(connection)) is ConnectionFailed


def test_a_fault_in_the_place_of_a_bind_ack_is_the_result_of_the_calls() -> None:
    error = error_of(told(Fault(FaultStatus.ACCESS_DENIED)))
    assert isinstance(error, RpcFault)
    assert error.status == FaultStatus.ACCESS_DENIED


def test_a_server_without_multiplexing_gets_one_call_after_the_other() -> None:
    connection = told(ack(), WHOLE)
    second = connection.call(TOY, ECHO, Octets(b""))
    connection.feed(b"")
    requests = FragmentReader().feed(connection.take_output())[1:]
    assert [fragment.header.call_id for fragment in requests] == [2]
    connection.feed(response(2, b"1"))
    (request,) = FragmentReader().feed(connection.take_output())
    assert request.header.call_id == second == 3
    connection.feed(response(3, b"2"))
    assert connection.take_results() == [(2, Octets(b"1")), (3, Octets(b"2"))]


def test_fragments_are_never_smaller_than_every_server_must_take() -> None:
    connection = told(ack(max_recv_frag=17))
    connection.call(TOY, ECHO, Octets(bytes(4000)))
    fragments = FragmentReader().feed(connection.take_output())
    assert 1400 < max(fragment.header.frag_length for fragment in fragments) <= 1432


def test_the_fragments_of_a_request_are_no_longer_than_the_server_takes() -> None:
    connection = told(ack(max_recv_frag=2000))
    connection.call(TOY, ECHO, Octets(bytes(9000)))
    fragments = FragmentReader().feed(connection.take_output())[2:]
    assert all(fragment.header.frag_length <= 2000 for fragment in fragments)
    assert all((fragment.header.frag_length - 24) % 8 == 0 for fragment in fragments[:-1])


# --- Security


def secured(record: Body, token: bytes | None) -> ClientConnection:
    connection = ClientConnection([TOY], toy_security())
    connection.start()
    connection.call(TOY, ECHO, Octets(b""))
    fragment = fragment_of(record, 1, WHOLE | PFC_CONC_MPX)
    if token is not None:
        trailer = SecurityTrailer(AuthType.NTLM, AuthLevel.PRIVACY, auth_context_id=AUTH_CONTEXT_ID)
        fragment = fragment.authenticate(trailer, token)
    connection.feed(fragment.encode())
    return connection


def test_a_server_that_leaves_the_authentication_out_gets_no_request() -> None:
    connection = secured(ack(), None)
    assert isinstance(error_of(connection), AuthenticationFailed)
    assert connection.is_closed
    assert [fragment.header.ptype for fragment in FragmentReader().feed(connection.take_output())] == [PacketType.BIND]


def test_an_answer_in_clear_is_no_answer_where_privacy_was_agreed_on() -> None:
    connection = secured(ack(), b"challenge")
    assert connection.is_bound
    connection.feed(response(2, b""))
    assert isinstance(error_of(connection), AuthenticationFailed)
    assert connection.is_closed


class Endless(ToyInitiator):
    """Never has enough."""

    def step(self, token: bytes | None) -> bytes | None:
        return b"again"


def test_an_authentication_that_does_not_end_is_given_up() -> None:
    connection = ClientConnection([TOY], ClientSecurity(Endless(AuthType.SPNEGO), AuthLevel.PRIVACY))
    connection.start()
    connection.call(TOY, ECHO, Octets(b""))
    trailer = SecurityTrailer(AuthType.SPNEGO, AuthLevel.PRIVACY, auth_context_id=AUTH_CONTEXT_ID)
    legs = 0
    record: Body = ack()
    while not connection.is_closed:
        legs += 1
        connection.feed(fragment_of(record, 1).authenticate(trailer, b"more").encode())
        record = AlterContextResponse(5840, 5840, 7, b"", list(USUAL))
    assert legs == MAX_LEGS + 1
    assert isinstance(error_of(connection), AuthenticationFailed)


# --- Answers


def test_an_answer_that_cannot_be_read_ends_its_call_alone() -> None:
    connection = bound()
    damaged, whole = (connection.call(TOY, ECHO, Octets(b"")) for _ in range(2))
    connection.feed(fragment_of(Response(0, 0, b"\xff" * 8), damaged).encode())
    error = error_of(connection)
    assert isinstance(error, DecodeError)
    connection.feed(response(whole, b"ok"))
    assert connection.take_results() == [(whole, Octets(b"ok"))]


def test_an_answer_that_is_too_long_ends_its_call_and_its_rest_is_passed_over() -> None:
    connection = bound()
    long, other = (connection.call(TOY, ECHO, Octets(b"")) for _ in range(2))
    connection.feed(response(long, bytes(MAX_RPC_ANSWER)))
    error = error_of(connection)
    assert isinstance(error, DecodeError)
    connection.feed(response(other, b"ok"))
    assert connection.take_results() == [(other, Octets(b"ok"))]


def test_unfinished_answers_take_a_bounded_amount_of_memory() -> None:
    connection = bound()
    calls = [connection.call(TOY, ECHO, Octets(b"")) for _ in range(40)]
    fed = 0
    part = cut(Response(0, 0, bytes(60_000)), 0, 59_984)
    first = next(part)
    first.header.pfc_flags = 1
    while not connection.is_closed:
        for call_id in calls:
            first.header.call_id = call_id
            data = first.encode()
            connection.feed(data)
            fed += len(data)
        first.header.pfc_flags = 0
    assert fed < MAX_RPC_UNFINISHED_ANSWERS + 41 * 60_100
    assert {type(error) for _, error in connection.take_results()} == {ConnectionFailed}


def test_answers_to_nobody_are_passed_over() -> None:
    connection = bound()
    connection.feed(response(99, b"") + fragment_of(Fault(5), 98).encode())
    assert not connection.is_closed
    assert connection.take_results() == []


def test_a_call_is_answered_once() -> None:
    connection = bound()
    call_id = connection.call(TOY, ECHO, Octets(b""))
    connection.feed(response(call_id, b"1") + response(call_id, b"2"))
    assert connection.take_results() == [(call_id, Octets(b"1"))]


def test_a_server_that_wants_to_end_is_left_when_the_last_call_has_ended() -> None:
    connection = bound()
    call_id = connection.call(TOY, ECHO, Octets(b""))
    connection.feed(bare_fragment(PacketType.SHUTDOWN, 0).encode())
    assert not connection.is_closed
    assert not connection.is_open_for_calls
    late = connection.call(TOY, ECHO, Octets(b""))
    ((refused, error),) = connection.take_results()
    assert (refused, type(error)) == (late, ConnectionFailed)
    connection.feed(response(call_id, b"last"))
    assert connection.take_results() == [(call_id, Octets(b"last"))]
    assert connection.is_closed


@pytest.mark.parametrize("ptype", [PacketType.BIND, PacketType.REQUEST, PacketType.AUTH3, PacketType.ORPHANED])
def test_what_only_a_client_sends_ends_the_connection(ptype: PacketType) -> None:
    connection = bound()
    connection.call(TOY, WAIT, Number(1))
    connection.feed(bare_fragment(ptype, 2).encode())
    assert type(error_of(connection)) is ConnectionFailed


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_of_a_server_give_results_or_nothing(data: bytes, is_bound: bool) -> None:  # noqa: FBT001
    connection = bound() if is_bound else ClientConnection([TOY, OTHER])
    if not is_bound:
        connection.start()
    calls = {connection.call(TOY, ECHO, Octets(b"")) for _ in range(2)}
    connection.feed(data)
    connection.feed(data)
    connection.closed()
    results = dict(connection.take_results())
    assert set(results) == calls
    assert all(isinstance(result, (WaypostError, Octets)) for result in results.values())


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_change_of_a_fragment_gives_one_result_for_each_call(data: st.DataObject) -> None:
    connection = bound()
    call_id = connection.call(TOY, ECHO, Octets(b""))
    answer = bytearray(response(call_id, b"abcdef"))
    for _ in range(data.draw(st.integers(1, 3))):
        answer[data.draw(st.integers(0, len(answer) - 1))] = data.draw(st.integers(0, 255))
    connection.feed(bytes(answer))
    connection.closed()
    ((answered, result),) = connection.take_results()
    assert answered == call_id
    assert isinstance(result, (WaypostError, Octets))
