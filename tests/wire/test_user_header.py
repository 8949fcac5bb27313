"""MS-MQMQ 2.2.19.2."""

import pytest
from hypothesis import given

from tests.wire.strategies import user_headers
from waypost.errors import DecodeError, EncodeError
from waypost.wire import user_header
from waypost.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
)
from waypost.wire.user_header import UserHeader

SOURCE = bytes(range(16))
ADDRESS = bytes(range(16, 32))
GUID = b"\xaa" * 16
DIRECT = DirectQueueFormatName("OS:h\\q")


def fixed(flags: int) -> bytes:
    return SOURCE + ADDRESS + bytes.fromhex("01000000 02000000 03000000") + flags.to_bytes(4, "little")


def decode(data: bytes) -> UserHeader:
    header, at = UserHeader.decode(data, 0)
    assert at == len(data)
    assert header.encode() == data
    return header


@pytest.mark.spec("MQMQ-2.2.19.2-01", "MQMQ-2.2.19.2-22", "MQMQ-2.2.19.2-06", "MQMQ-2.2.18-01")
def test_the_fields_stand_in_their_order() -> None:
    flags = 3 << 10 | 5 << 13 | 6 << 16 | 0x400000
    data = fixed(flags) + b"\x04\0\0\0" + GUID + SOURCE + b"\x05\0\0\0" + b"\xbb" * 16
    header = decode(data)
    assert header == UserHeader(
        source_queue_manager=SOURCE,
        queue_manager_address=ADDRESS,
        time_to_be_received=1,
        sent_time=2,
        message_id=3,
        flags=flags,
        destination_queue=PrivateQueueFormatNameId(4),
        admin_queue=PublicQueueFormatName(GUID),
        response_queue=PrivateQueueFormatName(SOURCE, 5),
        connector_type=b"\xbb" * 16,
    )


@pytest.mark.spec("MQMQ-2.2.19.2-22")
def test_connector_type_follows_the_names_exactly_when_cq_is_set() -> None:
    assert decode(fixed(0)).connector_type is None
    assert decode(fixed(0x400000) + GUID).connector_type == GUID
    with pytest.raises(DecodeError, match="ConnectorType at offset 48"):
        UserHeader.decode(fixed(0x400000) + GUID[:15], 0)
    header = decode(fixed(0))
    header.connector_type = b"anything at all!"
    assert header.encode() == fixed(0x400000) + b"anything at all!"


@pytest.mark.spec("MQMQ-2.2.19.2-02")
def test_the_flags_count_from_the_least_significant_bit() -> None:
    places = {
        "RC": (0, 4), "DM": (5, 6), "X1": (7, 7), "JN": (8, 8), "JP": (9, 9), "DQ": (10, 12), "AQ": (13, 15),
        "RQ": (16, 18), "SH": (19, 19), "TH": (20, 20), "MP": (21, 21), "CQ": (22, 22), "MQ": (23, 23),
        "X2": (24, 24), "AH": (25, 25), "X3": (26, 27), "HH": (28, 28), "X4": (29, 31),
    }  # fmt: skip
    for name, (low, high) in places.items():
        assert getattr(user_header, name) == sum(1 << bit for bit in range(low, high + 1))
    header = UserHeader(flags=0x00_10_00_3D)
    assert (header.hop_count, header.delivery, header.is_transactional) == (0x1D, 1, True)
    assert decode(fixed(0x1F)).hop_count == 0x1F


@pytest.mark.spec("MQMQ-2.2.19.2-15")
def test_dq_has_four_values() -> None:
    names: dict[int, tuple[bytes, QueueName | None]] = {
        0: (b"", None),
        3: (b"\x07\0\0\0", PrivateQueueFormatNameId(7)),
        5: (GUID, PublicQueueFormatName(GUID)),
        7: (DIRECT.encode(), DIRECT),
    }
    for code in range(8):
        if code in names:
            data, name = names[code]
            assert decode(fixed(code << 10) + data).destination_queue == name
        else:
            with pytest.raises(DecodeError, match=f"Flags at offset 44: DQ is {code},"):
                UserHeader.decode(fixed(code << 10) + bytes(64), 0)


@pytest.mark.spec("MQMQ-2.2.19.2-16", "MQMQ-2.2.19.2-17")
def test_aq_has_six_values_and_brings_a_name_for_five() -> None:
    names: dict[int, tuple[bytes, QueueName | None]] = {
        0: (b"", None),
        2: (b"\x07\0\0\0", PrivateQueueFormatNameId(7)),
        3: (b"\x07\0\0\0", PrivateQueueFormatNameId(7)),
        5: (GUID, PublicQueueFormatName(GUID)),
        6: (GUID + b"\x07\0\0\0", PrivateQueueFormatName(GUID, 7)),
        7: (DIRECT.encode(), DIRECT),
    }
    for code in range(8):
        if code in names:
            data, name = names[code]
            assert decode(fixed(code << 13) + data).admin_queue == name
        else:
            with pytest.raises(DecodeError, match=f"Flags at offset 44: AQ is {code},"):
                UserHeader.decode(fixed(code << 13) + bytes(64), 0)


@pytest.mark.spec("MQMQ-2.2.19.2-19")
def test_rq_has_eight_values_and_brings_no_name_for_0_and_1() -> None:
    names: list[tuple[bytes, QueueName | None]] = [
        (b"", None),
        (b"", None),
        (b"\x07\0\0\0", PrivateQueueFormatNameId(7)),
        (b"\x07\0\0\0", PrivateQueueFormatNameId(7)),
        (b"\x07\0\0\0", PrivateQueueFormatNameId(7)),
        (GUID, PublicQueueFormatName(GUID)),
        (GUID + b"\x07\0\0\0", PrivateQueueFormatName(GUID, 7)),
        (DIRECT.encode(), DIRECT),
    ]
    for code, (data, name) in enumerate(names):
        assert decode(fixed(code << 16) + data).response_queue == name


def test_the_source_survives_a_change_of_everything_else() -> None:
    header = decode(fixed(0))
    header.queue_manager_address = GUID
    header.flags = 1
    header.destination_queue = DIRECT
    assert UserHeader.decode(header.encode(), 0)[0].source_queue_manager == SOURCE


def test_the_codes_follow_from_the_names_where_flags_do_not_fit() -> None:
    header = UserHeader(
        destination_queue=DIRECT,
        admin_queue=PrivateQueueFormatNameId(1),
        response_queue=PrivateQueueFormatName(GUID, 2),
    )
    assert UserHeader.decode(header.encode(), 0)[0].flags == 0x200000 | 7 << 10 | 2 << 13 | 6 << 16
    header.flags = 3 << 13 | 1 << 16
    assert UserHeader.decode(header.encode(), 0)[0].flags == 7 << 10 | 3 << 13 | 6 << 16
    header.destination_queue = PrivateQueueFormatName(GUID, 2)
    with pytest.raises(EncodeError, match="PrivateQueueFormatName"):
        header.encode()


@given(user_headers())
def test_every_user_header_survives_the_wire(header: UserHeader) -> None:
    data = header.encode()
    decoded, at = UserHeader.decode(data, 0)
    assert at == len(data)
    assert at % 4 == 0
    assert decoded.encode() == data
    assert decoded == header


@given(user_headers())
def test_a_user_header_that_is_cut_anywhere_is_refused(header: UserHeader) -> None:
    data = header.encode()
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            UserHeader.decode(data[:length], 0)
