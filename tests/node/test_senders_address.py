"""MS-MQRR 2.2.5.1 and 2.2.5.5: remote readers are told from which host a message came, also after a restart."""

import pytest

from tests.node.remote_rig import Reader, RemoteRig, Sender
from tests.node.rig import RECOVERABLE, direct, letter
from waypost.core.message_values import DeliveryGuarantee
from waypost.wire.remote_trailers import ExtendedAddressHeader, HostAddressType

IPV4, IPV6 = "192.0.2.7", "fe80::123:4567:89ab:cdef%5"
# AddressLength, AddressType, AddressScope and as much of the address as fits.
OVERLAYS = {
    IPV4: bytes.fromhex("0400 0100 00000000 c000020700000000"),
    IPV6: bytes.fromhex("1000 0600 05000000 fe80000000000000"),
}
HEADERS = {
    IPV4: ExtendedAddressHeader(4, HostAddressType.IP, 0, bytes.fromhex("c0000207") + bytes(12)),
    IPV6: ExtendedAddressHeader(16, HostAddressType.IPV6, 5, bytes.fromhex("fe80000000000000 0123456789abcdef")),
}
NOBODY = ExtendedAddressHeader(0, HostAddressType.NONE, 0, bytes(16))


def addresses(reader: Reader, name: str = "orders") -> list[tuple[bytes, ExtendedAddressHeader | None]]:
    """The two places where a reader finds the address of every message of a queue."""
    handle, rig = reader.open(name), reader.rig
    packets = [reader.peek(handle, lookup_id) for lookup_id in rig.queue(name).positions]
    return [(packet.user_message[32:48], packet.extended_address) for packet in packets]


@pytest.mark.spec("MQRR-2.2.5.1-06")
@pytest.mark.parametrize("address", [IPV4, IPV6])
@pytest.mark.parametrize("count", [1, 3])
def test_a_reader_learns_the_address_that_a_message_came_from(address: str, count: int) -> None:
    rig = RemoteRig()
    Sender(rig, address).send(*map(str, range(count)))
    assert addresses(rig.reader()) == [(OVERLAYS[address], HEADERS[address])] * count


@pytest.mark.parametrize("address", [IPV4, IPV6])
@pytest.mark.parametrize("count", [1, 3])
def test_the_address_of_a_recoverable_message_outlives_the_process(address: str, count: int) -> None:
    rig = RemoteRig()
    Sender(rig, address).send(*map(str, range(count)), delivery_guarantee=RECOVERABLE)
    rig.crash()
    assert addresses(rig.reader()) == [(OVERLAYS[address], HEADERS[address])] * count


def test_a_message_that_goes_alone_keeps_it_too() -> None:
    rig = RemoteRig()
    Sender(rig, IPV4).send("1", delivery_guarantee=RECOVERABLE, response_queue_format_name=direct("answers"))
    Sender(rig, IPV6).send("2", delivery_guarantee=RECOVERABLE, time_to_be_received=100)
    Sender(rig, IPV4).send("3", delivery_guarantee=DeliveryGuarantee.EXPRESS, time_to_be_received=100)
    expected = [(OVERLAYS[each], HEADERS[each]) for each in (IPV4, IPV6, IPV4)]
    assert addresses(rig.reader()) == expected
    rig.crash()
    assert addresses(rig.reader()) == expected[:2]


def test_a_message_of_this_computer_has_no_address() -> None:
    rig = RemoteRig()
    rig.send(letter("own"))
    rig.settle()
    assert addresses(rig.reader()) == [(bytes(16), NOBODY)]


def test_what_was_received_shows_it_in_the_journal_of_its_queue() -> None:
    rig = RemoteRig()
    rig.create("kept", journaling=True)
    reader = rig.reader()
    Sender(rig, IPV4).send("1", destination_queue_format_name=direct("kept"))
    handle = reader.open("kept")
    reader.start_receive(handle, 1)
    reader.end_receive(handle, 1)
    packet = reader.peek(reader.open("kept;journal"))
    assert (packet.user_message[32:48], packet.extended_address) == (OVERLAYS[IPV4], HEADERS[IPV4])
