"""MS-MQMQ 2.2.5, 2.2.8, 2.2.10, 2.2.18.1.2, 2.2.18.1.3 and 2.2.18.1.8."""

from ipaddress import IPv4Address
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError
from waypost.guid import parse_guid
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import (
    TIME_STAMP_SHIFT,
    MessageIdentifier,
    MulticastId,
    ObjectId,
    SequenceInfo,
    TxSequenceId,
    XactUow,
)
from waypost.wire.management import EodState, QueueLocation, QueueManagement, QueueType, queue_properties
from waypost.wire.queue_format import QueueFormat
from waypost.wire.variant_types import VarType

GUID = parse_guid("00112233-4455-6677-8899-aabbccddeeff")
GUID_BYTES = bytes.fromhex("33221100 5544 7766 8899aabbccddeeff")

guids = st.binary(min_size=16, max_size=16)
dwords = st.integers(0, 0xFFFF_FFFF)
packets = st.one_of(
    st.builds(ObjectId, guids, dwords),
    st.builds(MessageIdentifier, guids, dwords),
    st.builds(TxSequenceId, dwords, dwords),
    st.builds(SequenceInfo, st.integers(-(1 << 63), (1 << 63) - 1), dwords, dwords),
    st.builds(XactUow, guids),
)


@given(packets, st.binary(max_size=8), st.binary(max_size=8))
def test_every_identifier_comes_back_from_its_bytes(
    record: ObjectId | MessageIdentifier | TxSequenceId | SequenceInfo | XactUow, before: bytes, behind: bytes
) -> None:
    data = record.encode()
    assert type(record).decode(before + data + behind, len(before)) == (record, len(before) + len(data))
    with pytest.raises(DecodeError):
        type(record).decode(before + data[:-1], len(before))


@pytest.mark.spec("MQMQ-2.2.8-01")
def test_an_object_id_is_a_lineage_and_a_uniquifier_for_queues_and_messages_alike() -> None:
    data = GUID_BYTES + bytes.fromhex("0d000000")
    assert len(data) == 20
    assert ObjectId.decode(data, 0) == (ObjectId(lineage=GUID, uniquifier=13), 20)
    assert ObjectId(GUID, 13).encode() == MessageIdentifier(GUID, 13).encode() == data
    private = FormatName.parse("PRIVATE=00112233-4455-6677-8899-aabbccddeeff\\0000000d")
    assert QueueFormat.from_format_name(private).arm == ObjectId(GUID, 13)


@pytest.mark.spec("MQMQ-2.2.18.1.3-01")
def test_a_message_identifier_is_the_guid_of_the_sender_and_an_ordinal() -> None:
    data = GUID_BYTES + bytes.fromhex("78563412")
    assert MessageIdentifier.decode(data, 0) == (MessageIdentifier(queue_manager_guid=GUID, ordinal=0x12345678), 20)
    assert MessageIdentifier(GUID, 0x12345678).encode() == data


def test_a_message_identifier_prints_as_braced_guid_and_decimal_ordinal() -> None:
    assert str(MessageIdentifier(GUID, 4097)) == "{00112233-4455-6677-8899-aabbccddeeff}\\4097"


@given(guids, dwords)
def test_a_printed_message_identifier_is_parsed_back(guid: bytes, ordinal: int) -> None:
    identifier = MessageIdentifier(guid, ordinal)
    assert MessageIdentifier.parse(str(identifier)) == identifier
    assert MessageIdentifier.parse(str(identifier).replace("{", "").replace("}", "")) == identifier


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{00112233-4455-6677-8899-aabbccddeeff}",
        "{00112233-4455-6677-8899-aabbccddeeff}\\",
        "{00112233-4455-6677-8899-aabbccddeeff}\\4294967296",
        "{00112233-4455-6677-8899-aabbccddeeff}\\-1",
        "{00112233-4455-6677-8899-aabbccddeeff}\\01",
        "{00112233-4455-6677-8899-aabbccddeeff}\\1\n",
        "{00112233-4455-6677-8899-aabbccddeeff}\\\u0661",
        "{00112233-4455-6677-8899-aabbccddeef}\\1",
        "\\1",
    ],
)
def test_other_text_is_no_message_identifier(text: str) -> None:
    with pytest.raises(DecodeError):
        MessageIdentifier.parse(text)


@pytest.mark.spec("MQMQ-2.2.18.1.2-01")
def test_a_tx_sequence_id_is_ordinal_then_time_stamp_each_of_any_value() -> None:
    sequence_id, at = TxSequenceId.decode(bytes.fromhex("04030201 08070605"), 0)
    assert (sequence_id.ordinal, sequence_id.time_stamp, at) == (0x01020304, 0x05060708, 8)
    for ordinal in (0, 0xFFFF_FFFF):
        for time_stamp in (0, 0xFFFF_FFFF):
            data = ordinal.to_bytes(4, "little") + time_stamp.to_bytes(4, "little")
            assert TxSequenceId.decode(data, 0) == (TxSequenceId(ordinal, time_stamp), 8)
            assert TxSequenceId(ordinal, time_stamp).encode() == data


@pytest.mark.spec("MQMQ-2.2.18.1.2-02")
def test_tx_sequence_ids_compare_unsigned_with_the_time_stamp_above_the_ordinal() -> None:
    rising = [
        TxSequenceId(ordinal=0, time_stamp=0),
        TxSequenceId(ordinal=0x7FFF_FFFF, time_stamp=0),
        TxSequenceId(ordinal=0xFFFF_FFFF, time_stamp=0),
        TxSequenceId(ordinal=0, time_stamp=1),
        TxSequenceId(ordinal=5, time_stamp=0x7FFF_FFFF),
        TxSequenceId(ordinal=4, time_stamp=0x8000_0000),
        TxSequenceId(ordinal=0xFFFF_FFFF, time_stamp=0xFFFF_FFFF),
    ]
    for lower, higher in pairwise(rising):
        assert lower < higher
        assert lower <= higher
        assert higher > lower
        assert higher >= lower
        assert lower != higher
    falling = rising[::-1]
    assert sorted(falling) == rising
    assert TxSequenceId(ordinal=0x01020304, time_stamp=0x85060708).value == 0x85060708_01020304


@pytest.mark.spec("MQMQ-2.2.5-01", "MQMQ-2.2.5.1-01")
def test_sequence_info_is_a_signed_id_a_number_and_the_number_before_it_in_16_bytes() -> None:
    data = bytes.fromhex("feffffffffffffff 04030201 fdffffff")
    info = SequenceInfo(seq_id=-2, seq_no=0x01020304, prev_no=0xFFFF_FFFD)
    assert len(data) == 16
    assert SequenceInfo.decode(data, 0) == (info, 16)
    assert info.encode() == data


@pytest.mark.spec("MQMQ-2.2.5.1-01")
def test_sequence_info_is_the_blob_of_the_exactly_once_properties() -> None:
    infos = [SequenceInfo(seq_id=1 << 40, seq_no=number, prev_no=number - 1) for number in (5, 6, 8, 9)]
    eod = EodState(last_ack=infos[0], first_non_ack=infos[1], last_non_ack=infos[2], next_seq=infos[3])
    queue = QueueManagement(
        "",
        "DIRECT=OS:host\\q",
        QueueType.MGMT_QUEUE_TYPE_PUBLIC,
        QueueLocation.MGMT_QUEUE_REMOTE_LOCATION,
        eod=eod,
    )
    blobs = [
        value.value for prop, value in queue_properties(queue) if "_EOD_" in prop.name and value.vt == VarType.VT_BLOB
    ]
    assert blobs == [info.encode() for info in infos]


@pytest.mark.spec("MQMQ-2.2.18.1.8-01")
def test_a_unit_of_work_is_the_16_bytes_of_a_guid() -> None:
    assert XactUow.decode(GUID_BYTES, 0) == (XactUow(rgb=GUID), 16)
    assert XactUow(GUID).encode() == GUID_BYTES
    with pytest.raises(DecodeError, match="XACTUOW"):
        XactUow.decode(GUID_BYTES[:15], 0)


def test_identifiers_are_keys() -> None:
    assert len({TxSequenceId(1, 2), TxSequenceId(1, 2), TxSequenceId(2, 1)}) == 2
    assert len({MessageIdentifier(GUID, 1), MessageIdentifier(GUID, 1), ObjectId(GUID, 1)}) == 2


def test_the_first_octet_of_a_multicast_address_is_its_lowest_byte() -> None:
    address = IPv4Address("234.1.2.3")
    multicast = MulticastId.of(address, 8001)
    assert multicast == MulticastId(address=0x030201EA, port=8001)
    assert multicast.ip_address == address


def test_a_stream_past_2038_has_a_negative_seq_id() -> None:
    for time_stamp, seq_id in ((0x7FFF_FFFF, 0x7FFF_FFFF_0000_0001), (0x8000_0000, -0x7FFF_FFFF_FFFF_FFFF)):
        stream = TxSequenceId(ordinal=1, time_stamp=time_stamp)
        info = SequenceInfo.of(stream, seq_no=5, prev_no=4)
        assert info == SequenceInfo(seq_id, 5, 4)
        assert info.encode()[:8] == stream.encode()


@pytest.mark.parametrize(
    "record",
    [
        ObjectId(GUID, 1 << 32),
        MessageIdentifier(GUID, -1),
        TxSequenceId(ordinal=1, time_stamp=1 << 32),
        SequenceInfo(seq_id=1 << 63, seq_no=1, prev_no=0),
        SequenceInfo(seq_id=1, seq_no=1 << 32, prev_no=0),
    ],
)
def test_a_number_that_does_not_fit_cannot_be_written(
    record: ObjectId | MessageIdentifier | TxSequenceId | SequenceInfo,
) -> None:
    with pytest.raises(EncodeError, match="a value does not fit its field"):
        record.encode()


@given(st.builds(TxSequenceId, dwords, dwords))
def test_a_sequence_id_is_found_again_from_its_number(identifier: TxSequenceId) -> None:
    assert TxSequenceId.of(identifier.value) == identifier
    assert identifier.value >> TIME_STAMP_SHIFT == identifier.time_stamp
