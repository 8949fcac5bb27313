"""Headers of NServiceBus and Rebus in the extension field."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waypost.api.framework_headers import message_headers
from waypost.arrow.bodies import extension_headers, header_lists, headers_of

NSERVICEBUS = (
    '<?xml version="1.0"?>\r\n'
    '<ArrayOfHeaderInfo xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xmlns:xsd="http://www.w3.org/2001/XMLSchema">\r\n'
    "  <HeaderInfo>\r\n    <Key>NServiceBus.MessageId</Key>\r\n    <Value>1f2e-3d</Value>\r\n  </HeaderInfo>\r\n"
    "  <HeaderInfo>\r\n    <Key>NServiceBus.ContentType</Key>\r\n    <Value>text/xml</Value>\r\n  </HeaderInfo>\r\n"
    "  <HeaderInfo>\r\n    <Key>Größe</Key>\r\n    <Value>a &lt; b &amp; c</Value>\r\n  </HeaderInfo>\r\n"
    "  <HeaderInfo>\r\n    <Key>NServiceBus.Version</Key>\r\n    <Value />\r\n  </HeaderInfo>\r\n"
    "  <HeaderInfo>\r\n    <Key>Nothing</Key>\r\n  </HeaderInfo>\r\n"
    "</ArrayOfHeaderInfo>"
).encode()
NSERVICEBUS_HEADERS = {
    "NServiceBus.MessageId": "1f2e-3d",
    "NServiceBus.ContentType": "text/xml",
    "Größe": "a < b & c",
    "NServiceBus.Version": "",
    "Nothing": "",
}
REBUS = (
    b'{"rbs2-msg-id":"5b7c","rbs2-msg-type":"MyApp.Order, MyApp",'
    b'"rbs2-content-type":"application/json;charset=utf-8","note":"Gr\\u00fc\\u00dfe","rbs2-return-address":null}'
)
REBUS_HEADERS = {
    "rbs2-msg-id": "5b7c",
    "rbs2-msg-type": "MyApp.Order, MyApp",
    "rbs2-content-type": "application/json;charset=utf-8",
    "note": "Grüße",
    "rbs2-return-address": "",
}


def info(inside: str) -> bytes:
    return f"<ArrayOfHeaderInfo><HeaderInfo>{inside}</HeaderInfo></ArrayOfHeaderInfo>".encode()


@pytest.mark.parametrize(
    ("extension", "headers"),
    [
        (NSERVICEBUS, NSERVICEBUS_HEADERS),
        (b"\xef\xbb\xbf" + NSERVICEBUS + b"\0\0", NSERVICEBUS_HEADERS),
        (NSERVICEBUS.replace(b'"1.0"', b'"1.0" encoding="utf-16"', 1), NSERVICEBUS_HEADERS),
        (b"<ArrayOfHeaderInfo />", {}),
        (info("<Value>no key</Value>"), {}),
        (REBUS, REBUS_HEADERS),
        (b"\xef\xbb\xbf" + REBUS + b"\0", REBUS_HEADERS),
        (b"{}", {}),
    ],
)
def test_headers_are_found(extension: bytes, headers: dict[str, str]) -> None:
    assert headers_of(extension) == headers


@pytest.mark.parametrize(
    "extension",
    [
        None,
        b"",
        b"\0\0",
        b"somebody else's",
        b"<other/>",
        b"<ArrayOfHeaderInfo>",
        NSERVICEBUS[:-1],
        NSERVICEBUS + b"<more/>",
        NSERVICEBUS + b"\xff",
        b"<ArrayOfHeaderInfo><Other/></ArrayOfHeaderInfo>",
        info("<Key><deep/></Key>"),
        b"<a>" * 100_000,
        b"[1]",
        b'{"a": 1}',
        b'{"a": {}}',
        b'{"a": "b"',
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b'{"a": ' + b"[" * 100_000,
    ],
)
def test_anything_else_has_no_headers(extension: bytes | None) -> None:
    assert headers_of(extension) is None


def test_entities_are_refused_before_they_grow() -> None:
    entities = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))
    bomb = f'<!DOCTYPE ArrayOfHeaderInfo [<!ENTITY e0 "ha">{entities}]>'.encode()
    assert headers_of(bomb + info("<Key>a</Key><Value>&e9;</Value>")) is None
    assert headers_of(b"<!DOCTYPE ArrayOfHeaderInfo>" + info("<Key>a</Key>")) is None
    assert headers_of(info("<Key>a</Key><Value>&e;</Value>")) is None


def test_a_column_has_a_map_for_each_row() -> None:
    column = extension_headers(pa.array([NSERVICEBUS, None, b"other", REBUS, b"{}"], pa.binary()))
    assert column.type == pa.map_(pa.string(), pa.string())
    assert [None if row is None else dict(row) for row in column.to_pylist()] == [
        NSERVICEBUS_HEADERS,
        None,
        None,
        REBUS_HEADERS,
        {},
    ]
    assert len(extension_headers(pa.array([], pa.binary()))) == 0


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from([b"", b"<", b"{", NSERVICEBUS, REBUS, b"<ArrayOfHeaderInfo><HeaderInfo><Key>"]).flatmap(
        lambda start: st.tuples(st.integers(0, len(start)), st.binary(max_size=40)).map(
            lambda parts: start[: parts[0]] + parts[1] + start[parts[0] :]
        )
    )
)
def test_any_bytes_have_headers_that_a_column_can_hold_or_none(extension: bytes) -> None:
    headers = headers_of(extension)
    [row] = extension_headers(pa.array([extension], pa.binary())).to_pylist()
    assert (None if row is None else dict(row)) == headers


ENVELOPE = b' {"messageType": ["urn:message:Shop:Order"], "message": {}, "headers": {"tenant": "a", "try": 2}}'


def test_lists_of_headers_are_those_of_single_messages() -> None:
    extensions = [NSERVICEBUS, REBUS, b"", b"{}", b"<other/>", b"", b"", b"\0\1"]
    bodies = [b"", ENVELOPE, ENVELOPE, ENVELOPE, ENVELOPE, b"\xef\xbb\xbf" + ENVELOPE, b'{"messageType": 1}', b"\xff"]
    columns = [pa.array([*values, None], pa.binary()) for values in (extensions, bodies)]
    found = header_lists(*columns).to_pylist()
    expected = list(map(message_headers, extensions, bodies))
    seen = [None if row is None else {each["key"]: each["value"] for each in row} for row in found]
    assert seen == [*expected, None]
    assert expected[2] == {"tenant": "a", "try": "2"}
    assert sum(headers is not None for headers in expected) == 6
