"""MS-MQMQ 2.2.20.6: ST, AU, AS and DE."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.strategies import security_headers
from waypost.errors import AuthenticationFailed, DecodeError, EncodeError
from waypost.security.header_rules import (
    clear_authentication,
    name_sender,
    record_authentication,
    sender_of,
    signing_provider,
)
from waypost.security.signatures import SignatureVersion
from waypost.wire.originated import check_originated
from waypost.wire.security_header import DE, ProviderInfo, SecurityHeader
from waypost.wire.sid import EVERYONE, Sid
from waypost.wire.user_message import UserMessage

GUID = bytes(range(16))
ALICE = Sid(5, (21, 1, 2, 3, 1001))
SIGNATURE = b"signature..."


def arrived(header: SecurityHeader) -> SecurityHeader:
    return SecurityHeader.decode(header.encode(), 0)[0]


@pytest.mark.spec("MQMQ-2.2.20.6-03")
@pytest.mark.parametrize(
    ("sender", "sender_type", "security_id"), [(None, 0, b""), (ALICE, 1, ALICE.encode()), (GUID, 2, GUID)]
)
def test_st_says_whose_identifier_the_security_id_is(
    sender: Sid | bytes | None, sender_type: int, security_id: bytes
) -> None:
    header = SecurityHeader(flags=0xFF, signature=SIGNATURE)
    name_sender(header, sender)
    assert header.flags == 0xF0 | sender_type
    assert struct.unpack_from("<H", header.encode(), 2) == (len(security_id),)
    assert arrived(header).security_id == security_id
    assert sender_of(arrived(header)) == sender


@pytest.mark.spec("MQMQ-2.2.20.6-03")
def test_a_sender_that_does_not_fit_st_is_refused() -> None:
    with pytest.raises(DecodeError, match="SenderIdSize"):
        arrived(SecurityHeader(0, b"some", signature=SIGNATURE))
    with pytest.raises(DecodeError, match="SenderIdSize"):
        arrived(SecurityHeader(2, GUID + b"some"))
    for sender_type in range(3, 16):
        with pytest.raises(DecodeError, match="ST must be"):
            arrived(SecurityHeader(sender_type, GUID))
    for security_id in (b"", GUID, EVERYONE.encode()[:-1], EVERYONE.encode() + b"\0"):
        with pytest.raises(DecodeError):
            sender_of(arrived(SecurityHeader(1, security_id, signature=SIGNATURE)))


@given(security_headers())
def test_any_header_names_a_sender_or_is_refused(header: SecurityHeader) -> None:
    try:
        sender = sender_of(header)
    except DecodeError:
        assert header.sender_type == 1
        return
    renamed = SecurityHeader(header.flags)
    name_sender(renamed, sender)
    assert (renamed.flags, renamed.security_id) == (header.flags, header.security_id)


@pytest.mark.spec("MQMQ-2.2.20.6-04")
def test_a_message_is_not_sent_with_a_result_of_authentication() -> None:
    for bits in (0x0010, 0x0100, 0x0300, 0x0500, 0x0800):
        message = UserMessage(security=SecurityHeader(1 | DE | bits, ALICE.encode(), signature=SIGNATURE))
        assert message.security is not None
        with pytest.raises(EncodeError, match="the bit AU, the bit AS"):
            check_originated(message)
        clear_authentication(message.security)
        check_originated(message)
        assert message.security.flags == 1 | DE


@pytest.mark.spec("MQMQ-2.2.20.6-04")
@pytest.mark.parametrize(
    ("version", "result"),
    [(SignatureVersion.SIG10, 0x1), (SignatureVersion.SIG20, 0x3), (SignatureVersion.SIG30, 0x5)],
)
@given(flags=st.integers(0, 0xFFFF))
def test_only_the_receiver_fills_in_the_result(version: SignatureVersion, result: int, flags: int) -> None:
    header = SecurityHeader(flags)
    clear_authentication(header)
    assert header.flags == flags & 0xF0EF
    record_authentication(header, version)
    assert header.flags == flags & 0xF0EF | result << 8
    claimed = SecurityHeader(flags)
    record_authentication(claimed, version)
    assert claimed.flags == header.flags


@pytest.mark.spec("MQMQ-2.2.20.6-06")
def test_a_signature_is_of_the_default_provider_or_of_the_one_that_is_named() -> None:
    other = ProviderInfo(1, "Some Provider")
    assert signing_provider(arrived(SecurityHeader(DE, signature=SIGNATURE))) is None
    assert signing_provider(arrived(SecurityHeader(0, signature=SIGNATURE, provider_info=other.encode()))) == other
    with pytest.raises(AuthenticationFailed, match="ProviderInfo does not name"):
        signing_provider(arrived(SecurityHeader(0, signature=SIGNATURE)))


def test_without_a_signature_no_provider_is_needed() -> None:
    # readings MQMQ 3.5: Windows leaves DE clear in a message that is not signed.
    assert signing_provider(arrived(SecurityHeader(1, ALICE.encode()))) is None
