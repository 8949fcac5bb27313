"""MS-MQQB 2.2.4, 2.2.5, 3.1.5.1.1 and 3.1.7.17."""

from dataclasses import replace

import pytest

from waypost.errors import DecodeError
from waypost.wire import FinalAck, OrderAck, Splitter, UserMessage, decode_packet
from waypost.wire.format_names import DirectFormatName, PrivateFormatName, Protocol
from waypost.wire.packet_names import destination_format_name
from waypost.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId
from waypost.wire.session_header import SessionHeader
from waypost.wire.transactional_acks import (
    FinalAckBody,
    OrderAckBody,
    final_ack,
    local_order_queue,
    order_ack,
    order_queue_of_address,
)
from waypost.wire.user_header import UserHeader

OWN = bytes(range(16))
PEER = bytes(range(16, 32))
USER = UserHeader(source_queue_manager=OWN, queue_manager_address=PEER, message_id=9, sent_time=1_000, flags=0x3FF)
ORDER_BODY = OrderAckBody(tx_sequence_id=0x2222222211111111, tx_sequence_number=8, tx_previous_sequence_number=7)
FINAL_BODY = FinalAckBody(0x2222222211111111, 8, 7, PEER, 0x55)
PUBLIC_CLASSES = (0x4000, 0x8000, 0x8003, 0x8004, 0x8005, 0x8006, 0x8007, 0x8009, 0x800B, 0xC000, 0xC001, 0xC002)


def user_flags(data: bytes) -> int:
    return int.from_bytes(data[60:64], "little")


@pytest.mark.spec("MQQB-2.2.4-01", "MQQB-2.2.4-02", "MQQB-2.2.4-03", "MQQB-2.2.4-05", "MQMQ-2.2.19.1-07")
def test_an_order_ack_to_a_private_queue_number() -> None:
    data = order_ack(USER, local_order_queue(), ORDER_BODY).encode()
    assert data[2:4] == bytes(2)
    assert user_flags(data) == 0x00200C00
    assert data[64:68] == b"\x04\0\0\0"
    packet = decode_packet(data)
    assert isinstance(packet, OrderAck)
    properties = packet.message.properties
    assert data[69] == 0x10
    assert (properties.label, properties.flags, properties.message_class) == ("QM Ordering Ack", 0, 0x00FF)
    assert (properties.body_type, len(properties.message_body)) == (0, 0x24)
    assert packet.encode() == data
    assert order_ack(USER, local_order_queue(), ORDER_BODY).message.encode() == data


@pytest.mark.spec("MQQB-2.2.4-02", "MQQB-2.2.4-04", "MQQB-3.1.7.17-04")
@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7"])
def test_an_order_ack_to_a_direct_name(address: str) -> None:
    user = replace(USER, queue_manager_address=bytes(16))
    data = order_ack(user, order_queue_of_address(address), ORDER_BODY).encode()
    assert user_flags(data) == 0x00201C00
    packet = decode_packet(data)
    assert isinstance(packet, OrderAck)
    assert packet.message.user.destination_queue == DirectQueueFormatName(f"TCP:{address}\\PRIVATE$\\order_queue$")
    name = destination_format_name(packet.message.user)
    assert isinstance(name, DirectFormatName)
    assert (name.protocol, name.host, name.queue) == (Protocol.TCP, address, "order_queue$")


@pytest.mark.spec("MQQB-3.1.7.17-04")
def test_without_a_direct_name_the_ack_goes_to_queue_4_of_the_peer() -> None:
    ack = order_ack(USER, local_order_queue(), ORDER_BODY)
    assert destination_format_name(ack.message.user) == PrivateFormatName(PEER, 4)


@pytest.mark.spec("MQQB-2.2.4.1-01", "MQQB-2.2.4.1-04")
def test_the_body_of_an_order_ack() -> None:
    body = bytes.fromhex("11111111 22222222 08000000 07000000") + bytes(20)
    assert ORDER_BODY.encode() == body
    ack = order_ack(USER, local_order_queue(), replace(ORDER_BODY, reserved=b"uninitialised bytes!"))
    packet = decode_packet(ack.encode())
    assert isinstance(packet, OrderAck)
    assert packet.body == OrderAckBody(0x2222222211111111, 8, 7, b"uninitialised bytes!")
    assert packet.encode() == ack.encode()


@pytest.mark.spec("MQQB-2.2.5-02", "MQQB-2.2.5-03", "MQQB-2.2.5-04", "MQQB-2.2.5-05", "MQMQ-2.2.19.1-07")
@pytest.mark.parametrize("message_class", PUBLIC_CLASSES)
def test_a_final_ack_is_recoverable(message_class: int) -> None:
    local = final_ack(USER, local_order_queue(), message_class, FINAL_BODY).encode()
    direct = final_ack(USER, order_queue_of_address("192.0.2.7"), message_class, FINAL_BODY).encode()
    assert (user_flags(local), user_flags(direct)) == (0x00200C20, 0x00201C20)
    for data in (local, direct):
        assert data[2:4] == bytes(2)
        packet = decode_packet(data)
        assert isinstance(packet, FinalAck)
        assert packet.message_class == message_class
        properties = packet.message.properties
        assert (properties.label, properties.flags, properties.body_type) == ("QM Ordering Ack", 0, 0)
        assert len(properties.message_body) == 0x24
        assert packet.encode() == data
    assert local[64:68] == b"\x04\0\0\0"
    assert "TCP:192.0.2.7\\PRIVATE$\\order_queue$\0".encode("utf-16-le") in direct


@pytest.mark.spec("MQQB-2.2.5.1-01")
def test_the_body_of_a_final_ack() -> None:
    body = bytes.fromhex("11111111 22222222 08000000 07000000") + PEER + b"\x55\0\0\0"
    assert FINAL_BODY.encode() == body
    packet = decode_packet(final_ack(USER, local_order_queue(), 0x4000, FINAL_BODY).encode())
    assert isinstance(packet, FinalAck)
    assert packet.body == FINAL_BODY


@pytest.mark.spec("MQQB-3.1.7.17-01")
def test_an_acknowledgment_asks_for_nothing_itself() -> None:
    busy = UserHeader(
        flags=0x0000FF80, admin_queue=PrivateQueueFormatNameId(1), response_queue=PrivateQueueFormatNameId(2)
    )
    for ack in (
        order_ack(busy, local_order_queue(), ORDER_BODY),
        final_ack(busy, local_order_queue(), 0xC001, FINAL_BODY),
    ):
        message = ack.message
        assert (message.base.priority, message.base.is_traced) == (0, False)
        assert message.user.flags & 0x300 == 0
        assert message.user.admin_queue is message.user.response_queue is None
        assert message.security is None
        assert message.properties.privacy_level == 0
        assert (message.properties.label, message.properties.body_type) == ("QM Ordering Ack", 0)
    assert order_ack(busy, local_order_queue(), ORDER_BODY).message.properties.message_class == 0x00FF
    assert final_ack(busy, local_order_queue(), 0xC001, FINAL_BODY).message.properties.message_class == 0xC001


@pytest.mark.spec("MQQB-3.1.5.1.1-04")
def test_everything_else_without_in_is_a_user_message() -> None:
    ack = order_ack(USER, local_order_queue(), ORDER_BODY).message
    ack.properties.message_body = ORDER_BODY.encode()
    assert isinstance(decode_packet(ack.encode()), OrderAck)
    others = [
        replace(ack, properties=replace(ack.properties, label="QM ordering ack")),
        replace(ack, base=replace(ack.base, flags=3)),
        replace(ack, user=replace(ack.user, destination_queue=PrivateQueueFormatNameId(5))),
        replace(ack, user=replace(ack.user, destination_queue=DirectQueueFormatName("TCP:192.0.2.7\\order_queue$"))),
        *(
            replace(ack, properties=replace(ack.properties, message_class=message_class))
            for message_class in (0x0000, 0x0001, 0x0002, 0x3FFF)
        ),
        *(
            replace(ack, properties=replace(ack.properties, message_class=message_class, label=None))
            for message_class in (0x0001, 0x0002, 0x4000, 0x8000, 0xC004)
        ),
    ]
    for other in others:
        assert isinstance(decode_packet(other.encode()), UserMessage)


def test_a_piggybacked_session_header_does_not_hide_an_acknowledgment() -> None:
    ack = order_ack(USER, local_order_queue(), ORDER_BODY)
    ack.message.session = SessionHeader()
    (data,) = Splitter().feed(ack.encode())
    assert isinstance(decode_packet(data), OrderAck)


@pytest.mark.parametrize("message_class", [0x00FF, 0x4000])
def test_an_acknowledgment_whose_body_has_another_size_is_refused(message_class: int) -> None:
    message = final_ack(USER, local_order_queue(), message_class, FINAL_BODY).message
    for size in (0, 35, 37):
        message.properties.message_body = bytes(size)
        with pytest.raises(DecodeError, match="MessageSize"):
            decode_packet(message.encode())
