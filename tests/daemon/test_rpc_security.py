"""pyspnego behind the port of waypost.rpc.authentication: both sides against each other, and impacket's NTLM."""

import importlib.util
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spnego._ntlm_raw.crypto import hmac_md5, ntowfv1, ntowfv2
from spnego._ntlm_raw.messages import Authenticate, AvId, Challenge, NegotiateFlags

from tests.daemon.logons import logons_of
from tests.late import late
from waypost.daemon.rpc_acceptors import acceptors
from waypost.daemon.rpc_users import Logons, read_users
from waypost.drive.rpc_security import Credentials, initiator
from waypost.errors import InvalidParameter
from waypost.rpc.authentication import AuthLevel, AuthType, Parts, SecurityContext, SecurityContextFailed
from waypost.rpc.calls import Request, Response, cut
from waypost.rpc.pdu import Fragment
from waypost.rpc.protection import Protection

ALICE = Credentials("PLANT\\alice", "s3cret")
PARTS = Parts(b"header of 24 bytes......", b"the body with padding..." * 2, b"trailer.", sign_header=True)
PACKAGES = [AuthType.NTLM, AuthType.SPNEGO]
PROTECTING = [AuthLevel.PACKET, AuthLevel.INTEGRITY, AuthLevel.PRIVACY]

ntlm: Any = late("impacket.ntlm")
arc4: Any = late("Cryptodome.Cipher.ARC4")


@pytest.fixture(scope="module")
def users() -> Logons:
    return logons_of(Plant__Alice="s3cret", bob="pä:$$")


def acceptor(users: Logons, auth_type: AuthType = AuthType.NTLM) -> SecurityContext:
    context = acceptors(users)(auth_type)
    assert context is not None
    return context


def agree(client: SecurityContext, server: SecurityContext) -> int:
    """Passes the tokens until both are complete; how many there were."""
    token, legs = client.step(None), 0
    sides = [server, client]
    while token is not None:
        token = sides[legs % 2].step(token)
        legs += 1
    assert client.is_complete
    assert server.is_complete
    return legs


def agreed(users: Logons, auth_type: AuthType, level: AuthLevel) -> tuple[SecurityContext, SecurityContext]:
    client, server = initiator(auth_type, level, "host", ALICE), acceptor(users, auth_type)
    agree(client, server)
    return client, server


@pytest.mark.parametrize("level", list(AuthLevel)[1:])
def test_ntlm_takes_three_tokens_and_spnego_an_even_number(users: Logons, level: AuthLevel) -> None:
    assert agree(initiator(AuthType.NTLM, level, "host", ALICE), acceptor(users)) == 3
    assert agree(initiator(AuthType.SPNEGO, level, "host", ALICE), acceptor(users, AuthType.SPNEGO)) == 4


@pytest.mark.parametrize("auth_type", PACKAGES)
def test_the_name_of_a_caller_is_the_one_in_the_file(users: Logons, auth_type: AuthType) -> None:
    for user, password, name in (
        ("PLANT\\ALICE", "s3cret", "Plant\\Alice"),
        ("bob", "pä:$$", "bob"),
        ("ANYWHERE\\Bob", "pä:$$", "bob"),
    ):
        server = acceptor(users, auth_type)
        assert server.principal is None
        agree(initiator(auth_type, AuthLevel.CONNECT, "host", Credentials(user, password)), server)
        assert server.principal == name


@pytest.mark.parametrize("auth_type", PACKAGES)
@pytest.mark.parametrize(
    "credentials",
    [
        Credentials("PLANT\\alice", "S3cret"),
        Credentials("PLANT\\carol", "s3cret"),
        Credentials("OTHER\\alice", "s3cret"),
        Credentials("alice", "s3cret"),
    ],
)
def test_others_are_refused(users: Logons, auth_type: AuthType, credentials: Credentials) -> None:
    server = acceptor(users, auth_type)
    with pytest.raises(SecurityContextFailed):
        agree(initiator(auth_type, AuthLevel.PRIVACY, "host", credentials), server)
    assert not server.is_complete
    assert server.principal is None


@pytest.mark.parametrize("auth_type", PACKAGES)
@pytest.mark.parametrize("level", PROTECTING)
@pytest.mark.parametrize("sign_header", [True, False])
def test_calls_are_protected_both_ways(users: Logons, auth_type: AuthType, level: AuthLevel, sign_header: bool) -> None:  # noqa: FBT001
    client, server = (Protection(side, level, 1, sign_header) for side in agreed(users, auth_type, level))
    for size in (0, 5, 16, 4000):
        for sender, receiver, call in (
            (client, server, Request(size, 0, 7, b"x" * size)),
            (server, client, Response(size, 0, b"y" * size)),
        ):
            (fragment,) = cut(call, 5, 0x2000)
            data = sender.protect(fragment)
            assert size < 16 or (call.stub_data in data) == (level is not AuthLevel.PRIVACY)
            assert type(call).decode(receiver.unprotect(Fragment.decode(data))) == call


@pytest.mark.parametrize("auth_type", PACKAGES)
@pytest.mark.parametrize("level", PROTECTING)
def test_what_was_changed_on_the_way_is_refused(users: Logons, auth_type: AuthType, level: AuthLevel) -> None:
    for field in ("header", "body", "trailer"):
        client, server = agreed(users, auth_type, level)
        body, token = client.protect(PARTS, level)
        sent = replace(PARTS, body=body)
        changed = bytes([getattr(sent, field)[0] ^ 1]) + getattr(sent, field)[1:]
        with pytest.raises(SecurityContextFailed):
            server.unprotect(replace(sent, **{field: changed}), token, level)


@pytest.mark.parametrize("level", PROTECTING)
def test_zeros_behind_a_token_belong_to_it_and_nothing_else_does(users: Logons, level: AuthLevel) -> None:
    client, server = agreed(users, AuthType.NTLM, level)
    for _ in range(2):
        body, token = client.protect(PARTS, level)
        assert server.unprotect(replace(PARTS, body=body), token + bytes(12), level) == PARTS.body
    body, token = client.protect(PARTS, level)
    with pytest.raises(SecurityContextFailed):
        server.unprotect(replace(PARTS, body=body), token + b"\0\x01", level)


def test_a_fragment_cannot_be_played_again(users: Logons) -> None:
    client, server = agreed(users, AuthType.NTLM, AuthLevel.INTEGRITY)
    body, token = client.protect(PARTS, AuthLevel.INTEGRITY)
    assert server.unprotect(replace(PARTS, body=body), token, AuthLevel.INTEGRITY) == PARTS.body
    with pytest.raises(SecurityContextFailed):
        server.unprotect(replace(PARTS, body=body), token, AuthLevel.INTEGRITY)


def test_nothing_is_protected_before_the_authentication_is_over(users: Logons) -> None:
    with pytest.raises(SecurityContextFailed):
        acceptor(users).protect(PARTS, AuthLevel.INTEGRITY)
    with pytest.raises(SecurityContextFailed):
        acceptor(users).unprotect(PARTS, bytes(16), AuthLevel.PRIVACY)


def test_no_token_is_taken_when_the_authentication_is_over(users: Logons) -> None:
    _, server = agreed(users, AuthType.NTLM, AuthLevel.PRIVACY)
    with pytest.raises(SecurityContextFailed, match="is complete"):
        server.step(initiator(AuthType.NTLM, AuthLevel.PRIVACY, "host", ALICE).step(None))


def test_a_context_made_for_integrity_does_not_seal(users: Logons) -> None:
    for side in agreed(users, AuthType.NTLM, AuthLevel.INTEGRITY):
        with pytest.raises(SecurityContextFailed, match="PRIVACY"):
            side.protect(PARTS, AuthLevel.PRIVACY)


def test_a_client_cannot_declare_itself_authenticated(users: Logons) -> None:
    server = acceptor(users, AuthType.SPNEGO)
    server.step(initiator(AuthType.SPNEGO, AuthLevel.CONNECT, "host", ALICE).step(None))
    accept_completed = bytes.fromhex("a107 3005 a003 0a0100")
    with pytest.raises(SecurityContextFailed):
        server.step(accept_completed)
    assert not server.is_complete


def test_a_negotiation_that_was_changed_on_the_way_is_refused(users: Logons) -> None:
    client, server = initiator(AuthType.NTLM, AuthLevel.PRIVACY, "host", ALICE), acceptor(users)
    negotiate = bytearray(client.step(None) or b"")
    negotiate[15] ^= 0x80  # MS-NLMP 2.2.2.5: no keys of 56 bits
    with pytest.raises(SecurityContextFailed, match="MIC"):
        server.step(client.step(server.step(bytes(negotiate))))


# MS-NLMP 2.2.2.1: the EncryptedRandomSessionKeyFields of an AUTHENTICATE_MESSAGE, and an AV_PAIR each.
SESSION_KEY_AT = 52
TIMESTAMP = struct.pack("<HHQ", AvId.timestamp, 8, 0x01DA_0000_0000_0000)
NO_MIC, MIC, EOL = struct.pack("<HHI", AvId.flags, 4, 0), struct.pack("<HHI", AvId.flags, 4, 2), bytes(4)


def answered(
    server: SecurityContext, pairs: bytes = TIMESTAMP, key_size: int = 16, without: int = 0, user: str = "alice"
) -> None:
    """An authentication with the right password and without a MIC: what it has besides, any client may send."""
    negotiate = initiator(AuthType.NTLM, AuthLevel.PRIVACY, "host", ALICE).step(None)
    challenge = Challenge.unpack(server.step(negotiate) or b"")
    key = ntowfv2(user, ntowfv1("s3cret"), "PLANT")
    blob = bytes.fromhex("0101") + bytes(26) + pairs + EOL
    proof = hmac_md5(key, challenge.server_challenge + blob)
    token = Authenticate(
        challenge.flags, bytes(24), proof + blob, "PLANT", user, encrypted_session_key=bytes(key_size) or None
    )
    token.flags &= ~without
    server.step(token.pack())


def test_who_needs_no_mic_is_accepted_without_one(users: Logons) -> None:
    for pairs in (TIMESTAMP, TIMESTAMP + NO_MIC):
        server = acceptor(users)
        answered(server, pairs)
        assert server.principal == "Plant\\Alice"


@pytest.mark.parametrize("key_size", [0, 1, 15, 17, 32])
def test_a_session_key_has_16_bytes(users: Logons, key_size: int) -> None:
    server = acceptor(users)
    with pytest.raises(SecurityContextFailed, match=f"session key must have 16 bytes, but has {key_size}"):
        answered(server, key_size=key_size)
    assert not server.is_complete


def test_a_response_without_the_timestamp_of_the_challenge_is_refused(users: Logons) -> None:
    """MS-NLMP 3.1.5.1.2: without it no client sends a MIC, so somebody between would take it out of the challenge."""
    for pairs in (b"", NO_MIC, struct.pack("<HH", AvId.nb_domain_name, 2) + b"A\0"):
        server = acceptor(users)
        with pytest.raises(SecurityContextFailed, match="timestamp"):
            answered(server, pairs)
        assert not server.is_complete


@pytest.mark.parametrize(
    "pairs",
    [TIMESTAMP + MIC, NO_MIC + TIMESTAMP + MIC, MIC + NO_MIC + TIMESTAMP, TIMESTAMP + EOL + MIC],
    ids=["announced", "last", "first", "behind the end"],
)
def test_a_mic_that_the_client_announces_is_demanded(users: Logons, pairs: bytes) -> None:
    server = acceptor(users)
    with pytest.raises(SecurityContextFailed, match="MIC"):
        answered(server, pairs)
    assert not server.is_complete


@pytest.mark.parametrize(
    "weaker",
    [
        NegotiateFlags.extended_session_security,
        NegotiateFlags.key_128,
        NegotiateFlags.extended_session_security | NegotiateFlags.key_128,
    ],
)
def test_a_client_cannot_choose_weak_keys_or_signatures(users: Logons, weaker: int) -> None:
    server = acceptor(users)
    with pytest.raises(SecurityContextFailed, match="128 bits"):
        answered(server, without=weaker)
    assert not server.is_complete


def test_who_passes_on_the_messages_of_another_gets_no_session(users: Logons) -> None:
    """The victim speaks to somebody between, who takes the timestamp from the challenge, or the key from the answer."""
    for takes_timestamp, takes_key in ((True, False), (False, True), (True, True)):
        server, victim = acceptor(users), initiator(AuthType.NTLM, AuthLevel.PRIVACY, "other", ALICE)
        challenge = server.step(victim.step(None)) or b""
        if takes_timestamp:
            sent = Challenge.unpack(challenge)
            pairs = sent.target_info
            assert pairs is not None
            del pairs[AvId.timestamp]
            challenge = Challenge(
                sent.flags, sent.server_challenge, target_name=sent.target_name, target_info=pairs
            ).pack()
        token = bytearray(victim.step(challenge) or b"")
        if takes_key:
            struct.pack_into("<HH", token, SESSION_KEY_AT, 0, 0)
        with pytest.raises(SecurityContextFailed):
            server.step(bytes(token))
        assert not server.is_complete
        assert server.principal is None


def test_a_name_that_is_not_known_costs_as_much_as_one_that_is(users: Logons, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the time does not reveal the users."""
    work: list[str] = []

    def counted(name: str, function: Callable[..., bytes]) -> Callable[..., bytes]:
        def count(*values: Any) -> bytes:
            work.append(name)
            return function(*values)

        return count

    for name, function in (("hmac_md5", hmac_md5), ("ntowfv2", ntowfv2)):
        monkeypatch.setattr(f"waypost.daemon.rpc_acceptor.{name}", counted(name, function))
    done = []
    for user, password in (("alice", "wrong"), ("carol", "s3cret"), ("carol", "")):
        client = initiator(AuthType.NTLM, AuthLevel.PRIVACY, "host", Credentials(f"PLANT\\{user}", password))
        with pytest.raises(SecurityContextFailed, match="unknown user or wrong password"):
            agree(client, acceptor(users))
        done.append(work[:])
        work.clear()
    assert done == [["ntowfv2", "hmac_md5"]] * 3


class ImpacketClient:
    """impacket's NTLM, as its RPC client uses it: the whole fragment but its token is signed."""

    def __init__(self, server: SecurityContext, *, signs: bool = True, version_2: bool = True) -> None:
        negotiate = ntlm.getNTLMSSPType1("", "", signs, version_2)
        challenge = server.step(negotiate.getData())
        answer, key = ntlm.getNTLMSSPType3(negotiate, challenge, "alice", "s3cret", "PLANT", use_ntlmv2=version_2)
        self.flags: int = answer["flags"]
        self._client_key = ntlm.SIGNKEY(self.flags, key)
        self._server_key = ntlm.SIGNKEY(self.flags, key, b"Server")
        self._client = arc4.new(ntlm.SEALKEY(self.flags, key)).encrypt
        self._server = arc4.new(ntlm.SEALKEY(self.flags, key, b"Server")).encrypt
        self._number = 0
        server.step(answer.getData())

    def protect(self, parts: Parts, level: AuthLevel) -> tuple[bytes, bytes]:
        whole = parts.header + parts.body + parts.trailer
        if level is AuthLevel.PRIVACY:
            body, token = ntlm.SEAL(self.flags, self._client_key, b"", whole, parts.body, self._number, self._client)
            return body, token.getData()
        return parts.body, ntlm.SIGN(self.flags, self._client_key, whole, self._number, self._client).getData()

    def unprotect(self, parts: Parts, level: AuthLevel) -> tuple[bytes, bytes]:
        """The body in clear, and the token that it ought to have."""
        body = self._server(parts.body) if level is AuthLevel.PRIVACY else parts.body
        whole = parts.header + body + parts.trailer
        token = ntlm.SIGN(self.flags, self._server_key, whole, self._number, self._server).getData()
        self._number += 1
        return body, token


@pytest.mark.parametrize("level", [AuthLevel.INTEGRITY, AuthLevel.PRIVACY])
@pytest.mark.parametrize("sign_header", [True, False])
def test_the_ntlm_of_impacket_agrees_with_ours(users: Logons, level: AuthLevel, sign_header: bool) -> None:  # noqa: FBT001
    server = acceptor(users)
    client = ImpacketClient(server)
    assert server.principal == "Plant\\Alice"
    parts = replace(PARTS, sign_header=sign_header)
    for _ in range(3):
        body, token = client.protect(parts, level)
        assert server.unprotect(replace(parts, body=body), token, level) == parts.body
        body, token = server.protect(parts, level)
        assert client.unprotect(replace(parts, body=body), level) == (parts.body, token)


def test_the_responses_of_ntlm_version_1_are_refused(users: Logons) -> None:
    with pytest.raises(SecurityContextFailed):
        ImpacketClient(acceptor(users), version_2=False)


def test_nobody_is_refused(users: Logons) -> None:
    server = acceptor(users)
    negotiate = ntlm.getNTLMSSPType1("", "", True)
    answer, _ = ntlm.getNTLMSSPType3(negotiate, server.step(negotiate.getData()), "", "", "")
    with pytest.raises(SecurityContextFailed, match="the client did not send an NTLM version 2 response"):
        server.step(answer.getData())


def test_a_client_that_did_not_agree_to_sign_has_no_protected_calls(users: Logons) -> None:
    server = acceptor(users)
    ImpacketClient(server, signs=False)
    assert server.is_complete
    with pytest.raises(SecurityContextFailed, match="INTEGRITY"):
        server.unprotect(PARTS, b"\x01" + bytes(15), AuthLevel.INTEGRITY)


def test_a_user_who_is_added_can_log_on_and_one_who_is_removed_cannot() -> None:
    logons = logons_of()
    offered = acceptors(logons)
    assert offered(AuthType.NTLM) is None
    logons.users = logons_of(PLANT__alice="s3cret", bob="x").users
    server = offered(AuthType.NTLM)
    assert server is not None
    agree(initiator(AuthType.NTLM, AuthLevel.PRIVACY, "host", ALICE), server)
    assert logons.users is not None
    logons.users.remove(logons.users.get("PLANT\\alice"))
    server = offered(AuthType.NTLM)
    assert server is not None
    with pytest.raises(SecurityContextFailed, match="unknown user or wrong password"):
        agree(initiator(AuthType.NTLM, AuthLevel.PRIVACY, "host", ALICE), server)


def test_without_users_ntlm_is_not_offered(users: Logons) -> None:
    assert acceptors(Logons())(AuthType.NTLM) is None
    assert acceptors(logons_of())(AuthType.NTLM) is None
    assert acceptors(users)(AuthType.NONE) is None


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"^cannot read the users file .*nowhere: No such file or directory$"):
        read_users(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "line",
    ["alice", "PLANT:hush", "PLANT::hush", "PLANT:alice:", "::", " "],
)
def test_a_line_that_is_not_right_is_one_sentence_without_the_password(tmp_path: Path, line: str) -> None:
    path = tmp_path / "users"
    path.write_text(f"PLANT:bob:pw\n{line}\n")
    with pytest.raises(InvalidParameter, match=r"^line 2 of the users file .* is not DOMAIN:user:password$") as caught:
        read_users(path)
    assert "hu" not in str(caught.value)


def test_a_user_stands_in_the_file_once(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("PLANT:bob:pw\nplant:BOB:other\n")
    with pytest.raises(InvalidParameter, match=r"^line 2 of the users file .* repeats the user plant\\BOB$"):
        read_users(path)


def test_a_file_that_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_bytes(b"PLANT:bob:\xff\n")
    with pytest.raises(InvalidParameter, match=r"is not UTF-8 text$"):
        read_users(path)


@pytest.mark.skipif(importlib.util.find_spec("gssapi") is not None, reason="the extra kerberos is there")
def test_kerberos_without_its_extra_is_one_sentence_and_not_offered(users: Logons) -> None:
    with pytest.raises(InvalidParameter, match=r"pip install 'waypost\[kerberos\]'"):
        initiator(AuthType.KERBEROS, AuthLevel.PRIVACY, "host", ALICE)
    assert acceptors(users)(AuthType.KERBEROS) is None
    assert acceptors(Logons())(AuthType.SPNEGO) is None


def test_credentials_do_not_show_the_password() -> None:
    assert "s3cret" not in repr(ALICE)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(auth_type=st.sampled_from(PACKAGES), tokens=st.lists(st.binary(max_size=80), max_size=3), data=st.data())
def test_any_tokens_are_answered_or_refused(
    users: Logons, auth_type: AuthType, tokens: list[bytes], data: st.DataObject
) -> None:
    server, client = acceptor(users, auth_type), initiator(auth_type, AuthLevel.CONNECT, "host", ALICE)
    try:
        answer = server.step(_changed(client.step(None) or b"", data))
        server.step(_changed(client.step(answer) or b"", data))
        for token in tokens:
            server.step(token)
    except SecurityContextFailed:
        pass
    assert server.principal in (None, "Plant\\Alice")


def _changed(token: bytes, data: st.DataObject) -> bytes:
    """The token, or with one byte changed, or cut short."""
    at = data.draw(st.integers(0, len(token)))
    kind = data.draw(st.sampled_from(["same", "byte", "cut"]))
    if kind == "cut":
        return token[:at]
    return token[:at] + bytes([data.draw(st.integers(0, 255))]) + token[at + 1 :] if kind == "byte" else token
