"""Headers that frameworks put into a message: NServiceBus and Rebus into the extension, MassTransit into the body.

NServiceBus writes XML, a list of HeaderInfo elements with Key and Value, in UTF-8, sometimes with a byte order mark and
zeros at the end. Rebus writes one JSON object of strings. MassTransit writes a JSON envelope with `headers` beside the
`message`. Other content has no headers. XML with a document type is refused where that begins, so that no entities are
expanded.
"""

from typing import Any, Final
from xml.parsers import expat

import msgspec

_MARK: Final = b"\xef\xbb\xbf"
_BLANKS: Final = b" \t\r\n"
_REBUS: Final = msgspec.json.Decoder(dict[str, str | None])


class _Envelope(msgspec.Struct, rename="camel"):
    """An envelope of MassTransit: the fields that distinguish it from other JSON, and its headers."""

    message_type: list[str]
    message: msgspec.Raw
    headers: dict[str, Any] = {}


_MASS_TRANSIT: Final = msgspec.json.Decoder(_Envelope)


def message_headers(extension: bytes, body: bytes) -> dict[str, str] | None:
    """The headers of a message; None if it has none of a framework."""
    found = headers_of(extension) if extension else None
    return envelope_headers(body) if found is None else found


def envelope_headers(body: bytes) -> dict[str, str] | None:
    """The headers in an envelope of MassTransit; None for other bodies. Values that are not text become JSON."""
    data = body.removeprefix(_MARK).lstrip(_BLANKS)
    # Most bodies need no decoding.
    if not data.startswith(b"{") or b'"messageType"' not in data:
        return None
    try:
        headers = _MASS_TRANSIT.decode(data).headers
    except ValueError:
        return None
    return {
        key: value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()
        for key, value in headers.items()
    }


def headers_of(extension: bytes | None) -> dict[str, str] | None:
    """The headers in one extension field; None if it has none. A header without a value has an empty one."""
    data = (extension or b"").removeprefix(_MARK).rstrip(b"\0").strip(_BLANKS)
    if data.startswith(b"<"):
        return _nservicebus(data)
    return _rebus(data) if data.startswith(b"{") else None


def _rebus(data: bytes) -> dict[str, str] | None:
    try:
        headers = _REBUS.decode(data)
    except ValueError:
        return None
    return {key: value or "" for key, value in headers.items()}


def _nservicebus(data: bytes) -> dict[str, str] | None:
    reader = _HeaderInfos()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        # For a str, the parser ignores the encoding of the declaration.
        parser.Parse(data.decode(), True)
    except (expat.ExpatError, UnicodeDecodeError, _Unwanted):
        return None
    return reader.headers


class _Unwanted(Exception):
    """The XML is not what NServiceBus writes."""


class _HeaderInfos:
    """Handlers for the parser. `headers` are complete at its end."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self._depth = 0
        self._item: dict[str, list[str]] = {}
        self._parts: list[str] | None = None

    def doctype(self, *_: object) -> None:
        raise _Unwanted

    def start(self, name: str, _: object) -> None:
        self._depth += 1
        match self._depth, name:
            case 1, "ArrayOfHeaderInfo":
                return
            case 2, "HeaderInfo":
                self._item = {}
            case 3, name:
                self._parts = self._item[name] = []
            case _:
                raise _Unwanted

    def end(self, _: str) -> None:
        self._depth -= 1
        self._parts = None
        if self._depth == 1 and "Key" in self._item:
            self.headers["".join(self._item["Key"])] = "".join(self._item.get("Value", ()))

    def text(self, text: str) -> None:
        if self._parts is not None:
            self._parts.append(text)
