import pytest

from tests.rpc.serving import (
    ALWAYS_OPEN,
    CONTEXT_ID,
    ECHO,
    NOW,
    OPEN,
    PORT,
    TOY,
    USE,
    Guids,
    Number,
    Octets,
    Peer,
    ToyContext,
    ToyHandler,
    offer,
    only_always_open,
    toy_acceptors,
    toy_server,
    trailer,
)
from waypost.rpc import server_security
from waypost.rpc.authentication import AuthLevel, AuthType, DomainAccount
from waypost.rpc.binds import AlterContext, Auth3, Bind, BindAck, BindNak, RejectReason
from waypost.rpc.calls import Fault, FaultStatus, Request, cut
from waypost.rpc.interface import Empty, encode_request
from waypost.rpc.pdu import PFC_SUPPORT_HEADER_SIGN, WHOLE, Body, Fragment, PacketType, SecurityTrailer, fragment_of
from waypost.rpc.protection import Protection
from waypost.rpc.server import RpcServer, Service
from waypost.rpc.settings import RpcSettings
from waypost.rpc.verification import CallFacts, append_trailer
from waypost.wire.ndr import NdrSyntax
from waypost.wire.sid import Sid

LEVELS = [AuthLevel.CONNECT, AuthLevel.PACKET, AuthLevel.INTEGRITY, AuthLevel.PRIVACY]
BIND = Bind(5840, 5840, 0, [offer(0)])


def with_token(record: Body, security: SecurityTrailer, token: bytes, call_id: int = 1) -> bytes:
    return fragment_of(record, call_id).authenticate(security, token).encode()


def denied(client: Peer, fragments: list[Fragment]) -> bool:
    """Whether this is the fault 5, and the end."""
    (answer,) = fragments
    return Fault.decode(answer).status == FaultStatus.ACCESS_DENIED and client.is_closed


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("signs_headers", [True, False])
def test_calls_are_made_at_every_level(level: AuthLevel, signs_headers: object) -> None:
    handler = ToyHandler()
    client = Peer(toy_server(handler, level))
    client.log_in("CORP\\alice", level, signs_headers=bool(signs_headers))
    octets = bytes(range(256)) * 50
    assert client.ask(ECHO, Octets(octets), 2) == Octets(octets)
    assert client.ask(ECHO, Octets(b"again"), 3) == Octets(b"again")
    caller = handler.calls[0].caller
    assert (caller.name, caller.level, caller.address) == ("CORP\\alice", level, "10.0.0.9")


def test_at_privacy_no_fragment_shows_what_it_carries_and_each_is_protected() -> None:
    client = Peer(toy_server(ToyHandler()))
    client.log_in()
    fragments = client.start(ECHO, Octets(b"secret" * 2000))
    assert len(fragments) == 3
    for fragment in fragments:
        assert b"secret" not in fragment.body
        assert fragment.trailer is not None
        assert len(fragment.auth_value) == 16
        assert fragment.header.frag_length <= 5840
    assert client.result(ECHO, fragments) == Octets(b"secret" * 2000)


@pytest.mark.parametrize("flag", [0, PFC_SUPPORT_HEADER_SIGN])
def test_header_signing_is_agreed_on_when_it_is_offered(flag: int) -> None:
    client = Peer(toy_server(ToyHandler()))
    bind = fragment_of(BIND, 1, WHOLE | flag).authenticate(trailer(AuthLevel.PRIVACY), b"hello alice")
    (answer,) = client.send(bind.encode())
    assert answer.header.pfc_flags & PFC_SUPPORT_HEADER_SIGN == flag


def test_the_answer_to_a_token_names_the_same_security_context() -> None:
    client = Peer(toy_server(ToyHandler()))
    (answer,) = client.send(with_token(BIND, trailer(AuthLevel.INTEGRITY), b"hello alice"))
    assert answer.trailer is not None
    named = answer.trailer.auth_type, answer.trailer.auth_level, answer.trailer.auth_context_id
    assert named == (AuthType.NTLM, AuthLevel.INTEGRITY, CONTEXT_ID)
    assert BindAck.decode(answer).results[0].result == 0


def test_the_last_leg_may_be_an_alter_context() -> None:
    handler = ToyHandler()
    client = Peer(toy_server(handler))
    client.send(with_token(BIND, trailer(AuthLevel.PRIVACY), b"hello alice"))
    alter = AlterContext(5840, 5840, 0, [offer(0)])
    (answer,) = client.send(with_token(alter, trailer(AuthLevel.PRIVACY), b"proof alice"))
    assert (answer.header.ptype, answer.trailer) == (PacketType.ALTER_CONTEXT_RESP, None)
    client.security = Protection(ToyContext(is_client=True), AuthLevel.PRIVACY, CONTEXT_ID, sign_header=False)
    assert client.ask(ECHO, Octets(b"x"), 3) == Octets(b"x")
    assert handler.calls[0].caller.name == "alice"


def test_a_package_that_is_complete_at_once_needs_no_more_legs() -> None:
    handler = ToyHandler()
    client = Peer(toy_server(handler))
    (answer,) = client.send(with_token(BIND, trailer(AuthLevel.PRIVACY, AuthType.SPNEGO), b"hello bob"))
    assert (answer.header.ptype, answer.trailer) == (PacketType.BIND_ACK, None)
    context = ToyContext(AuthType.SPNEGO, is_client=True)
    client.security = Protection(context, AuthLevel.PRIVACY, CONTEXT_ID, sign_header=False)
    assert client.ask(ECHO, Octets(b"x")) == Octets(b"x")
    assert handler.calls[0].caller.name == "bob"


def test_a_call_carries_the_account_that_the_security_package_names() -> None:
    account = DomainAccount(Sid(5, (21, 1, 2, 3, 1105)), frozenset({Sid(5, (21, 1, 2, 3, 513))}))
    handler = ToyHandler()
    service = Service(TOY, handler, only_always_open)
    client = Peer(RpcServer({PORT: [service]}, lambda _: ToyContext(account=account), Guids(), RpcSettings()))
    client.log_in("alice", AuthLevel.PRIVACY)
    client.ask(ECHO, Octets(b""), 2)
    assert handler.calls[0].caller.account is account


def test_a_caller_may_authenticate_after_the_bind() -> None:
    handler = ToyHandler()
    client = Peer(toy_server(handler))
    client.bind()
    assert client.ask(ALWAYS_OPEN, Empty(), 2) == Number(7)
    alter = AlterContext(5840, 5840, 0, [offer(0)])
    (answer,) = client.send(with_token(alter, trailer(AuthLevel.PRIVACY), b"hello alice", 3))
    assert answer.auth_value == b"challenge"
    assert client.send(with_token(Auth3(), trailer(AuthLevel.PRIVACY), b"proof alice", 3)) == []
    client.security = Protection(ToyContext(is_client=True), AuthLevel.PRIVACY, CONTEXT_ID, sign_header=False)
    assert client.ask(ALWAYS_OPEN, Empty(), 4) == Number(7)
    assert [call.caller.name for call in handler.calls] == [None, "alice"]


def test_several_security_contexts_share_a_connection() -> None:
    handler = ToyHandler()
    client = Peer(toy_server(handler))
    client.log_in("alice")
    alice = client.security
    other = trailer(AuthLevel.INTEGRITY, context_id=9)
    alter = AlterContext(5840, 5840, 0, [offer(0)])
    client.send(with_token(alter, other, b"hello bob"))
    client.send(with_token(Auth3(), other, b"proof bob"))
    bob = Protection(ToyContext(is_client=True), AuthLevel.INTEGRITY, 9, sign_header=True)
    for call_id, client.security in enumerate((alice, bob, alice), 5):
        assert client.ask(ECHO, Octets(b"x"), call_id) == Octets(b"x")
    client.security = None
    assert client.ask(ECHO, Octets(b"x"), 8) == Octets(b"x")
    callers = [(call.caller.name, call.caller.level) for call in handler.calls]
    private, signed = ("alice", AuthLevel.PRIVACY), ("bob", AuthLevel.INTEGRITY)
    assert callers == [private, signed, private, (None, AuthLevel.NONE)]


@pytest.mark.parametrize(("auth_type", "name"), [(AuthType.KERBEROS, "not offered"), (77, "unknown"), (0, "none")])
def test_a_bind_with_a_package_that_is_not_offered_is_refused(auth_type: int, name: str) -> None:
    client = Peer(toy_server(ToyHandler()))
    (answer,) = client.send(with_token(BIND, trailer(AuthLevel.PRIVACY, auth_type), b"hello alice"))
    assert BindNak.decode(answer).provider_reject_reason == RejectReason.AUTHENTICATION_TYPE_NOT_RECOGNIZED
    assert client.is_closed


@pytest.mark.parametrize("level", [1, 7, 255])
def test_a_bind_at_a_level_that_means_nothing_is_refused(level: int) -> None:
    client = Peer(toy_server(ToyHandler()))
    (answer,) = client.send(with_token(BIND, SecurityTrailer(AuthType.NTLM, level), b"hello alice"))
    assert answer.header.ptype == PacketType.BIND_NAK
    assert client.is_closed


def test_a_bind_whose_token_is_wrong_is_refused() -> None:
    client = Peer(toy_server(ToyHandler()))
    (answer,) = client.send(with_token(BIND, trailer(AuthLevel.PRIVACY), b"nonsense"))
    assert BindNak.decode(answer).provider_reject_reason == RejectReason.INVALID_CHECKSUM
    assert client.is_closed


def test_an_alter_context_whose_token_is_wrong_is_denied_and_ends_the_connection() -> None:
    for auth_type, token in ((AuthType.NTLM, b"nonsense"), (AuthType.KERBEROS, b"hello alice")):
        client = Peer(toy_server(ToyHandler()))
        client.bind()
        alter = AlterContext(5840, 5840, 0, [offer(0)])
        assert denied(client, client.send(with_token(alter, trailer(AuthLevel.PRIVACY, auth_type), token)))


def test_a_failed_auth3_has_no_answer_and_the_first_request_is_denied() -> None:
    handler = ToyHandler()
    client = Peer(toy_server(handler))
    client.log_in("mallory")
    assert not client.is_closed
    assert denied(client, client.start(ECHO, Octets(b"x")))
    assert handler.calls == []


@pytest.mark.parametrize("token", [b"hello alice", b"proof alice"])
def test_a_failed_authentication_is_neither_gone_on_with_nor_begun_again_by_an_auth3(token: bytes) -> None:
    client = Peer(toy_server(ToyHandler()))
    client.send(with_token(BIND, trailer(AuthLevel.PRIVACY), b"hello alice"))
    for later in (b"proof bob", token, b"proof alice"):
        assert client.send(with_token(Auth3(), trailer(AuthLevel.PRIVACY), later)) == []
    client.security = Protection(ToyContext(is_client=True), AuthLevel.PRIVACY, CONTEXT_ID, sign_header=False)
    assert denied(client, client.start(ECHO, Octets(b"x")))


@pytest.mark.parametrize("token", [b"hello bob", b"proof alice"])
def test_a_complete_authentication_does_not_go_on(token: bytes) -> None:
    client = Peer(toy_server(ToyHandler()))
    client.log_in("alice")
    alter = AlterContext(5840, 5840, 0, [offer(0)])
    assert denied(client, client.send(with_token(alter, trailer(AuthLevel.PRIVACY), token)))


def test_a_request_before_the_authentication_is_complete_is_denied() -> None:
    client = Peer(toy_server(ToyHandler()))
    client.send(with_token(BIND, trailer(AuthLevel.PRIVACY), b"hello alice"))
    client.security = Protection(ToyContext(is_client=True), AuthLevel.PRIVACY, CONTEXT_ID, sign_header=False)
    assert denied(client, client.start(ECHO, Octets(b"x")))


def test_an_auth3_without_a_token_is_a_protocol_error() -> None:
    client = Peer(toy_server(ToyHandler()))
    client.bind()
    (answer,) = client.send_pdu(Auth3())
    assert Fault.decode(answer).status == FaultStatus.NCA_PROTO_ERROR
    assert client.is_closed


@pytest.mark.parametrize("at", [3, 20, 26, -1])
def test_a_request_that_was_changed_on_the_way_is_denied_and_ends_the_connection(at: int) -> None:
    handler = ToyHandler()
    client = Peer(toy_server(handler))
    client.log_in()
    data = bytearray(client.requests(ECHO, bytes(8), 2)[0])
    data[at] ^= 0x04
    assert denied(client, client.send(bytes(data)))
    assert handler.calls == []


def test_a_request_that_is_sent_again_is_denied() -> None:
    client = Peer(toy_server(ToyHandler()))
    client.log_in()
    (data,) = client.requests(ECHO, bytes(8), 2)
    assert client.result(ECHO, client.send(data)) == Octets(b"")
    assert denied(client, client.send(data))


def test_a_request_at_another_level_than_its_security_context_is_denied() -> None:
    client = Peer(toy_server(ToyHandler()))
    client.log_in("alice", AuthLevel.PRIVACY)
    assert client.security is not None
    client.security.level = AuthLevel.INTEGRITY
    assert denied(client, client.start(ECHO, Octets(b"x")))


def test_fragments_of_one_request_are_of_one_security_context() -> None:
    client = Peer(toy_server(ToyHandler()))
    client.log_in()
    first, second, *_ = cut(Request(0, 0, ECHO, bytes(100)), 2, 16)
    assert client.security is not None
    assert client.send(client.security.protect(first)) == []
    assert denied(client, client.send(second.encode()))


def test_at_connect_a_request_without_a_sec_trailer_is_of_the_only_security_context() -> None:
    handler = ToyHandler()
    client = Peer(toy_server(handler, AuthLevel.CONNECT))
    client.log_in("alice", AuthLevel.CONNECT)
    client.security = None
    assert client.ask(ECHO, Octets(b"x"), 2) == Octets(b"x")
    second = trailer(AuthLevel.CONNECT, context_id=9)
    client.send(with_token(AlterContext(5840, 5840, 0, []), second, b"hello bob"))
    assert client.ask(ECHO, Octets(b"x"), 3) == FaultStatus.ACCESS_DENIED
    assert [call.caller.name for call in handler.calls] == ["alice"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_caller_below_the_minimum_level_is_denied_and_the_connection_goes_on(level: AuthLevel) -> None:
    handler = ToyHandler()
    client = Peer(toy_server(handler, level))
    client.bind()
    assert client.ask(ECHO, Octets(b"x"), 2) == 5
    lower = Peer(toy_server(handler, level), 2)
    if level > AuthLevel.CONNECT:
        lower.log_in("alice", AuthLevel(level - 1 if level != AuthLevel.PACKET else AuthLevel.CONNECT))
        assert lower.ask(ECHO, Octets(b"x"), 2) == 5
        assert lower.ask(ECHO, Octets(b"x"), 3) == 5
    assert handler.calls == []
    assert not client.is_closed
    assert not lower.is_closed


def test_an_interface_may_ask_for_another_level_per_method() -> None:
    handler = ToyHandler()
    services = {PORT: [Service(TOY, handler, only_always_open)]}
    server = RpcServer(services, toy_acceptors, Guids(), RpcSettings(AuthLevel.NONE))
    client = Peer(server)
    client.bind()
    assert client.ask(ALWAYS_OPEN, Empty(), 2) == Number(7)
    assert client.ask(ECHO, Octets(b"x"), 3) == FaultStatus.ACCESS_DENIED
    assert client.ask(ALWAYS_OPEN, Empty(), 4) == Number(7)


def test_an_anonymous_login_has_a_level_and_no_name() -> None:
    handler = ToyHandler()
    client = Peer(toy_server(handler, AuthLevel.PRIVACY))
    client.log_in("nobody")
    assert client.ask(ECHO, Octets(b"x")) == Octets(b"x")
    assert (handler.calls[0].caller.name, handler.calls[0].caller.level) == (None, AuthLevel.PRIVACY)


def test_a_context_handle_is_of_no_use_to_another_caller_of_the_same_association() -> None:
    client = Peer(toy_server(ToyHandler()))
    client.log_in("alice")
    alice = client.security
    hers = client.ask(OPEN, Empty(), 2)
    client.security = None
    of_nobody = client.ask(OPEN, Empty(), 3)
    assert client.ask(USE, hers, 4) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    assert client.ask(USE, of_nobody, 5) == Number(2)
    client.security = alice
    assert client.ask(USE, of_nobody, 6) == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH
    assert client.ask(USE, hers, 7) == Number(1)


def test_security_contexts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_security, "MAX_RPC_SECURITY_CONTEXTS", 1)
    client = Peer(toy_server(ToyHandler()))
    client.log_in("alice")
    alter = AlterContext(5840, 5840, 0, [offer(0)])
    assert denied(client, client.send(with_token(alter, trailer(AuthLevel.PRIVACY, context_id=9), b"hello bob")))


def verified(client: Peer, facts: CallFacts) -> list[Fragment]:
    stub = append_trailer(encode_request(TOY.methods[ECHO], Octets(b"abc"), NdrSyntax.NDR20), facts)
    return client.send(b"".join(client.requests(ECHO, stub, 2)))


def test_a_verification_trailer_is_checked_and_taken_off() -> None:
    for level in (None, AuthLevel.INTEGRITY, AuthLevel.PRIVACY):
        client = Peer(toy_server(ToyHandler()))
        if level is None:
            client.bind()
        else:
            client.log_in(level=level)
        facts = CallFacts(2, 0, ECHO, TOY.syntax, offer(0).transfers[0], signs_headers=level is not None)
        assert client.result(ECHO, verified(client, facts)) == Octets(b"abc")


def test_a_verification_trailer_that_is_not_true_is_denied() -> None:
    handler = ToyHandler()
    client = Peer(toy_server(handler))
    client.log_in()
    facts = CallFacts(2, 0, ECHO, TOY.syntax, TOY.syntax, signs_headers=True)
    assert client.result(ECHO, verified(client, facts)) == FaultStatus.ACCESS_DENIED
    assert handler.calls == []


def test_a_client_whose_offer_to_sign_headers_was_taken_away_is_denied() -> None:
    client = Peer(toy_server(ToyHandler()))
    client.log_in(signs_headers=False)
    facts = CallFacts(2, 0, ECHO, TOY.syntax, offer(0).transfers[0], signs_headers=True)
    assert client.result(ECHO, verified(client, facts)) == FaultStatus.ACCESS_DENIED


def test_the_server_takes_nothing_more_from_a_connection_it_has_ended() -> None:
    handler = ToyHandler()
    client = Peer(toy_server(handler))
    client.log_in("mallory")
    requests = client.requests(ECHO, bytes(8), 2) + client.requests(ECHO, bytes(8), 3)
    client.server.received(client.number, b"".join(requests), NOW)
    assert [data is None for _, data in client.server.take_output()] == [False, True]
