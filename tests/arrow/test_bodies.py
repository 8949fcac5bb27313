"""Bodies by type; the common types are decoded all at once, with the same result as one by one."""

from struct import pack
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waypost.api.bodies import decode_text, read_untyped_body
from waypost.api.new_bodies import encode_body, xml_body
from waypost.arrow.bodies import decode_bodies
from waypost.arrow.bodies.net_binary import root_type
from waypost.errors import DecodeError
from waypost.limits import MAX_NRBF_LIBRARIES, MAX_NRBF_NAME
from waypost.wire.describe.bodies import body_text

TYPES = [0, 2, 3, 4, 5, 6, 7, 8, 11, 16, 17, 18, 19, 20, 21, 30, 31, 64, 68, 69, 72, 0x300, 0x1011, 0x2011, 9, 999]


class Row(NamedTuple):
    text: str | None
    kind: str | None
    error: str | None


def rows(bodies: list[tuple[bytes | None, int]], extensions: list[bytes] | None = None) -> list[Row]:
    body = pa.array([body for body, _ in bodies], pa.binary())
    body_type = np.array([number for _, number in bodies], np.uint32)
    extension = pa.array(extensions or [b""] * len(bodies), pa.binary())
    columns = decode_bodies(body, body_type, extension)
    for column in columns:
        assert len(column) == len(bodies)
        assert column.type == pa.string()
        column.validate(full=True)
    return [Row(*row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def read(body: bytes, body_type: int) -> Row:
    [row] = rows([(body, body_type)])
    return row


# The formats of .NET, by hand.


def lps(text: str) -> bytes:
    """MS-NRBF 2.1.1.6: a string behind its length."""
    data = text.encode()
    length, prefix = len(data), b""
    while length >= 0x80:
        prefix += bytes([length & 0x7F | 0x80])
        length >>= 7
    return prefix + bytes([length]) + data


HEADER = pack("<Biiii", 0, 1, -1, 1, 0)
LIBRARY = b"\x0c" + pack("<i", 2) + lps("MyApp, Version=1.0.0.0, Culture=neutral, PublicKeyToken=null")
# Id and Customer of an Order: an Int32 and a String, then the library and the values.
MEMBERS = pack("<i", 2) + lps("Id") + lps("Customer") + b"\x00\x01" + b"\x08" + pack("<i", 2)
VALUES = pack("<i", 7) + b"\x06" + pack("<i", 3) + lps("ACME") + b"\x0b"
ORDER = HEADER + LIBRARY + b"\x05" + pack("<i", 1) + lps("MyApp.Order") + MEMBERS + VALUES


@pytest.mark.parametrize(
    ("body", "body_type", "text", "kind"),
    [
        (b"", 0, "", "empty"),
        (xml_body("Grüße & so"), 0, xml_body("Grüße & so").decode(), "xml"),
        (b"  \r\n<order id='1'/>", 0, "  \r\n<order id='1'/>", "xml"),
        (b"\xef\xbb\xbf<a>\xc3\xa9</a>", 0, "<a>é</a>", "xml"),
        ("\ufeff<a>é</a>".encode("utf-16-le"), 0, "<a>é</a>", "xml"),
        ("\ufeff<a>é</a>".encode("utf-16-be"), 0, "<a>é</a>", "xml"),
        ('<?xml version="1.0"?><a>é</a>'.encode("utf-16-le"), 0, '<?xml version="1.0"?><a>é</a>', "xml"),
        ('<?xml version="1.0"?><a>é</a>'.encode("utf-16-be"), 0, '<?xml version="1.0"?><a>é</a>', "xml"),
        (
            b'<?xml version="1.0" encoding="ISO-8859-1"?><a>\xe9</a>',
            0,
            '<?xml version="1.0" encoding="ISO-8859-1"?><a>é</a>',
            "xml",
        ),
        # A string of .NET knows itself as UTF-16, whatever it is encoded in later.
        (
            b'<?xml version="1.0" encoding="utf-16"?><a>\xc3\xa9</a>',
            0,
            '<?xml version="1.0" encoding="utf-16"?><a>é</a>',
            "xml",
        ),
        (
            b'<?xml version="1.0" encoding="UTF-8"?><a>\xc3\xa9</a>',
            0,
            '<?xml version="1.0" encoding="UTF-8"?><a>é</a>',
            "xml",
        ),
        (b"<\xc3\xa9l\xc3\xa9ment/>", 0, "<élément/>", "xml"),
        (b"plain text\n", 0, "plain text\n", "text"),
        (b"a < b", 0, "a < b", "text"),
        (b"<3 you", 0, "<3 you", "text"),
        (b'{"id": 1}', 0, '{"id": 1}', "text"),
        ("naïve\u00a0text".encode(), 0, "naïve\u00a0text", "text"),
        (b"ended by zero\0", 0, "ended by zero", "text"),
        ("wide text".encode("utf-16-le"), 0, "wide text", "text"),
        ("\ufeffwide text".encode("utf-16-le"), 0, "wide text", "text"),
        (b"\0", 0, None, "binary"),
        (b"\x01\x02\x03\x04", 0, None, "binary"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 0, None, "binary"),
        (b"<\0\x34\x12\xff\xff\0\0", 0, None, "binary"),
        (b"\xff" * 9, 0, None, "binary"),
        ("wörd \U0001f600".encode("utf-16-le"), 8, "wörd \U0001f600", "string"),
        ("with an end\0".encode("utf-16-le"), 31, "with an end", "string"),
        (b"", 8, "", "string"),
        (b"\0\0", 31, "", "string"),
        (b"narrow\0", 30, "narrow", "string"),
        ("grün".encode(), 30, "grün", "string"),
        (b"gr\xfcn", 30, "grün", "string"),
        (pack("<h", -2), 2, "-2", "integer"),
        (pack("<i", -70000), 3, "-70000", "integer"),
        (pack("<b", -1), 16, "-1", "integer"),
        (b"\xff", 17, "255", "integer"),
        (b"\xff\xff", 18, "65535", "integer"),
        (b"\xff" * 4, 19, "4294967295", "integer"),
        (b"\xff" * 8, 20, "-1", "integer"),
        (b"\xff" * 8, 21, "18446744073709551615", "integer"),
        (pack("<f", 1.5), 4, "1.5", "float"),
        (pack("<d", 0.1), 5, "0.1", "float"),
        (pack("<q", -123456), 6, "-12.3456", "currency"),
        (pack("<d", 45000.75), 7, "2023-03-15 18:00:00", "date"),
        (b"\xff\xff", 11, "true", "boolean"),
        (b"\0", 11, "false", "boolean"),
        (bytes(range(16)), 72, "03020100-0504-0706-0809-0a0b0c0d0e0f", "guid"),
        (b"\0\1", 0x2011, None, "bytes"),
        (encode_body(b"\0\1", None)[0], encode_body(b"", None)[1], None, "bytes"),
        (b"IStream", 68, None, "object"),
        (b"", 69, None, "object"),
        (b"anything", 4711, None, "type-4711"),
        (b"", 0xFFFFFFFF, None, "type-4294967295"),
        (ORDER, 0x300, None, "net-binary:MyApp.Order"),
    ],
)
def test_a_body_says_what_its_type_says(body: bytes, body_type: int, text: str | None, kind: str) -> None:
    assert read(body, body_type) == (text, kind, None)


@pytest.mark.parametrize(
    ("body", "body_type", "kind", "error"),
    [
        (b"odd", 8, "string", "a body of type 0x8 with 3 bytes is not text; read the body as bytes"),
        (b"\x00\xd8a\0", 31, "string", "a body of type 0x1f with 4 bytes is not text; read the body as bytes"),
        (b"123", 3, "integer", "a body of type 0x3 with 3 bytes is not a valid integer; read the body as bytes"),
        (b"", 21, "integer", "a body of type 0x15 with 0 bytes is not a valid integer; read the body as bytes"),
        (b"12345", 4, "float", "a body of type 0x4 with 5 bytes is not a valid float; read the body as bytes"),
        (b"1", 6, "currency", "a body of type 0x6 with 1 bytes is not a valid currency; read the body as bytes"),
        (pack("<d", 1e300), 7, "date", "a body of type 0x7 with 8 bytes is not a valid date; read the body as bytes"),
        (b"123", 11, "boolean", "a body of type 0xb with 3 bytes is not a valid boolean; read the body as bytes"),
        (b"short", 72, "guid", "a body of type 0x48 with 5 bytes is not a valid guid; read the body as bytes"),
        (
            b'<?xml version="1.0"?><a>\xe9</a>',
            0,
            "xml",
            "the XML is not valid utf-8 at byte 24; read the body as bytes",
        ),
        (
            b'<?xml version="1.0" encoding="punycode"?><a>\xe9</a>',
            0,
            "xml",
            "the XML declares the unknown encoding punycode; read the body as bytes",
        ),
        (
            b"not NRBF",
            0x300,
            "net-binary",
            "SerializationHeaderRecord at offset 0: the data is only 8 bytes long (MS-NRBF 2)",
        ),
    ],
)
def test_a_body_that_is_not_what_its_type_says_has_one_sentence(
    body: bytes, body_type: int, kind: str, error: str
) -> None:
    assert read(body, body_type) == (None, kind, error)


def test_an_array_gives_each_row_its_own() -> None:
    bodies: list[tuple[bytes | None, int]] = [
        (b"<a/>", 0),
        (None, 0),
        ("text".encode("utf-16-le"), 8),
        (b"odd", 8),
        (b"", 0),
        (pack("<i", 5), 3),
        (b"\0\1", 77),
        (None, 77),
        (b"\xff\0\xff", 0),
        ("mehr Wörter".encode(), 0),
    ]
    assert rows(bodies) == [
        ("<a/>", "xml", None),
        (None, None, None),
        ("text", "string", None),
        (None, "string", "a body of type 0x8 with 3 bytes is not text; read the body as bytes"),
        ("", "empty", None),
        ("5", "integer", None),
        (None, "type-77", None),
        (None, None, None),
        (None, "binary", None),
        ("mehr Wörter", "text", None),
    ]


def test_no_bodies_give_no_rows() -> None:
    assert rows([]) == []


def test_a_part_of_an_array_is_read_as_that_part() -> None:
    body = pa.array([b"<a/>", "é".encode(), b"c", None], pa.binary())[1:3]
    text, kind, _ = decode_bodies(body, np.zeros(2, np.uint32), pa.nulls(2, pa.binary()))
    assert text.to_pylist() == ["é", "c"]
    assert kind.to_pylist() == ["text", "text"]
    wide = pa.array(["abc".encode("utf-16-le"), "d\0".encode("utf-16-le"), b""], pa.binary())[1:]
    assert decode_bodies(wide, np.full(2, 8), pa.nulls(2, pa.binary()))[0].to_pylist() == ["d", ""]


def test_text_is_json_where_the_headers_of_the_sender_say_so() -> None:
    extension = b'{"rbs2-content-type":"application/json;charset=utf-8"}'
    bodies: list[tuple[bytes | None, int]] = [(b"{}", 0), (b"{}", 0), (b"<a/>", 0), (b"\0\1", 0), (None, 0)]
    found = rows(bodies, [extension, b"", extension, extension, extension])
    assert [row.kind for row in found] == ["json", "text", "xml", "binary", None]


hostile = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20).map(lambda text: text.encode("utf-16-le", "surrogatepass")),
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.tuples(
        st.sampled_from([b" ", b"\x0b", b" " * 199, b" " * 200, b" " * 201]),
        st.sampled_from([b"=", b" \x0b=", b"=\x0b "]),
        st.sampled_from([b"utf-8", b"UTF-8", b"utf-8x", b"utf8", b"iso-8859-1", b"windows-1252", b"nothing"]),
        st.binary(max_size=3),
    ).map(lambda parts: b'<?xml%bencoding%b"%b"?>\xc3\xa9%b' % parts),
    st.sampled_from([b"<?xml", b"\xff\xfe", b"\xef\xbb\xbf", b"<\0?\0", HEADER, HEADER + LIBRARY]).flatmap(
        lambda start: st.binary(max_size=30).map(lambda rest: start + rest)
    ),
)
bodies_of_all_types = st.lists(st.tuples(hostile, st.sampled_from(TYPES)), max_size=12)


@settings(deadline=None, max_examples=60)
@given(bodies_of_all_types)
def test_any_bytes_say_together_what_they_say_alone(bodies: list[tuple[bytes | None, int]]) -> None:
    together = rows(bodies)
    assert together == [row for body in bodies for row in rows([body])]
    for row in together:
        assert row.kind
        assert row.text is None or row.error is None


@settings(deadline=None, max_examples=60)
@given(st.lists(hostile, min_size=1, max_size=8), st.sampled_from([8, 30, 31]))
def test_strings_are_those_of_the_client(bodies: list[bytes], body_type: int) -> None:
    for body, row in zip(bodies, rows([(body, body_type) for body in bodies]), strict=True):
        try:
            assert row.text == decode_text(body, body_type)
        except DecodeError as error:
            assert (row.text, row.error) == (None, error.reason)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.binary(max_size=9), min_size=1, max_size=8), st.sampled_from([2, 3, 16, 17, 18, 19, 20, 21]))
def test_integers_are_those_that_the_packet_decoder_shows(bodies: list[bytes], body_type: int) -> None:
    found = rows([(body, body_type) for body in bodies])
    assert [row.text or "" for row in found] == [body_text(body, body_type) for body in bodies]


@settings(deadline=None, max_examples=100)
@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff"), min_size=1))
def test_untyped_text_is_that_of_the_client(text: str) -> None:
    assert read(text.encode(), 0).text == decode_text(text.encode(), 0)


@settings(deadline=None, max_examples=100)
@given(st.lists(hostile.filter(bool), min_size=1, max_size=8))
def test_untyped_bodies_say_together_what_the_slow_way_says(bodies: list[bytes]) -> None:
    assert rows([(body, 0) for body in bodies]) == [Row(*read_untyped_body(body)) for body in bodies]


# MS-NRBF.


def array(shape: int, rank: int, element: bytes) -> bytes:
    numbers = rank * (2 if shape >= 3 else 1)
    return HEADER + b"\x07" + pack("<iBi", 1, shape, rank) + bytes(4 * numbers) + element


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (ORDER, "MyApp.Order"),
        (HEADER + LIBRARY * 3 + b"\x03" + pack("<i", 1) + lps("Nested.Outer+Inner"), "Nested.Outer+Inner"),
        (HEADER + b"\x04" + pack("<i", 1) + lps("System.Int32") + pack("<i", 1), "System.Int32"),
        (HEADER + b"\x04" + pack("<i", 1) + lps("A" * 200), "A" * 200),
        (HEADER + b"\x06" + pack("<i", 1) + lps("hello"), "System.String"),
        (HEADER + b"\x0f" + pack("<iiB", 1, 3, 8), "System.Int32[]"),
        (HEADER + b"\x10" + pack("<ii", 1, 3), "System.Object[]"),
        (HEADER + b"\x11" + pack("<ii", 1, 3), "System.String[]"),
        (array(2, 2, b"\x00\x06"), "System.Double[,]"),
        (array(1, 1, b"\x07\x02"), "System.Byte[][]"),
        (array(3, 1, b"\x01"), "System.String[]"),
        (array(0, 1, b"\x04" + lps("MyApp.Order") + pack("<i", 2)), "MyApp.Order[]"),
    ],
)
def test_the_root_of_net_binary_is_named(data: bytes, name: str) -> None:
    assert root_type(data) == name


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEADER,
        HEADER + b"\x05",
        # Another version, and another record first.
        pack("<Biiii", 0, 1, -1, 2, 0) + ORDER[17:],
        b"\x01" + ORDER[1:],
        # Not the root.
        HEADER + b"\x05" + pack("<i", 2) + lps("MyApp.Order"),
        # A null, and a call of a method.
        HEADER + b"\x0a" + pack("<i", 1),
        HEADER + b"\x15" + pack("<i", 1),
        # Names that claim too much, are too long, empty, not UTF-8, or would move a terminal.
        HEADER + b"\x05" + pack("<i", 1) + b"\xff\xff\xff\xff\x07",
        HEADER + b"\x05" + pack("<i", 1) + lps("A" * (MAX_NRBF_NAME + 1)),
        HEADER + b"\x05" + pack("<i", 1) + lps(""),
        HEADER + b"\x05" + pack("<i", 1) + b"\x01\xff",
        HEADER + b"\x05" + pack("<i", 1) + lps("\x1b[2J"),
        HEADER + LIBRARY * (MAX_NRBF_LIBRARIES + 1) + ORDER[17 + len(LIBRARY) :],
        array(9, 1, b"\x01"),
        array(0, 1, b"\x09"),
        HEADER + b"\x07" + pack("<iBi", 1, 0, 0x7FFFFFFF),
        HEADER + b"\x0f" + pack("<iiB", 1, 3, 4),
    ],
)
def test_net_binary_whose_root_cannot_be_told_is_an_error(data: bytes) -> None:
    with pytest.raises(DecodeError, match="MS-NRBF"):
        root_type(data)


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=60), st.integers(0, len(ORDER)))
def test_any_bytes_have_a_named_root_or_an_error(data: bytes, kept: int) -> None:
    try:
        assert root_type(ORDER[:kept] + data).isprintable()
    except DecodeError as error:
        assert error.reason


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"a": [1, "\xc3\xa9"]}', '{"a": [1, "é"]}'),
        (b" [1, 2] ", " [1, 2] "),
        (b'\xef\xbb\xbf{"a": 1}', '{"a": 1}'),
        (b'{"a": 1} rest', None),
        (b'{"a": "\xff"}', None),
        (b"{broken", None),
        (b'"text"', None),
        (b"[" * 100_000, None),
        (b"", None),
    ],
)
def test_json_in_an_array_of_bytes_is_text(body: bytes, text: str | None) -> None:
    plain, row = rows([(b"\0\1", 0x1011), (body, 0x1011)])
    assert plain == (None, "bytes", None)
    assert row == (text, "bytes" if text is None else "json", None)
