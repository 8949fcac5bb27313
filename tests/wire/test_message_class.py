"""MS-MQMQ 2.2.18.1.6."""

import pytest

from waypost.wire.message_class import (
    CUSTOM_CLASS_MASK,
    MessageClass,
    is_arrival_nack,
    is_negative_ack,
    is_positive_ack,
    is_receive_nack,
    is_valid_custom_class,
    meaning,
)

NOT_NEGATIVE = {
    "NORMAL": 0x0000,
    "REPORT": 0x0001,
    "ACK_REACH_QUEUE": 0x0002,
    "ORDER_ACK": 0x00FF,
    "ACK_RECEIVE": 0x4000,
}
ARRIVAL = {
    "BAD_DST_Q": 0x8000,
    "DELETED": 0x8001,
    "REACH_QUEUE_TIMEOUT": 0x8002,
    "Q_EXCEED_QUOTA": 0x8003,
    "ACCESS_DENIED": 0x8004,
    "HOP_COUNT_EXCEEDED": 0x8005,
    "BAD_SIGNATURE": 0x8006,
    "BAD_ENCRYPTION": 0x8007,
    "NOT_TRANSACTIONAL_Q": 0x8009,
    "NOT_TRANSACTIONAL_MSG": 0x800A,
    "UNSUPPORTED_CRYPTO_PROVIDER": 0x800B,
}
RECEIVE = {"Q_DELETED": 0xC000, "Q_PURGED": 0xC001, "RECEIVE_TIMEOUT": 0xC002, "RECEIVE_REJECTED": 0xC004}
# readings MQQB 3.30: numbers that MS-MQMQ leaves unused.
FROM_ELSEWHERE = {
    "COULD_NOT_ENCRYPT": 0x8008,
    "SOURCE_COMPUTER_GUID_CHANGED": 0x800C,
    "MESSAGE_TOO_LARGE": 0x800D,
    "RECEIVE_TIMEOUT_AT_SENDER": 0xC003,
}


@pytest.mark.spec("MQMQ-2.2.18.1.6-01")
def test_five_classes_are_not_negative_and_all_others_are() -> None:
    classes = MessageClass.__members__
    assert {name: classes["MQMSG_CLASS_" + name] for name in NOT_NEGATIVE} == NOT_NEGATIVE
    assert {value for value in MessageClass if not is_negative_ack(value)} == set(NOT_NEGATIVE.values())
    assert [value for value in MessageClass if is_positive_ack(value)] == [0x0002, 0x4000]


@pytest.mark.spec("MQMQ-2.2.18.1.6-02")
def test_arrival_nacks_are_from_0x8000_and_0x8008_is_none_of_mqmq() -> None:
    classes = MessageClass.__members__
    assert {name: classes["MQMSG_CLASS_NACK_" + name] for name in ARRIVAL} == ARRIVAL
    outside = {0x8008, 0x800C, 0x800D}
    assert outside <= set(FROM_ELSEWHERE.values())
    assert {value for value in MessageClass if is_arrival_nack(value)} - outside == set(ARRIVAL.values())


@pytest.mark.spec("MQMQ-2.2.18.1.6-03")
def test_receive_nacks_are_from_0xc000_and_0xc003_is_none_of_mqmq() -> None:
    classes = MessageClass.__members__
    assert {name: classes["MQMSG_CLASS_NACK_" + name] for name in RECEIVE} == RECEIVE
    assert {value for value in MessageClass if is_receive_nack(value)} - {0xC003} == set(RECEIVE.values())


def test_four_classes_come_from_elsewhere() -> None:
    ours = {name: value for name, value in MessageClass.__members__.items() if value in FROM_ELSEWHERE.values()}
    assert ours == {"MQMSG_CLASS_NACK_" + name: value for name, value in FROM_ELSEWHERE.items()}
    assert len(MessageClass) == len(NOT_NEGATIVE) + len(ARRIVAL) + len(RECEIVE) + len(FROM_ELSEWHERE)


@pytest.mark.spec("MQMQ-2.2.18.1.6-04")
def test_a_custom_class_has_bits_of_the_mask_0xe1ff_only() -> None:
    assert CUSTOM_CLASS_MASK == 0xE1FF
    valid = [value for value in range(0x10000) if is_valid_custom_class(value)]
    assert len(valid) == 2**12 - 1
    assert all(value & 0x1E00 == 0 and value != 0 for value in valid)
    assert not is_valid_custom_class(0x0200)
    assert not is_valid_custom_class(0x1_0001)


def test_every_class_has_a_meaning_of_its_own() -> None:
    assert len({meaning(value) for value in MessageClass}) == len(MessageClass)
    assert meaning(0xC002) == "the message expired in the queue before it was received"
    assert meaning(0x0123) == "a class defined by the application, 0x0123"
