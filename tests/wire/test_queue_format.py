"""MS-MQMQ 2.2.6 to 2.2.11 in NDR, and what MS-MQRR takes of it.

The constants marked "second marshaller" are what scapy 2.8.0 with scapy-rpc 0.0.8 made of the same values; those marked
"third" are from impacket 0.13.1, with its own referent numbers and its own bytes in the gaps.
"""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError, IllegalFormatName, InvalidParameter
from waypost.wire.format_names import FormatName, MulticastFormatName, Suffix
from waypost.wire.identifiers import DlId, MulticastId, ObjectId
from waypost.wire.ndr import I16, NdrReader, NdrSyntax, NdrWriter
from waypost.wire.propid import QueueProperty
from waypost.wire.propvariant import PropVariant
from waypost.wire.queue_format import Arm, QueueFormat, QueueFormatType, remote_read_name
from waypost.wire.variant_types import VarType

NDR20, NDR64 = NdrSyntax.NDR20, NdrSyntax.NDR64
QFT = QueueFormatType
GUID = bytes(range(16))
GUID_TEXT = "03020100-0504-0706-0809-0a0b0c0d0e0f"

# The type, its arm, NDR 2.0 (second marshaller) and NDR64 (second marshaller for those with a pointer).
FORMS: list[tuple[QueueFormatType, Arm, str, str]] = [
    (QFT.UNKNOWN, None, "00000000 00", "0000000000000000 0000000000000000"),
    (QFT.PUBLIC, GUID, "01000000 01000000" + GUID.hex(), "0100000000000000 0100000000000000" + GUID.hex()),
    (
        QFT.PRIVATE,
        ObjectId(GUID, 7),
        "02000000 02000000" + GUID.hex() + "07000000",
        "0200000000000000 0200000000000000" + GUID.hex() + "07000000 00000000",
    ),
    (
        QFT.DIRECT,
        "OS:h\\q",
        "03000000 03000000 00000200 07000000 00000000 07000000 4f0053003a0068005c0071000000",
        "0300000000000000 0300000000000000 0000020000000000 0700000000000000 0000000000000000 0700000000000000"
        "4f0053003a0068005c0071000000",
    ),
    (QFT.MACHINE, GUID, "04000000 04000000" + GUID.hex(), "0400000000000000 0400000000000000" + GUID.hex()),
    (QFT.CONNECTOR, GUID, "05000000 05000000" + GUID.hex(), "0500000000000000 0500000000000000" + GUID.hex()),
    (
        QFT.DL,
        DlId(GUID, "corp"),
        "06000000 06000000" + GUID.hex() + "00000200 05000000 00000000 05000000 63006f00720070000000",
        "0600000000000000 0600000000000000" + GUID.hex() + "0000020000000000"
        "0500000000000000 0000000000000000 0500000000000000 63006f00720070000000",
    ),
    (
        QFT.MULTICAST,
        MulticastId(0x010203EE, 8080),
        "07000000 07000000 ee030201 901f0000",
        "0700000000000000 0700000000000000 ee030201 901f0000",
    ),
    (
        QFT.SUBQUEUE,
        "OS:h\\q;s",
        "08000000 08000000 00000200 09000000 00000000 09000000 4f0053003a0068005c0071003b0073000000",
        "0800000000000000 0800000000000000 0000020000000000 0900000000000000 0000000000000000 0900000000000000"
        "4f0053003a0068005c0071003b0073000000",
    ),
]


def encode(record: QueueFormat, syntax: NdrSyntax) -> bytes:
    writer = NdrWriter(syntax)
    record.write(writer)
    return writer.finish()


def decode(data: bytes, syntax: NdrSyntax) -> QueueFormat:
    reader = NdrReader(data, syntax)
    record = QueueFormat.read(reader)
    reader.finish()
    return record


def of_text(text: str) -> QueueFormat:
    return QueueFormat.from_format_name(FormatName.parse(text))


@pytest.mark.spec("MQMQ-2.2.6-01")
def test_the_queue_format_types() -> None:
    names = ["UNKNOWN", "PUBLIC", "PRIVATE", "DIRECT", "MACHINE", "CONNECTOR", "DL", "MULTICAST", "SUBQUEUE"]
    assert {member.name: member.value for member in QueueFormatType} == {name: at for at, name in enumerate(names)}


@pytest.mark.spec("MQMQ-2.2.7-01")
@pytest.mark.parametrize(("qft", "arm", "narrow", "wide"), FORMS)
def test_the_union_has_the_arm_of_its_type(qft: QueueFormatType, arm: Arm, narrow: str, wide: str) -> None:
    record = QueueFormat(qft, arm=arm)
    assert record.m_reserved == 0
    for syntax, text in ((NDR20, narrow), (NDR64, wide)):
        data = bytes.fromhex(text)
        assert encode(record, syntax) == data
        assert decode(data, syntax) == record


@pytest.mark.spec("MQMQ-2.2.7-01")
def test_m_reserved_is_carried_without_meaning_and_sent_as_0() -> None:
    data = bytes.fromhex("01 00 cdab 01000000" + GUID.hex())
    record = decode(data, NDR20)
    assert record.m_reserved == 0xABCD
    assert record.to_format_name() == FormatName.parse(f"PUBLIC={GUID_TEXT}")
    assert encode(of_text(f"PUBLIC={GUID_TEXT}"), NDR20)[2:4] == b"\0\0"


@pytest.mark.spec("MQMQ-2.2.7-01")
@pytest.mark.parametrize("syntax", NdrSyntax)
def test_a_type_outside_0_to_8_is_refused(syntax: NdrSyntax) -> None:
    for qft in range(9, 256):
        with pytest.raises(DecodeError, match=f"m_qft at offset 0: must be 0 to 8, not {qft}"):
            decode((bytes([qft]) + bytes(7)) * 2 + bytes(32), syntax)


@pytest.mark.spec("MQMQ-5-01")
def test_the_idl_types_have_their_widths_and_an_unknown_queue_format_no_arm() -> None:
    assert encode(QueueFormat(), NDR20) == bytes.fromhex("00 00 0000 00")
    with pytest.raises(EncodeError, match="cannot hold a bytes"):
        encode(QueueFormat(QFT.UNKNOWN, arm=GUID), NDR20)
    # Both unions repeat their switch: one octet of m_qft, the short vt. Another tag is refused.
    with pytest.raises(DecodeError, match="tag at offset 4: must be 0, the switch of the union, not 1"):
        decode(bytes.fromhex("00 00 0000 01"), NDR20)
    boolean = PropVariant(VarType.VT_BOOL, True).encode()
    assert boolean == bytes.fromhex("0b00 00 00 00000000 0b00 ffff")
    with pytest.raises(DecodeError, match="tag at offset 8: must be 11, the switch of the union, not 12"):
        PropVariant.decode(boolean[:8] + b"\x0c" + boolean[9:])
    assert NdrReader(boolean[10:], NDR20).integer(I16, "VARIANT_BOOL") == -1
    for syntax in NdrSyntax:
        writer = NdrWriter(syntax)
        writer.u32(QueueProperty.PROPID_Q_PATHNAME, "PROPID")
        assert writer.finish() == bytes.fromhex("67000000")


@pytest.mark.spec("MQMQ-2.2.9-01")
def test_a_dl_id_is_a_guid_and_a_pointer_to_its_domain() -> None:
    data = encode(QueueFormat(QFT.DL, arm=DlId(GUID, "é")), NDR20)
    assert data[8:] == GUID + bytes.fromhex("00000200 02000000 00000000 02000000 e900 0000")
    assert decode(data, NDR20).arm == DlId(GUID, "é")
    with pytest.raises(DecodeError, match="terminating null"):
        decode(data[:-2] + b"A\0", NDR20)
    no_domain = encode(QueueFormat(QFT.DL, arm=DlId(GUID, "")), NDR20)
    assert no_domain[8:] == GUID + bytes(4)
    assert decode(no_domain, NDR20).arm == DlId(GUID, "")


@pytest.mark.spec("MQMQ-2.2.10-01")
def test_a_multicast_id_is_an_address_and_a_port_of_32_bits_each() -> None:
    record = of_text("MULTICAST=234.1.2.3:8001")
    data = encode(record, NDR20)
    assert data[8:] == bytes([234, 1, 2, 3]) + (8001).to_bytes(4, "little")
    assert decode(data, NDR20).to_format_name() == FormatName.parse("MULTICAST=234.1.2.3:8001")
    largest = QueueFormat(QFT.MULTICAST, arm=MulticastId(0xFFFF_FFFF, 0xFFFF_FFFF))
    assert decode(encode(largest, NDR20), NDR20) == largest


def test_what_another_implementation_writes_is_read() -> None:
    # Third marshaller: PUBLIC and DIRECT, NDR 2.0 and NDR64.
    public = QueueFormat(QFT.PUBLIC, arm=GUID)
    direct = QueueFormat(QFT.DIRECT, arm="OS:h\\q")
    text = "4f0053003a0068005c0071000000"
    assert decode(bytes.fromhex("01000000 01bdbdbd" + GUID.hex()), NDR20) == public
    assert decode(bytes.fromhex("03000000 03bdbdbd d8b20000 07000000 00000000 07000000" + text), NDR20) == direct
    assert decode(bytes.fromhex("01000000bcbcbcbc 01bdbdbdbdbdbdbd" + GUID.hex()), NDR64) == public
    wide = "03000000bcbcbcbc 03bdbdbdbdbdbdbd 8d87000000000000 0700000000000000 0000000000000000 0700000000000000"
    assert decode(bytes.fromhex(wide + text), NDR64) == direct


@pytest.mark.spec("MQMQ-2.2.7-02")
def test_the_suffix_is_the_low_nibble_and_the_flags_are_the_high_one() -> None:
    record = decode(bytes.fromhex("01 81 0000 01000000" + GUID.hex()), NDR20)
    assert (record.suffix_type, record.flags) == (Suffix.JOURNAL, 0x80)
    assert record.to_format_name() == FormatName.parse(f"PUBLIC={GUID_TEXT};JOURNAL")
    record.m_suffix_and_flags = 0x5A
    assert (record.suffix_type, record.flags) == (0x0A, 0x50)
    # The journal is a system queue, the queue itself is not.
    assert of_text(f"PUBLIC={GUID_TEXT};JOURNAL").flags == 0x80
    assert of_text(f"PUBLIC={GUID_TEXT}").flags == 0x00


@pytest.mark.spec("MQMQ-2.2.11-01")
def test_the_suffix_types_and_the_text_they_match() -> None:
    assert [member.name for member in Suffix] == ["NONE", "JOURNAL", "DEADLETTER", "DEADXACT", "XACTONLY", "SUBQUEUE"]
    assert [member.value for member in Suffix] == [0, 1, 2, 3, 4, 5]
    texts = {
        "DIRECT=OS:h\\q": Suffix.NONE,
        f"MACHINE={GUID_TEXT};JOURNAL": Suffix.JOURNAL,
        f"MACHINE={GUID_TEXT};DEADLETTER": Suffix.DEADLETTER,
        f"MACHINE={GUID_TEXT};DEADXACT": Suffix.DEADXACT,
        f"CONNECTOR={GUID_TEXT};XACTONLY": Suffix.XACTONLY,
        "DIRECT=OS:h\\q;s": Suffix.SUBQUEUE,
    }
    for text, suffix in texts.items():
        record = of_text(text)
        assert record.suffix_type == suffix
        assert str(record.to_format_name()) == text


def types_that_fit(suffix: int, flags: int) -> set[int]:
    return {qft for qft in QueueFormatType if QueueFormat(qft, flags | suffix).suffix_fits}


@pytest.mark.spec("MQMQ-2.2.7-03")
def test_no_suffix_needs_flags_0_and_any_type_but_machine() -> None:
    assert types_that_fit(Suffix.NONE, 0x00) == {0, 1, 2, 3, 5, 6, 7, 8}
    assert not types_that_fit(Suffix.NONE, 0x80)


@pytest.mark.spec("MQMQ-2.2.7-04")
def test_a_journal_needs_the_system_flag_and_a_type_that_has_one() -> None:
    assert types_that_fit(Suffix.JOURNAL, 0x80) == {0, 1, 2, 3, 4, 8}
    assert not types_that_fit(Suffix.JOURNAL, 0x00)


@pytest.mark.spec("MQMQ-2.2.7-05")
def test_a_dead_letter_queue_needs_the_system_flag_and_no_single_queue() -> None:
    assert types_that_fit(Suffix.DEADLETTER, 0x80) == {0, 3, 4, 8}
    assert not types_that_fit(Suffix.DEADLETTER, 0x00)


@pytest.mark.spec("MQMQ-2.2.7-06")
def test_a_transactional_dead_letter_queue_needs_the_system_flag_and_a_machine() -> None:
    assert types_that_fit(Suffix.DEADXACT, 0x80) == {3, 4}
    assert not types_that_fit(Suffix.DEADXACT, 0x00)


@pytest.mark.spec("MQMQ-2.2.7-07")
def test_xactonly_needs_a_connector_and_subqueue_a_subqueue() -> None:
    assert types_that_fit(Suffix.XACTONLY, 0x00) == {5}
    assert types_that_fit(Suffix.XACTONLY, 0x80) == {5}
    assert types_that_fit(Suffix.SUBQUEUE, 0x00) == {8}
    assert not types_that_fit(Suffix.SUBQUEUE, 0x80)


@pytest.mark.spec("MQMQ-2.2.7-03", "MQMQ-2.2.7-04", "MQMQ-2.2.7-05", "MQMQ-2.2.7-06", "MQMQ-2.2.7-07")
def test_a_suffix_that_does_not_fit_makes_no_name() -> None:
    for qft, arm, _, _ in FORMS:
        for suffix_and_flags in range(256):
            record = QueueFormat(qft, suffix_and_flags, arm=arm)
            if not record.suffix_fits:
                with pytest.raises(IllegalFormatName, match="m_SuffixAndFlags at offset 1"):
                    record.to_format_name()
    with pytest.raises(EncodeError, match="m_SuffixAndFlags: 0x80 does not fit MACHINE"):
        of_text(f"MACHINE={GUID_TEXT}")


def test_undefined_suffixes_and_flags_never_fit() -> None:
    for suffix in range(6, 16):
        assert not types_that_fit(suffix, 0x00)
        assert not types_that_fit(suffix, 0x80)
    for flags in range(0x10, 0x100, 0x10):
        for suffix in Suffix:
            assert flags == 0x80 or not types_that_fit(suffix, flags)


@pytest.mark.spec("MQMQ-2.2.7-08")
def test_a_direct_name_stands_without_its_prefix_and_a_subqueue_has_its_part() -> None:
    direct = of_text("DIRECT=TCP:10.0.0.1\\private$\\q")
    assert (direct.m_qft, direct.arm) == (QFT.DIRECT, "TCP:10.0.0.1\\PRIVATE$\\q")
    subqueue = of_text("DIRECT=OS:h\\q;s")
    assert (subqueue.m_qft, subqueue.m_suffix_and_flags, subqueue.arm) == (QFT.SUBQUEUE, 5, "OS:h\\q;s")
    assert subqueue.to_format_name() == FormatName.parse("DIRECT=OS:h\\q;s")
    for qft in (QFT.DIRECT, QFT.SUBQUEUE):
        with pytest.raises(IllegalFormatName):
            QueueFormat(qft, arm="DIRECT=OS:h\\q;s").to_format_name()
    for suffix in (Suffix.NONE, Suffix.SUBQUEUE):
        with pytest.raises(IllegalFormatName, match="has no subqueue part"):
            QueueFormat(QFT.SUBQUEUE, suffix, arm="OS:h\\q").to_format_name()


def test_the_suffix_of_a_direct_name_stands_in_the_text_or_the_field() -> None:
    journal = FormatName.parse("DIRECT=OS:h\\q;JOURNAL")
    assert QueueFormat(QFT.DIRECT, 0x81, arm="OS:h\\q;JOURNAL").to_format_name() == journal
    assert QueueFormat(QFT.DIRECT, 0x81, arm="OS:h\\q").to_format_name() == journal
    assert QueueFormat(QFT.DIRECT, 0x00, arm="OS:h\\q;JOURNAL").to_format_name() == journal
    for suffix_and_flags, text in ((0x82, "OS:h\\q"), (0x83, "OS:h\\SYSTEM$;DEADLETTER"), (0x82, "OS:h\\q;JOURNAL")):
        with pytest.raises(IllegalFormatName, match="does not match"):
            QueueFormat(QFT.DIRECT, suffix_and_flags, arm=text).to_format_name()


@pytest.mark.parametrize(
    "text",
    [
        f"PUBLIC={GUID_TEXT}",
        f"PUBLIC={GUID_TEXT};JOURNAL",
        f"PRIVATE={GUID_TEXT}\\0000002a",
        f"PRIVATE={GUID_TEXT}\\0000002a;JOURNAL",
        "DIRECT=OS:h\\q",
        "DIRECT=TCP:10.0.0.1\\PRIVATE$\\q;JOURNAL",
        "DIRECT=OS:h\\SYSTEM$;DEADXACT",
        "DIRECT=HTTP://h/msmq/q",
        "DIRECT=OS:h\\PRIVATE$\\q;s",
        "DIRECT=OS:h\\PRIVATE$\\q;s;JOURNAL",
        f"MACHINE={GUID_TEXT};DEADLETTER",
        f"CONNECTOR={GUID_TEXT}",
        f"CONNECTOR={GUID_TEXT};XACTONLY",
        f"DL={GUID_TEXT}",
        f"DL={GUID_TEXT}@corp.example",
        "MULTICAST=224.0.0.1:0",
    ],
)
@pytest.mark.parametrize("syntax", NdrSyntax)
def test_a_name_comes_back_from_its_queue_format(text: str, syntax: NdrSyntax) -> None:
    record = of_text(text)
    assert decode(encode(record, syntax), syntax) == record
    assert str(record.to_format_name()) == text


@pytest.mark.parametrize(
    ("qft", "arm"),
    [
        (QFT.UNKNOWN, None),
        (QFT.DIRECT, None),
        (QFT.DIRECT, "q"),
        (QFT.DL, DlId(GUID, "a b")),
        (QFT.DL, DlId(GUID, f"corp,PUBLIC={GUID_TEXT}")),
        (QFT.MULTICAST, MulticastId(0x0100000A, 80)),
        (QFT.MULTICAST, MulticastId(0x010203EE, 0x1_0000)),
    ],
)
def test_an_arm_that_names_nothing_makes_no_name(qft: QueueFormatType, arm: Arm) -> None:
    with pytest.raises(IllegalFormatName):
        QueueFormat(qft, arm=arm).to_format_name()


@pytest.mark.parametrize(("address", "port"), [("10.0.0.1", 80), ("host", 80), ("224.0.0.1", 0x1_0000)])
def test_a_multicast_name_that_the_grammar_does_not_have_has_no_queue_format(address: str, port: int) -> None:
    with pytest.raises(IllegalFormatName):
        QueueFormat.from_format_name(MulticastFormatName(address, port))


def test_several_names_have_no_queue_format() -> None:
    with pytest.raises(EncodeError, match="QUEUE_FORMAT does not support"):
        of_text(f"PUBLIC={GUID_TEXT},PUBLIC={GUID_TEXT}")


@pytest.mark.spec("MQRR-2.2.3-01")
def test_remote_read_supports_neither_connectors_nor_lists_nor_multicast() -> None:
    for text in (f"CONNECTOR={GUID_TEXT}", f"DL={GUID_TEXT}", "MULTICAST=224.0.0.1:80"):
        with pytest.raises(InvalidParameter, match="type that this protocol does not support"):
            remote_read_name(of_text(text))
    # UNKNOWN is known to the protocol: it fails as a name, not as a type.
    with pytest.raises(InvalidParameter, match="does not name a queue"):
        remote_read_name(QueueFormat())
    for text in ACCEPTED:
        assert str(remote_read_name(of_text(text))) == text


ACCEPTED = (
    f"PUBLIC={GUID_TEXT}",
    f"PRIVATE={GUID_TEXT}\\0000002a",
    "DIRECT=OS:h\\q",
    f"MACHINE={GUID_TEXT};JOURNAL",
    "DIRECT=OS:h\\q;s",
)


@pytest.mark.spec("MQRR-2.2.3-02")
def test_remote_read_takes_direct_names_of_tcp_and_os_only() -> None:
    for text in ("DIRECT=TCP:10.0.0.1\\q", "DIRECT=OS:h\\q"):
        assert str(remote_read_name(of_text(text))) == text
    for direct in ("HTTP://h/msmq/q", "HTTPS://h/msmq/q", "IPX:00000012:00a0234f7500\\q"):
        with pytest.raises(InvalidParameter):
            remote_read_name(QueueFormat(QFT.DIRECT, arm=direct))


@pytest.mark.spec("MQRR-3.1.4.2-03")
def test_a_queue_that_cannot_be_opened_remotely_is_an_invalid_parameter() -> None:
    assert {of_text(text).m_qft for text in ACCEPTED} == {
        QFT.PUBLIC,
        QFT.PRIVATE,
        QFT.DIRECT,
        QFT.MACHINE,
        QFT.SUBQUEUE,
    }
    for text in ACCEPTED:
        assert remote_read_name(of_text(text)) == FormatName.parse(text)
    refused = [
        None,
        QueueFormat(),
        *(QueueFormat(qft, arm=arm) for qft, arm, _, _ in FORMS if qft in (QFT.CONNECTOR, QFT.DL, QFT.MULTICAST)),
        QueueFormat(QFT.DIRECT),
        QueueFormat(QFT.DIRECT, arm="OS:h"),
        QueueFormat(QFT.PUBLIC, 0x01, arm=GUID),
    ]
    for queue_format in refused:
        with pytest.raises(InvalidParameter) as caught:
            remote_read_name(queue_format)
        assert int(caught.value.hresult) == 0xC00E0006


@pytest.mark.parametrize("syntax", NdrSyntax)
def test_cut_data_is_refused_wherever_it_is_cut(syntax: NdrSyntax) -> None:
    for qft, arm, _, _ in FORMS:
        data = encode(QueueFormat(qft, arm=arm), syntax)
        for length in range(len(data)):
            with pytest.raises(DecodeError):
                decode(data[:length], syntax)


@pytest.mark.parametrize(("qft", "arm"), [(QFT.PUBLIC, None), (QFT.PRIVATE, GUID), (QFT.DIRECT, GUID), (QFT.DL, "x")])
def test_an_arm_of_another_type_is_not_written(qft: QueueFormatType, arm: Arm) -> None:
    with pytest.raises(EncodeError, match="cannot hold"):
        encode(QueueFormat(qft, arm=arm), NDR20)


@settings(max_examples=200)
@given(st.integers(0, 8), st.integers(0, 255), st.binary(max_size=60), st.sampled_from(NdrSyntax))
def test_any_bytes_give_a_record_or_a_decode_error(qft: int, suffix: int, rest: bytes, syntax: NdrSyntax) -> None:
    gap = bytes(syntax - 1)
    for data in (bytes([qft, suffix, 0, 0]) + gap[3:] + bytes([qft]) + gap + rest, rest):
        with suppress(DecodeError):
            record = decode(data, syntax)
            assert decode(encode(record, syntax), syntax) == record
            record.to_format_name()
