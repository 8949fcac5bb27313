"""The vectorised decoder against the codec of waypost.wire, packet by packet."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arrow.oracle import MESSAGE, expected
from tests.wire.strategies import guids, texts, user_messages
from tests.wire.vectors import VECTORS, frame, vector
from waypost.arrow import schema
from waypost.arrow.decoder import decode
from waypost.arrow.names import Distinct
from waypost.arrow.packets import ATTRIBUTES, MAX_BYTES, OnMalformed, Packets
from waypost.client.message import Message
from waypost.core.serialization import message_from_packet
from waypost.errors import DecodeError, InvalidParameter
from waypost.guid import guid_text
from waypost.wire.base_header import BaseHeader
from waypost.wire.debug_header import DebugHeader
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
)
from waypost.wire.security_header import SecurityHeader
from waypost.wire.soap import CompoundMessageHeader, SrmpEnvelopeHeader
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_header import AQ_SHIFT, DM_SHIFT, RQ_SHIFT, UserHeader
from waypost.wire.user_message import UserMessage

RECOVERABLE = 1 << DM_SHIFT
SID = bytes.fromhex("010500000000000515000000") + bytes(range(16))
HERE, THERE, ELSEWHERE = b"h" * 16, b"t" * 16, b"e" * 16


def rows(packets: Sequence[bytes], columns: Sequence[str] = (*MESSAGE, "packet_error")) -> list[dict[str, object]]:
    batch = decode(Packets.of(packets), columns, on_malformed=OnMalformed.QUARANTINE)
    batch.validate(full=True)
    assert batch.schema == pa.schema([schema.ALL.field(name) for name in columns])
    found: list[dict[str, object]] = batch.to_pylist()
    return found


def assert_equals_the_codec(packets: Sequence[bytes]) -> None:
    for packet, row in zip(packets, rows(packets), strict=True):
        wanted = expected(packet)
        error = row.pop("packet_error")
        if wanted is None:
            assert error
            assert not any(value is not None for value in row.values())
        else:
            assert error is None
            assert row == wanted


def plain(label: str = "label", body: bytes = b"body") -> UserMessage:
    return UserMessage(
        base=BaseHeader(time_to_reach_queue=345_600),
        user=UserHeader(HERE, sent_time=1_700_000_000, message_id=7, destination_queue=direct("server")),
        properties=MessagePropertiesHeader(label=label, message_body=body),
    )


def direct(host: str) -> DirectQueueFormatName:
    return DirectQueueFormatName(f"OS:{host}\\private$\\orders")


def usual() -> dict[str, UserMessage]:
    """The shapes that most messages have."""
    transactional = replace(plain(), transaction=TransactionHeader(0x1234C, 1 << 40, 2, 1))
    transactional.user.flags |= RECOVERABLE
    signed = replace(plain(), security=SecurityHeader(1, SID))
    asking = plain()
    asking.user.admin_queue = PrivateQueueFormatNameId(3)
    asking.user.response_queue = direct("client")
    asking.properties.correlation_id = bytes(range(20))
    asking.properties.extension_data = b"extension"
    relayed = replace(plain(), security=SecurityHeader(2, THERE))
    traced = replace(plain(), base=BaseHeader(flags=0x0105), debug=DebugHeader(queue_identifier=THERE))
    return {
        "plain": plain(),
        "no label": plain(""),
        "transactional": transactional,
        "signed": signed,
        "signed by a queue manager": relayed,
        "asking": asking,
        "traced": traced,
        "wide characters": plain("Żółw 🐢", b""),
    }


def test_the_columns_say_what_a_message_says() -> None:
    packets = [message.encode() for message in usual().values()]
    for packet, row in zip(packets, rows(packets), strict=True):
        message = Message(message_from_packet(UserMessage.decode(packet)))
        assert row["label"] == message.label
        assert row["body"] == message.body
        assert row["priority"] == message.priority
        assert row["transactional"] == message.transactional
        assert row["xact_first"] == message.first_in_transaction
        assert row["xact_last"] == message.last_in_transaction
        assert row["trace"] == (message.trace is not None)
        assert row["dest_queue"] == message.destination_queue
        assert row["admin_queue"] == message.admin_queue
        assert row["response_queue"] == message.response_queue
        assert row["source_qm"] == message.source_machine
        assert row["sent_time"] == message.sent_time
        assert row["time_to_reach_queue"] == message.time_to_reach_queue
        assert row["time_to_be_received"] == message.time_to_be_received
        assert row["extension"] == message.extension
        assert row["app_specific"] == message.app_tag
        assert (row["correlation_id"] is None) == (message.correlation_id is None)
        assert (row["sender_id"] is None) == (message.sender_sid is None)


def test_the_values_of_a_usual_message() -> None:
    transactional, signed, asking = rows([usual()[name].encode() for name in ("transactional", "signed", "asking")])
    assert transactional["message_id"] == HERE + b"\7\0\0\0"
    assert transactional["xact_id"] == HERE + 0x1234.to_bytes(4, "little")
    assert (transactional["xact_first"], transactional["xact_last"]) == (True, True)
    assert (transactional["delivery"], transactional["priority"]) == (1, 0)
    assert transactional["sent_time"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert transactional["time_to_reach_queue"] == 345_600
    assert transactional["time_to_be_received"] is None
    assert transactional["dest_queue"] == "DIRECT=OS:server\\PRIVATE$\\orders"
    assert signed["sender_id"] == SID
    assert (signed["xact_id"], signed["correlation_id"], signed["priority"]) == (None, None, 3)
    assert asking["admin_queue"] == "PRIVATE=68686868-6868-6868-6868-686868686868\\00000003"
    assert asking["response_queue"] == "DIRECT=OS:client\\PRIVATE$\\orders"
    assert asking["correlation_id"] == bytes(range(20))
    assert asking["extension"] == b"extension"


NAMES: dict[int, QueueName | None] = {
    0: None,
    1: None,
    2: PrivateQueueFormatNameId(2),
    3: PrivateQueueFormatNameId(3),
    4: PrivateQueueFormatNameId(4),
    5: PublicQueueFormatName(b"p" * 16),
    6: PrivateQueueFormatName(ELSEWHERE, 6),
    7: DirectQueueFormatName("TCP:192.0.2.1\\q"),
}


def test_every_kind_of_name_in_every_place() -> None:
    packets = []
    for destination in (0, 3, 5, 7):
        for admin in (0, 2, 3, 5, 6, 7):
            for response in range(8):
                message = plain()
                message.user = UserHeader(
                    HERE,
                    THERE,
                    flags=0x200000 | admin << AQ_SHIFT | response << RQ_SHIFT,
                    destination_queue=NAMES[destination],
                    admin_queue=NAMES[admin],
                    response_queue=NAMES[response],
                )
                packets.append(message.encode())
    assert_equals_the_codec(packets)
    assert_equals_the_codec(packets[::-1])


def test_a_response_queue_on_the_host_of_no_known_queue_manager_is_unknown() -> None:
    message = plain()
    message.user.flags |= 5 << AQ_SHIFT | 4 << RQ_SHIFT
    message.user.admin_queue, message.user.response_queue = NAMES[5], NAMES[4]
    (row,) = rows([message.encode()])
    assert row["response_queue"] == "UNKNOWN=\\00000004"
    assert row["packet_error"] is None


def test_a_direct_name_that_is_not_understood_is_shown_as_unknown() -> None:
    message = plain()
    message.user.destination_queue = DirectQueueFormatName("IPX:what\ud800ever")
    (row,) = rows([message.encode()])
    assert row["dest_queue"] == "UNKNOWN=IPX:what\ufffdever"


@settings(max_examples=25, deadline=None)
@given(st.lists(user_messages(), max_size=6))
def test_any_messages_give_what_the_codec_says(messages: list[UserMessage]) -> None:
    assert_equals_the_codec([message.encode() for message in messages])


@settings(max_examples=25, deadline=None)
@given(st.lists(user_messages(), min_size=1, max_size=4), st.data())
def test_damaged_messages_are_malformed_exactly_if_the_codec_refuses_them(
    messages: list[UserMessage], data: st.DataObject
) -> None:
    packets = []
    for message in messages:
        packet = bytearray(message.encode())
        for _ in range(data.draw(st.integers(0, 3))):
            packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
        packets.append(bytes(packet))
    assert_equals_the_codec(packets)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_bytes_are_messages_exactly_if_the_codec_takes_them(packets: list[bytes]) -> None:
    assert_equals_the_codec(packets)
    start = plain().encode()[:64]
    assert_equals_the_codec(
        [start[:8] + (64 + len(rest)).to_bytes(4, "little") + start[12:64] + rest for rest in packets]
    )


@pytest.mark.parametrize("name", usual())
def test_a_packet_cut_anywhere_is_malformed_and_its_neighbours_are_not(name: str) -> None:
    packet = usual()[name].encode()
    whole = plain().encode()
    packets = [part for size in range(len(packet)) for part in (packet[:size], whole)]
    assert_equals_the_codec(packets)
    assert_equals_the_codec([packet[:8] + size.to_bytes(4, "little") + packet[12:size] for size in range(len(packet))])


@pytest.mark.parametrize("name", usual())
def test_every_single_byte_changed(name: str) -> None:
    packet = usual()[name].encode()
    for change in (0x01, 0x10, 0x80, 0xFF):
        assert_equals_the_codec(
            [packet[:at] + bytes([packet[at] ^ change]) + packet[at + 1 :] for at in range(len(packet))]
        )


def test_the_packets_that_nobody_of_this_project_made() -> None:
    packets = [path.read_bytes() for path in sorted(VECTORS.glob("*.bin"))] + [frame(7)]
    assert_equals_the_codec(packets)
    whole, over_http = rows([frame(7), vector("srmp-user-message")])
    assert whole["body_size"] == len(whole["body"])  # type: ignore[arg-type]
    assert over_http["packet_error"] is None
    assert over_http["body"]


def test_a_packet_between_queue_managers_is_no_user_message() -> None:
    packets = [frame(3), frame(5), b"", b"\0" * 16]
    errors = [row["packet_error"] for row in rows(packets)]
    assert all("not a user message" in str(error) for error in errors[:2])
    assert "the data ends after 0 bytes of this field" in str(errors[2])
    assert "VersionNumber" in str(errors[3])


def test_the_first_malformed_packet_fails_the_whole() -> None:
    good = plain().encode()
    packets = Packets.of([good, good[:-1], b""])
    with pytest.raises(DecodeError, match="of packet 1 at offset"):
        decode(packets, ["label"], on_malformed=OnMalformed.FAIL)
    known = replace(packets, queue="DIRECT=OS:a\\b", lookup_ids=np.array([1, 2, 3], np.uint64))
    with pytest.raises(DecodeError, match="of packet 1 with the lookup id 2 of DIRECT=OS:a"):
        decode(known, ["label"], on_malformed=OnMalformed.FAIL)


def test_null_and_quarantine_differ_in_the_reason_only() -> None:
    packets = Packets.of([b"nonsense", plain().encode()])
    columns = ["label", "packet_error", "packet", "body"]
    null = decode(packets, columns, on_malformed=OnMalformed.NULL).to_pylist()
    quarantine = decode(packets, columns, on_malformed=OnMalformed.QUARANTINE).to_pylist()
    assert null[0] == {"label": None, "packet_error": None, "packet": b"nonsense", "body": None}
    assert quarantine[0] == {
        **null[0],
        "packet_error": "BaseHeader at offset 0: the data ends after 8 bytes of this field (MS-MQMQ 2.2.19.1)",
    }
    assert null[1] == quarantine[1]
    assert null[1]["label"] == "label"


def test_the_columns_come_in_the_order_that_was_asked_for() -> None:
    packets = Packets.of([message.encode() for message in usual().values()])
    whole = decode(packets, MESSAGE, on_malformed=OnMalformed.FAIL)
    for columns in (["body"], ["label", "seq", "message_id"], ["packet", "hop_count"], MESSAGE[::-1]):
        batch = decode(packets, columns, on_malformed=OnMalformed.FAIL)
        assert batch.schema.names == columns
        for name in set(columns) & set(MESSAGE):
            assert batch[name].equals(whole[name])


def test_an_unknown_column_is_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="unknown column 'lable'"):
        decode(Packets.of([]), ["label", "lable"], on_malformed=OnMalformed.FAIL)


def test_no_packets_give_an_empty_batch() -> None:
    batch = decode(Packets.of([]), [*MESSAGE, "seq", "packet"], on_malformed=OnMalformed.FAIL)
    assert batch.num_rows == 0
    assert batch.schema.field("sent_time").type == schema.TIMESTAMP


PLACE = [field.name for field in schema.PLACE]


def test_what_the_queue_manager_knows_stands_beside_the_packet_even_of_a_malformed_one() -> None:
    attributes = np.zeros(2, ATTRIBUTES)
    attributes["authentication_level"] = (0, 3)
    attributes["arrival_time"] = 1_700_000_000
    attributes["abort_count"] = (0, 0xFFFFFFFF)
    attributes["move_count"] = 4
    packets = replace(
        Packets.of([plain().encode(), b"nonsense"]),
        queue="DIRECT=OS:.\\private$\\orders",
        lookup_ids=np.array([0x0300000000000001, 0xFF00000000000002], np.uint64),
        attributes=attributes,
    )
    batch = decode(packets, [*PLACE, "label"], on_malformed=OnMalformed.NULL)
    batch.validate(full=True)
    assert batch.to_pylist()[1] == {
        "queue": "DIRECT=OS:.\\private$\\orders",
        "seq": 2,
        "lookup_id": 0xFF00000000000002 - (1 << 64),
        "arrived_time": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        "abort_count": 0xFFFFFFFF,
        "move_count": 4,
        "authenticated": True,
        "label": None,
    }
    assert batch["seq"].to_pylist() == [1, 2]
    assert batch["authenticated"].to_pylist() == [False, True]


def test_packets_from_elsewhere_have_no_place() -> None:
    (row,) = rows([plain().encode()], PLACE)
    assert set(row.values()) == {None}


def test_packets_are_not_opened_for_what_stands_beside_them() -> None:
    batch = decode(Packets.of([b"nonsense"]), ["packet", "seq"], on_malformed=OnMalformed.FAIL)
    assert batch.to_pylist() == [{"packet": b"nonsense", "seq": None}]


@pytest.mark.parametrize("offsets", [[], [-1, 5], [0, 5, 4], [0, 9], [3, 2]])
def test_offsets_that_do_not_cut_the_data_are_refused(offsets: list[int]) -> None:
    packets = Packets(np.zeros(8, np.uint8), np.array(offsets, np.int32))
    with pytest.raises(DecodeError, match="offsets"):
        decode(packets, ["packet"], on_malformed=OnMalformed.NULL)


def test_packets_of_an_arrow_array_are_those_of_its_values() -> None:
    packets = [plain("one").encode(), None, plain("two").encode()]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        array = pa.array([b"before", *packets, b"behind"], kind)[1:4]
        batch = decode(Packets.of_array(array), ["label", "packet"], on_malformed=OnMalformed.NULL)
        assert batch["label"].to_pylist() == ["one", None, "two"]
        assert batch["packet"].to_pylist() == [packets[0], b"", packets[2]]
    assert len(Packets.of_array(pa.array([], pa.binary()))) == 0
    with pytest.raises(InvalidParameter, match="must be a binary array, not int64"):
        Packets.of_array(pa.array([1, 2]))


def test_packets_are_refused_that_could_not_be_counted_as_text() -> None:
    count = MAX_BYTES // 0x0100_0000 + 1
    offsets = np.arange(count + 1, dtype=np.int32) * 0x0100_0000
    # Nothing is read of it: the zeros have no memory until they are.
    packets = Packets(np.zeros(int(offsets[-1]), np.uint8), offsets)
    with pytest.raises(InvalidParameter, match="all packets together must not be larger than"):
        decode(packets, ["label"], on_malformed=OnMalformed.NULL)


def test_no_columns_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="the list of columns is empty; choose columns from"):
        decode(Packets.of([plain().encode()]), [], on_malformed=OnMalformed.NULL)


def test_names_whose_hashes_are_alike_are_told_apart() -> None:
    first, second, wrap = 11400714785074694791, 14029467366897019727, 1 << 64
    names = [
        each.to_bytes(8, "little") + (pow(first, -1, wrap) * second * each % wrap).to_bytes(8, "little")
        for each in range(1, 6001)
    ]
    packets = []
    for name in names:
        message = plain()
        message.user.source_queue_manager = name
        packets.append(message.encode())
    assert [row["source_qm"] for row in rows(packets, ["source_qm"])] == [guid_text(name) for name in names]


def test_no_more_names_are_compared_with_each_other_than_a_slice_has() -> None:
    """Arrow compares names whose hashes are alike, each with every other of one call."""
    encoded = []

    class Keys:
        def __init__(self, names: pa.Array) -> None:
            self._names = names

        def __len__(self) -> int:
            return len(self._names)

        def slice(self, start: int, length: int) -> pa.Array:
            encoded.append(min(length, len(self) - start))
            return self._names.slice(start, length)

    column = Distinct(9000)
    column.put(np.arange(9000), Keys(pa.array([b"same"] * 9000)), bytes.decode)
    assert encoded == [4096, 4096, 808]
    assert column.strings(None).to_pylist() == ["same"] * 9000


def test_reports_are_asked_for_by_a_flag_and_not_by_the_name_of_a_queue() -> None:
    named = replace(plain(), base=BaseHeader(flags=0x0003), debug=DebugHeader(queue_identifier=THERE))
    assert [row["trace"] for row in rows([named.encode(), usual()["traced"].encode()])] == [False, True]


def test_the_body_of_a_message_over_http_lies_in_the_compound_message_behind_other_headers() -> None:
    message = replace(
        plain(body=b""),
        base=BaseHeader(flags=0x0105),
        debug=DebugHeader(queue_identifier=THERE),
        security=SecurityHeader(1, SID),
        srmp_envelope=SrmpEnvelopeHeader(data="x"),
        compound_message=CompoundMessageHeader(msg_body_size=4, msg_body_offset=11, data=b"POST /msmq body"),
    )
    packet = message.encode()
    assert rows([packet, packet], ["body"]) == [{"body": b"body"}] * 2
    assert_equals_the_codec([packet])


@settings(max_examples=60, deadline=None)
@given(st.lists(texts | st.text(max_size=40).map(lambda text: text.replace("\0", "")), min_size=1), guids)
def test_labels_of_any_letters(labels: list[str], source: bytes) -> None:
    packets = []
    for label in labels:
        message = plain(label)
        message.user.source_queue_manager = source
        packets.append(message.encode())
    assert_equals_the_codec(packets)


def test_halves_of_a_surrogate_pair_in_successive_labels_stay_apart() -> None:
    packets = [
        plain(label).encode()
        for label in (
            "\ud83d",
            "\udc22",
            "\ud83d\ud83d\udc22\udc22".encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"),
        )
    ]
    assert [row["label"] for row in rows(packets)] == ["\ufffd", "\ufffd", "\ufffd\U0001f422\ufffd"]


def test_the_body_of_an_encrypted_message_is_its_ciphertext() -> None:
    message = replace(plain(body=b"four"), security=SecurityHeader(0x0021, SID, b"key"))
    message.properties.allocation_remainder = b" and padding"
    (row,) = rows([message.encode()], ["body", "body_size", "body_text", "body_kind"])
    assert row == {"body": b"four and padding", "body_size": 16, "body_text": None, "body_kind": "encrypted"}


def test_body_texts_come_with_the_other_columns_and_are_null_for_a_malformed_packet() -> None:
    columns = ["body_error", "body", "body_text", "body_kind"]
    text, nothing = rows([plain(body=b"<a/>").encode(), b"nonsense"], columns)
    assert text == {"body_error": None, "body": b"<a/>", "body_text": "<a/>", "body_kind": "xml"}
    assert set(nothing.values()) == {None}
