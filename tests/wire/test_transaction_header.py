"""MS-MQMQ 2.2.20.5."""

import pytest
from hypothesis import given

from tests.wire.strategies import transaction_headers
from waypost.errors import DecodeError
from waypost.wire import transaction_header, user_header
from waypost.wire.packets import decode_packet
from waypost.wire.transaction_header import IllegalSequenceNumber, TransactionHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

GUID = bytes(range(16))
TWENTY = bytes.fromhex("5e3412ab 11000000 22000000 33000000 44000000")


@pytest.mark.spec("MQMQ-2.2.20.5-01", "MQMQ-2.2.20.5-07", "MQMQ-2.2.20.5-08", "MQMQ-2.2.18-01")
def test_20_bytes_and_a_connector_guid_when_cg_is_set() -> None:
    header, at = TransactionHeader.decode(TWENTY, 0)
    assert at == 20
    assert header == TransactionHeader(0xAB12345E, 0x22_0000_0011, 0x33, 0x44)
    assert header.encode() == TWENTY
    first = TransactionHeader()
    assert (first.tx_sequence_number, first.previous_tx_sequence_number) == (1, 0)


@pytest.mark.spec("MQMQ-2.2.20.5-03", "MQMQ-2.2.20.5-01")
def test_the_connector_guid_is_there_exactly_when_cg_is_set() -> None:
    with_guid = b"\x5f" + TWENTY[1:] + GUID
    header, at = TransactionHeader.decode(with_guid, 0)
    assert (at, header.connector_qm_guid) == (36, GUID)
    assert header.encode() == with_guid
    header.connector_qm_guid = None
    assert header.encode() == TWENTY
    with pytest.raises(DecodeError, match="ConnectorQMGuid at offset 20"):
        TransactionHeader.decode(with_guid[:-1], 0)


@pytest.mark.spec("MQMQ-2.2.20.5-02", "MQMQ-2.2.20.5-04")
def test_the_flags_count_from_the_least_significant_bit() -> None:
    for bit, alone in ((2, (True, False, False)), (4, (False, True, False)), (8, (False, False, True))):
        header, _ = TransactionHeader.decode(bytes([bit, 0, 0, 0]) + TWENTY[4:], 0)
        assert (header.wants_final_ack, header.is_first, header.is_last) == alone
    header, _ = TransactionHeader.decode(bytes.fromhex("6e453202") + TWENTY[4:], 0)
    assert (header.wants_final_ack, header.is_first, header.is_last) == (True, True, True)
    assert header.transaction_id == 0x32456
    none, _ = TransactionHeader.decode(bytes.fromhex("f0ffff00") + TWENTY[4:], 0)
    assert (none.wants_final_ack, none.is_first, none.is_last) == (False, False, False)
    assert none.transaction_id == 0xFFFFF
    x_bits, _ = TransactionHeader.decode(bytes.fromhex("000000ff") + TWENTY[4:], 0)
    assert (x_bits.wants_final_ack, x_bits.is_first, x_bits.is_last, x_bits.transaction_id) == (False, False, False, 0)
    assert x_bits.connector_qm_guid is None
    assert transaction_header.X == 0xFF000000
    assert TransactionHeader().flags & transaction_header.X == 0


@pytest.mark.spec("MQMQ-2.2.20.5-07", "MQMQ-2.2.20.5-08")
@pytest.mark.parametrize(
    ("number", "previous", "complaint"),
    [
        (0, 0, "TxSequenceNumber at offset 15: must be at least 1, not 0"),
        (1, 0xFFFFFFFF, "PreviousTxSequenceNumber at offset 19: must be at most 0xFFFFFFFE, not 0xFFFFFFFF"),
    ],
)
def test_a_number_outside_its_range_is_refused(number: int, previous: int, complaint: str) -> None:
    data = b"..." + TransactionHeader(0, 1 << 32, number, previous).encode()
    with pytest.raises(IllegalSequenceNumber, match=complaint):
        TransactionHeader.decode(data, 3)
    header, at = TransactionHeader.read(data, 3)
    assert (header.tx_sequence_number, header.previous_tx_sequence_number, at) == (number, previous, len(data))
    packet = UserMessage(user=UserHeader(flags=user_header.MP | 1 << user_header.DM_SHIFT), transaction=header)
    with pytest.raises(IllegalSequenceNumber, match=f"SequenceNumber at offset {76 if number == 0 else 80}"):
        decode_packet(packet.encode())
    assert UserMessage.decode(packet.encode()).transaction == header, "a packet that was stored is read"


def test_the_ends_of_the_ranges_are_accepted() -> None:
    for number, previous in ((1, 0), (0xFFFFFFFF, 0xFFFFFFFE)):
        header = TransactionHeader(0, 1 << 32, number, previous)
        assert TransactionHeader.decode(header.encode(), 0) == (header, 20)


@given(transaction_headers)
def test_every_header_survives_the_wire(header: TransactionHeader) -> None:
    data = header.encode()
    decoded, at = TransactionHeader.decode(data, 0)
    assert at == len(data)
    assert decoded.encode() == data
    assert decoded.tx_sequence_id == header.tx_sequence_id
    with pytest.raises(DecodeError):
        TransactionHeader.decode(data[:-1], 0)
