"""MS-MQRR 2.2.5.3 to 2.2.5.5."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError
from waypost.wire.remote_trailers import (
    DeadLetterHeader,
    ExtendedAddressHeader,
    ExtensionHeader,
    HostAddress,
    SenderAddress,
    SubqueueHeader,
)

IPV4 = HostAddress(bytes((192, 0, 2, 7)))
IPV6 = HostAddress(bytes.fromhex("fe80000000000000 0123456789abcdef"), 5)


@pytest.mark.spec("MQRR-2.2.5.3-01")
def test_the_fields_of_a_subqueue_header_stand_in_148_bytes() -> None:
    bits = 1 | 0xC004 << 1 | 0x5555 << 17
    fixed = b"".join(number.to_bytes(4, "little") for number in (148, bits, 2, 3, 1_700_000_000))
    data = fixed + "sub".encode("utf-16-le").ljust(64, b"\0") + "target".encode("utf-16-le").ljust(64, b"\0")
    header, at = SubqueueHeader.decode(data, 0)
    assert at == 148 == len(data)
    assert (header.tm, header.acknowledgement_class, header.reserved) == (1, 0xC004, 0x5555)
    assert (header.abort_counter, header.move_counter, header.last_move_time) == (2, 3, 1_700_000_000)
    assert (header.subqueue_name, header.target_subqueue_name) == ("sub", "target")
    assert header.encode() == data
    with pytest.raises(DecodeError, match="HeaderSize at offset 0"):
        SubqueueHeader.decode(b"\x95" + data[1:], 0)


@pytest.mark.spec("MQRR-2.2.5.3-02")
def test_an_empty_name_means_no_subqueue_and_tm_is_written_as_0() -> None:
    made = SubqueueHeader(acknowledgement_class=0xFFFF, abort_counter=1, subqueue_name="sub")
    assert made.is_in_subqueue
    assert made.encode()[4] & 1 == 0
    outside = bytearray(SubqueueHeader(abort_counter=1, target_subqueue_name="t").encode())
    outside[6:8] = b"\xfe\xff"
    header, _ = SubqueueHeader.decode(bytes(outside), 0)
    assert not header.is_in_subqueue
    assert header.acknowledgement_class == 0
    assert header.encode() == outside


@pytest.mark.parametrize("message_class", [0x0000, 0x0002, 0x4000, 0xC004, 0xFFFF])
def test_the_acknowledgement_class_is_the_16_bits_above_tm(message_class: int) -> None:
    data = SubqueueHeader(acknowledgement_class=message_class).encode()
    assert int.from_bytes(data[4:8], "little") == message_class << 1
    assert SubqueueHeader.decode(data, 0)[0].acknowledgement_class == message_class


@pytest.mark.spec("MQRR-2.2.5.3-07", "MQRR-2.2.5.3-08")
def test_a_name_is_null_terminated_and_padded_with_zeros_and_no_name_is_all_zeros() -> None:
    none = SubqueueHeader().encode()
    assert none[20:] == bytes(128)
    name, target = "s" * 31, "tgt"
    data = SubqueueHeader(subqueue_name=name, target_subqueue_name=target).encode()
    assert data[20:84] == name.encode("utf-16-le") + b"\0\0"
    assert data[84:] == target.encode("utf-16-le") + bytes(58)
    header, _ = SubqueueHeader.decode(data, 0)
    assert (header.subqueue_name, header.target_subqueue_name) == (name, target)


def test_a_subqueue_name_of_32_units_fills_its_field_and_33_are_refused() -> None:
    data = SubqueueHeader(subqueue_name="s" * 32).encode()
    assert data[20:84] == ("s" * 32).encode("utf-16-le")
    assert data[84:] == bytes(64)
    assert SubqueueHeader.decode(data, 0)[0].subqueue_name == "s" * 32
    with pytest.raises(EncodeError, match="TargetSubqueueName"):
        SubqueueHeader(target_subqueue_name="s" * 33).encode()


@pytest.mark.spec("MQRR-2.2.5.4-01")
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a\\b", "0c000000 6100 5c00 6200 0000"),
        ("a\\bc", "10000000 6100 5c00 6200 6300 0000 0000"),
        ("", "08000000 0000 0000"),
    ],
)
def test_a_dead_letter_header_is_its_size_and_a_path_name_padded_to_4(name: str, data: str) -> None:
    assert DeadLetterHeader(name).encode() == bytes.fromhex(data)
    header, at = DeadLetterHeader.decode(bytes.fromhex(data) + b"next", 0)
    assert (header.dead_letter_path_name, at) == (name, len(bytes.fromhex(data)))
    assert header.encode() == bytes.fromhex(data)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "04000000",
        "06000000 0000 0000",
        "08000000 6100 6200",
        "0c000000 6100 0000 0000 0000",
        "0c000000 6100 0000",
        "ffffffff 6100 0000",
        "fcffffff 6100 0000",
    ],
)
def test_a_malformed_dead_letter_header_is_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        DeadLetterHeader.decode(bytes.fromhex(data), 0)


@pytest.mark.spec("MQRR-2.2.5.5-01", "MQRR-2.2.5.5-03")
def test_an_extended_address_header_holds_an_address_of_either_family_whole() -> None:
    ipv6 = bytes.fromhex("1c000000 1000 0600 05000000 fe80000000000000 0123456789abcdef")
    ipv4 = bytes.fromhex("1c000000 0400 0100 00000000 c0000207 000000000000000000000000")
    assert len(ipv6) == len(ipv4) == 28
    for host, data in ((IPV6, ipv6), (IPV4, ipv4), (HostAddress(IPV4.address, 9), ipv4)):
        assert ExtendedAddressHeader.of(host).encode() == data
        header, at = ExtendedAddressHeader.decode(data, 0)
        assert at == 28
        assert (header.host.address, header.host.address_scope) == (host.address, host.address_scope)
    with pytest.raises(DecodeError, match="HeaderSize at offset 0"):
        ExtendedAddressHeader.decode(b"\x1d" + ipv6[1:], 0)


@pytest.mark.spec("MQRR-2.2.5.5-02")
def test_the_address_type_is_0_1_or_6_and_0_means_no_address() -> None:
    lengths = {0: 0, 1: 4, 6: 16}
    for host in (HostAddress(), IPV4, IPV6):
        header = ExtendedAddressHeader.of(host)
        assert lengths[header.address_type] == header.address_length == len(host.address)
    ignored = bytes.fromhex("1c000000 ffff 0000 05000000") + bytes(range(16))
    header, _ = ExtendedAddressHeader.decode(ignored, 0)
    assert header.host.address == b""
    assert header.encode() == ignored
    for wrong in ({*range(16)} - set(lengths)) | {0x0100, 0xFFFF}:
        with pytest.raises(DecodeError, match="AddressType at offset 6"):
            ExtendedAddressHeader.decode(ignored[:6] + wrong.to_bytes(2, "little") + ignored[8:], 0)


@pytest.mark.parametrize("length", [1, 3, 5, 8, 15, 17])
def test_an_address_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(EncodeError, match="must have 4 or 16 bytes"):
        ExtendedAddressHeader.of(HostAddress(bytes(length)))


def test_what_a_peer_left_behind_the_null_of_a_name_comes_back_until_the_name_changes() -> None:
    data = bytearray(SubqueueHeader(subqueue_name="sub").encode())
    data[28:84] = b"\xcd" * 56
    header, _ = SubqueueHeader.decode(bytes(data), 0)
    assert header.subqueue_name == "sub"
    assert header.encode() == data
    header.subqueue_name = "other"
    assert header.encode() == SubqueueHeader(subqueue_name="other").encode()


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        (ExtensionHeader, "0c000000"),
        (SubqueueHeader, "94000000"),
        (DeadLetterHeader, "0c000000"),
        (ExtendedAddressHeader, "1c000000 0400 0100"),
        (SenderAddress, "1000 0600"),
    ],
)
@given(tail=st.binary(max_size=12) | st.binary(min_size=144, max_size=144))
@settings(max_examples=40, deadline=None)
def test_any_bytes_give_the_same_bytes_again_or_a_decode_error(
    kind: type[ExtensionHeader | SubqueueHeader | DeadLetterHeader | ExtendedAddressHeader | SenderAddress],
    start: str,
    tail: bytes,
) -> None:
    data = bytes.fromhex(start) + tail
    try:
        header, at = kind.decode(data, 0)
    except DecodeError:
        return
    assert header.encode() == data[:at]
