"""Headers in the extension field: NServiceBus writes them as XML, Rebus as JSON.

NServiceBus has a list of HeaderInfo elements with Key and Value, in UTF-8, sometimes with a byte order mark and zeros
at the end. Rebus has one JSON object of strings. Whatever else stands there is of somebody else and gives nothing. XML
with a document type is refused where that begins, so there are no entities to expand.
"""

from typing import Final
from xml.parsers import expat

import msgspec
import pyarrow as pa

HEADERS: Final = pa.map_(pa.string(), pa.string())

_MARK: Final = b"\xef\xbb\xbf"
_BLANKS: Final = b" \t\r\n"
_REBUS: Final = msgspec.json.Decoder(dict[str, str | None])


def extension_headers(extension: pa.Array) -> pa.Array:
    """The headers of each extension field, null where it has none."""
    found = map(headers_of, extension.to_pylist())
    return pa.array((None if headers is None else list(headers.items()) for headers in found), HEADERS)


def headers_of(extension: bytes | None) -> dict[str, str] | None:
    """The headers in one extension field, None if it has none. A header without a value has an empty one."""
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
        # Text of Python is read as it is, whatever encoding the declaration names.
        parser.Parse(data.decode(), True)
    except (expat.ExpatError, UnicodeDecodeError, _Unwanted):
        return None
    return reader.headers


class _Unwanted(Exception):
    """The XML is not what NServiceBus writes."""


class _HeaderInfos:
    """What the parser calls. `headers` are whole when it is done."""

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
