"""MS-RPCE 2.2.2.11 and 3.3.1.5.2.2: what is added to requests and responses, and what is checked."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import AuthenticationFailed, DecodeError
from waypost.rpc.authentication import AuthLevel, AuthType, Parts, SecurityContext, SecurityContextFailed
from waypost.rpc.calls import Request, Response, cut
from waypost.rpc.pdu import PFC_OBJECT_UUID, Fragment, Header, PacketType, SecurityTrailer
from waypost.rpc.protection import Protection, stub_room

PROTECTING = [AuthLevel.PACKET, AuthLevel.INTEGRITY, AuthLevel.PRIVACY]


class Twin:
    """A package that counts, signs by a digest, and seals by turning the bits."""

    auth_type = AuthType.NTLM
    is_complete = True
    principal = "PLANT\\alice"
    account = None

    def __init__(self) -> None:
        self._sent = self._received = 0

    def step(self, token: bytes | None) -> bytes | None:
        raise NotImplementedError

    def signature_size(self, level: AuthLevel) -> int:
        return 16

    def protect(self, parts: Parts, level: AuthLevel) -> tuple[bytes, bytes]:
        self._sent += 1
        return _sealed(parts.body, level), _signature(parts, parts.body, self._sent)

    def unprotect(self, parts: Parts, auth_value: bytes, level: AuthLevel) -> bytes:
        self._received += 1
        body = _sealed(parts.body, level)
        if _signature(parts, body, self._received) != auth_value:
            raise SecurityContextFailed("the signature is wrong")
        return body


def _sealed(body: bytes, level: AuthLevel) -> bytes:
    return bytes(byte ^ 0xFF for byte in body) if level is AuthLevel.PRIVACY else body


def _signature(parts: Parts, body: bytes, number: int) -> bytes:
    signed = parts.header + body + parts.trailer if parts.sign_header else body
    return hashlib.blake2s(signed + bytes([number]), digest_size=16).digest()


def protection(level: AuthLevel, context: SecurityContext | None = None, *, sign_header: bool = True) -> Protection:
    return Protection(context or Twin(), level, 1, sign_header)


def request(stub: bytes, uuid: bytes = b"") -> Fragment:
    (fragment,) = cut(Request(0, 0, 7, stub, uuid), 5, 0x1000)
    return fragment


def test_nothing_is_added_below_the_level_packet() -> None:
    assert protection(AuthLevel.CONNECT).protect(request(b"abc")) == request(b"abc").encode()


@pytest.mark.parametrize("level", PROTECTING)
def test_the_trailer_is_aligned_to_16_bytes_behind_the_stub_data(level: AuthLevel) -> None:
    for size in range(33):
        data = protection(level).protect(request(bytes(size)))
        fragment = Fragment.decode(data)
        padding = -size % 16
        assert fragment.trailer == SecurityTrailer(AuthType.NTLM, level, padding, 0, 1)
        assert len(fragment.body) == 8 + size + padding
        assert len(fragment.auth_value) == 16
        assert fragment.encode() == data


def test_only_privacy_seals_and_the_head_of_a_request_stays_readable() -> None:
    for level in PROTECTING:
        fragment = Fragment.decode(protection(level).protect(request(b"secret" * 8, bytes(range(16)))))
        assert fragment.header.pfc_flags & PFC_OBJECT_UUID
        assert fragment.body[4:8] == bytes.fromhex("0000 0700")
        assert fragment.body[8:24] == bytes(range(16))
        assert (b"secret" in fragment.body) == (level is not AuthLevel.PRIVACY)


@given(st.binary(max_size=80), st.sampled_from(list(AuthLevel)[1:]), st.booleans(), st.sampled_from([b"", bytes(16)]))
def test_a_call_comes_back_from_its_protection(stub: bytes, level: AuthLevel, signs: bool, uuid: bytes) -> None:  # noqa: FBT001
    sender, receiver = (protection(level, sign_header=signs) for _ in range(2))
    for call in (Request(len(stub), 1, 7, stub, uuid), Response(len(stub), 1, stub)):
        (fragment,) = cut(call, 5, 0x1000)
        clear = receiver.unprotect(Fragment.decode(sender.protect(fragment)))
        assert type(call).decode(clear) == call


@pytest.mark.parametrize("level", PROTECTING)
def test_a_changed_byte_is_found(level: AuthLevel) -> None:
    data = protection(level).protect(request(b"0123456789abcdef"))
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x01
        with pytest.raises((AuthenticationFailed, DecodeError)):
            protection(level).unprotect(Fragment.decode(bytes(changed)))


@pytest.mark.parametrize("level", PROTECTING)
def test_without_header_signing_only_the_body_is_signed(level: AuthLevel) -> None:
    data = bytearray(protection(level, sign_header=False).protect(request(b"0123456789abcdef")))
    data[22] = 8
    clear = protection(level, sign_header=False).unprotect(Fragment.decode(bytes(data)))
    assert Request.decode(clear).opnum == 8
    data[24] ^= 1
    with pytest.raises(SecurityContextFailed):
        protection(level, sign_header=False).unprotect(Fragment.decode(bytes(data)))


def test_a_fragment_that_is_not_protected_passes_at_connect_only() -> None:
    assert protection(AuthLevel.CONNECT).unprotect(request(b"abc")) == request(b"abc")
    for level in PROTECTING:
        with pytest.raises(AuthenticationFailed, match=level.name):
            protection(level).unprotect(request(b"abc"))


def test_the_token_of_a_fragment_at_connect_means_nothing() -> None:
    trailer = SecurityTrailer(AuthType.NTLM, AuthLevel.CONNECT, 1, 0, 1)
    fragment = Fragment(request(b"").header, request(b"abc").body + b"\0", trailer, b"\x01" + bytes(15))
    clear = protection(AuthLevel.CONNECT).unprotect(Fragment.decode(fragment.encode()))
    assert Request.decode(clear).stub_data == b"abc"


@pytest.mark.parametrize(
    "trailer",
    [
        SecurityTrailer(AuthType.KERBEROS, AuthLevel.INTEGRITY, 0, 0, 1),
        SecurityTrailer(AuthType.NTLM, AuthLevel.CONNECT, 0, 0, 1),
        SecurityTrailer(AuthType.NTLM, AuthLevel.PRIVACY, 0, 0, 1),
        SecurityTrailer(AuthType.NTLM, 0, 0, 0, 1),
        SecurityTrailer(AuthType.NTLM, 7, 0, 0, 1),
        SecurityTrailer(AuthType.NTLM, AuthLevel.INTEGRITY, 0, 0, 2),
    ],
)
def test_a_fragment_of_another_package_level_or_context_is_refused(trailer: SecurityTrailer) -> None:
    fragment = Fragment(request(b"").header, request(b"").body, trailer, bytes(16))
    with pytest.raises(AuthenticationFailed, match="a fragment has auth_type"):
        protection(AuthLevel.INTEGRITY).unprotect(fragment)


def test_the_level_call_is_the_level_packet() -> None:
    assert AuthLevel.of(3) is AuthLevel.PACKET
    assert AuthLevel.of(0) is AuthLevel.CONNECT
    assert AuthLevel.of(7) is None


def test_padding_longer_than_the_stub_data_is_refused() -> None:
    trailer = SecurityTrailer(AuthType.NTLM, AuthLevel.INTEGRITY, 4, 0, 1)
    fragment = Fragment(request(b"").header, request(b"abc").body, trailer, bytes(16))
    with pytest.raises(DecodeError, match="auth_pad_length"):
        protection(AuthLevel.INTEGRITY).unprotect(fragment)


@given(st.binary(min_size=24, max_size=100), st.integers(0, 255), st.sampled_from(list(AuthLevel)[1:]))
def test_any_fragment_is_in_clear_or_an_error(data: bytes, padding: int, level: AuthLevel) -> None:
    trailer = SecurityTrailer(AuthType.NTLM, level, padding, 0, 1)
    try:
        protection(level).unprotect(Fragment(Header(), data, trailer, bytes(16)))
    except (AuthenticationFailed, DecodeError):
        return
    assert padding <= len(data) - 8


@pytest.mark.parametrize("level", list(AuthLevel)[1:])
def test_as_much_stub_data_as_there_is_room_for_fills_a_fragment(level: AuthLevel) -> None:
    for max_frag in range(1432, 1464):
        header = Header(ptype=PacketType.RESPONSE)
        room = protection(level).room(max_frag, header)
        (fragment,) = cut(Response(0, 0, bytes(room)), 5, room)
        length = len(protection(level).protect(fragment))
        assert max_frag - 16 < length <= max_frag
        assert stub_room(max_frag, header) == max_frag - 24
