"""MS-MQMQ 2.2.20.6."""

import struct

import pytest
from hypothesis import given

from tests.wire.strategies import security_headers
from waypost.errors import DecodeError, EncodeError
from waypost.wire import security_header
from waypost.wire.security_header import ProviderInfo, SecurityHeader

GUID = bytes(range(16))


def raw(flags: int, sizes: tuple[int, int, int, int, int], data: bytes) -> bytes:
    return struct.pack("<HHHHII", flags, *sizes) + data


def decode(data: bytes) -> SecurityHeader:
    header, at = SecurityHeader.decode(data, 0)
    assert at == len(data)
    assert header.encode() == data
    return header


@pytest.mark.spec("MQMQ-2.2.20.6-01", "MQMQ-2.2.20.6-08", "MQMQ-2.2.18-01")
def test_five_items_in_order_each_padded_to_4_bytes() -> None:
    provider = ProviderInfo(1, "P").encode()
    data = b"sid!!\x01\x02\x03key~signat\x04\x05c\x06\x07\x08" + provider
    header = decode(raw(1, (5, 4, 6, 1, len(provider)), data))
    assert header == SecurityHeader(
        flags=1,
        security_id=b"sid!!",
        encryption_key=b"key~",
        signature=b"signat",
        sender_cert=b"c",
        provider_info=provider,
        padding=bytes(range(1, 9)),
    )


@pytest.mark.spec("MQMQ-2.2.20.6-08")
def test_an_item_of_size_0_takes_no_space() -> None:
    header = decode(raw(0, (0, 0, 4, 0, 0), b"sign"))
    assert (header.security_id, header.signature, header.sender_cert) == (b"", b"sign", b"")


@pytest.mark.spec("MQMQ-2.2.20.6-02")
def test_the_flags_count_from_the_least_significant_bit() -> None:
    names = ("ST", "AU", "EB", "DE", "AI", "AS", "X")
    masks = [getattr(security_header, name) for name in names]
    assert masks == [0x000F, 0x0010, 0x0020, 0x0040, 0x0080, 0x0F00, 0xF000]
    assert SecurityHeader().flags & security_header.X == 0
    noisy = decode(raw(0xF021, (4, 0, 0, 0, 0), b"sid!"))
    assert (noisy.sender_type, noisy.is_body_encrypted) == (1, True)
    assert not decode(raw(0xF0D1, (4, 0, 0, 0, 0), b"sid!")).is_body_encrypted


@pytest.mark.spec("MQMQ-2.2.20.6-07")
def test_ai_demands_security_data_and_its_absence_forbids_none() -> None:
    with pytest.raises(DecodeError, match="all five sizes are 0"):
        SecurityHeader.decode(raw(0x0080, (0, 0, 0, 0, 0), b""), 0)
    assert decode(raw(0x0081, (4, 0, 0, 0, 0), b"sid!")).security_id == b"sid!"
    assert decode(raw(0x0001, (4, 0, 0, 0, 0), b"sid!")).security_id == b"sid!"


@pytest.mark.spec("MQMQ-2.2.20.6-09")
def test_at_least_one_item_is_there() -> None:
    with pytest.raises(DecodeError, match="all five sizes are 0"):
        SecurityHeader.decode(raw(0, (0, 0, 0, 0, 0), bytes(16)), 0)
    assert decode(raw(1, (4, 0, 0, 0, 0), b"item")).security_id == b"item"
    assert decode(raw(0, (0, 4, 0, 0, 0), b"item")).encryption_key == b"item"
    assert decode(raw(0, (0, 0, 4, 0, 0), b"item")).signature == b"item"
    assert decode(raw(0, (0, 0, 0, 4, 0), b"item")).sender_cert == b"item"
    provider = ProviderInfo(1, "P").encode()
    assert decode(raw(0, (0, 0, 0, 0, len(provider)), provider)).provider_info == provider


@pytest.mark.spec("MQMQ-2.2.20.6-10")
def test_a_certificate_has_at_most_65535_bytes_and_no_item_runs_past_the_packet() -> None:
    certificate = b"c" * 0xFFFF
    assert decode(raw(0, (0, 0, 0, 0xFFFF, 0), certificate + b"\0")).sender_cert == certificate
    with pytest.raises(DecodeError, match="SenderCertSize at offset 8"):
        SecurityHeader.decode(raw(0, (0, 0, 0, 0x10000, 0), certificate + b"c"), 0)
    for sizes in ((0, 5, 0, 0, 0), (0, 0, 0xFFFF, 0, 0), (0, 0, 0, 0xFFFFFFFF, 0), (0, 0, 0, 0, 0xFFFFFFFF)):
        with pytest.raises(DecodeError, match="SecurityData at offset 16"):
            SecurityHeader.decode(raw(0, sizes, b"four"), 0)
    with pytest.raises(EncodeError, match="65535"):
        SecurityHeader(sender_cert=certificate + b"c").encode()


@pytest.mark.parametrize(
    ("flags", "size", "why"),
    [
        (3, 4, "ST must be 0, 1 or 2, not 3"),
        (15, 4, "ST must be 0, 1 or 2, not 15"),
        (0, 4, "SenderIdSize at offset 2: must be 0, not 4, because ST says"),
        (2, 4, "SenderIdSize at offset 2: must be 16, the size of a queue manager GUID"),
    ],
)
def test_a_sender_that_is_not_what_st_says_is_refused(flags: int, size: int, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        SecurityHeader.decode(raw(flags, (size, 0, 0, 0, 0), bytes(size)), 0)


@pytest.mark.spec("MQMQ-2.2.20.6-15")
def test_provider_info_is_a_type_and_a_name_and_only_without_de() -> None:
    provider = ProviderInfo(0x18, "Own provider")
    data = provider.encode()
    assert data == b"\x18\0\0\0" + "Own provider\0".encode("utf-16-le")
    header = decode(raw(0, (0, 0, 4, 0, len(data)), b"sign" + data + bytes(-len(data) % 4)))
    assert header.provider == provider
    assert decode(raw(0, (0, 0, 4, 0, 0), b"sign")).provider is None
    with pytest.raises(DecodeError, match="ProviderInfoSize at offset 12"):
        SecurityHeader.decode(raw(0x40, (0, 0, 4, 0, len(data)), b"sign" + data + bytes(-len(data) % 4)), 0)
    for bad, where in (
        (b"\x18\0\0", "ProviderType at offset 24"),
        (b"\x18\0\0\0", "ProviderName at offset 28"),
        (b"\x18\0\0\0x\0", "ProviderName at offset 28"),
    ):
        with pytest.raises(DecodeError, match=where):
            SecurityHeader.decode(raw(0, (0, 0, 5, 0, len(bad)), b"signa\0\0\0" + bad + bytes(-len(bad) % 4)), 0)


@given(security_headers())
def test_every_header_survives_the_wire(header: SecurityHeader) -> None:
    data = header.encode()
    decoded, at = SecurityHeader.decode(data, 0)
    assert at == len(data)
    assert decoded.encode() == data
    for name in ("flags", "security_id", "encryption_key", "signature", "sender_cert", "provider_info"):
        assert getattr(decoded, name) == getattr(header, name)
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            SecurityHeader.decode(data[:length], 0)
