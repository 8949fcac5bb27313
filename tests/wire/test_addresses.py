"""MS-MQMQ 2.2.4."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError
from waypost.guid import parse_guid
from waypost.wire.addresses import ADDRESS_LENGTH, AddressType, TaAddress, decode_addresses, encode_addresses

NETWORK = parse_guid("00112233-4455-6677-8899-aabbccddeeff")

PACKETS = {
    AddressType.IP: bytes.fromhex("0400 0100 c0a80102"),
    AddressType.IP_RAS: bytes.fromhex("0400 0200 0a000001"),
    AddressType.IPX: bytes.fromhex("0a00 0300 01020304 0a0b0c0d0e0f"),
    AddressType.FOREIGN: bytes.fromhex("1000 0500") + NETWORK,
}
TEXTS = {
    AddressType.IP: "192.168.1.2",
    AddressType.IP_RAS: "10.0.0.1",
    AddressType.IPX: "01020304:0a0b0c0d0e0f",
    AddressType.FOREIGN: "00112233-4455-6677-8899-aabbccddeeff",
}

addresses = st.sampled_from(AddressType).flatmap(
    lambda kind: st.builds(
        TaAddress, st.just(kind), st.binary(min_size=ADDRESS_LENGTH[kind], max_size=ADDRESS_LENGTH[kind])
    )
)


@pytest.mark.spec("MQMQ-2.2.4-01")
@pytest.mark.parametrize("kind", AddressType)
def test_an_address_is_length_type_and_bytes(kind: AddressType) -> None:
    packet = PACKETS[kind]
    address, at = TaAddress.decode(b"\xff" + packet + b"\xff", 1)
    assert at == 1 + len(packet)
    assert address == TaAddress(kind, packet[4:])
    assert address.encode() == packet
    assert str(address) == TEXTS[kind]


@pytest.mark.spec("MQMQ-2.2.4-01")
@pytest.mark.parametrize(
    ("kind", "length"),
    [(AddressType.IP, 4), (AddressType.IP_RAS, 4), (AddressType.IPX, 10), (AddressType.FOREIGN, 16)],
)
def test_an_address_of_another_length_is_refused(kind: AddressType, length: int) -> None:
    for wrong in {0, 4, 10, 16, 17} - {length}:
        packet = wrong.to_bytes(2, "little") + kind.to_bytes(2, "little") + bytes(wrong)
        with pytest.raises(DecodeError, match="AddressLength at offset 0"):
            TaAddress.decode(packet, 0)
        with pytest.raises(EncodeError):
            TaAddress(kind, bytes(wrong)).encode()


@pytest.mark.spec("MQMQ-2.2.4-02")
def test_only_four_address_types_exist() -> None:
    numbers = {"IP": 0x0001, "IP_RAS": 0x0002, "IPX": 0x0003, "FOREIGN": 0x0005}
    assert {kind.name: kind.value for kind in AddressType} == numbers
    assert TaAddress.decode(PACKETS[AddressType.FOREIGN], 0)[0].address == NETWORK
    for number in {*range(0x20), 0x0100, 0xFFFF} - set(numbers.values()):
        for length in (4, 10, 16):
            packet = length.to_bytes(2, "little") + number.to_bytes(2, "little") + bytes(length)
            with pytest.raises(DecodeError, match="AddressType at offset 2"):
                TaAddress.decode(packet, 0)


@pytest.mark.spec("MQMQ-2.2.4.2-01")
def test_an_ipx_address_is_a_4_byte_network_and_a_6_byte_node() -> None:
    address, at = TaAddress.decode(bytes.fromhex("0a00 0300 deadbeef 0000c0ffee01"), 0)
    assert at == 14
    network, node = str(address).split(":")
    assert (network, node) == ("deadbeef", "0000c0ffee01")


@given(st.lists(addresses))
def test_a_packed_array_comes_back_from_its_bytes(array: list[TaAddress]) -> None:
    data = encode_addresses(array)
    assert decode_addresses(data) == array
    if array:
        with pytest.raises(DecodeError):
            decode_addresses(data[:-1])


def test_the_offset_of_an_error_counts_from_the_start_of_the_array() -> None:
    with pytest.raises(DecodeError, match="AddressType at offset 10"):
        decode_addresses(PACKETS[AddressType.IP] + bytes.fromhex("0400 0400 00000000"))


@given(st.binary(max_size=64))
def test_any_bytes_are_an_array_or_a_decode_error(data: bytes) -> None:
    try:
        array = decode_addresses(data)
    except DecodeError:
        return
    assert encode_addresses(array) == data
