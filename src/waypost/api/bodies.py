"""The text of a single body, and its kind. waypost.arrow.bodies does the same for thousands of bodies.

A body of the types VT_BSTR, VT_LPWSTR and VT_LPSTR is text. With type 0 the sender does not say: the
XmlMessageFormatter of .NET writes XML in UTF-8, and NServiceBus and Rebus write XML or JSON. Text is UTF-8 without
control characters, or in the encoding of a byte order mark or an XML declaration; without either, wire.describe
guesses, as in the output of `waypost decode`. XML is recognised by its first characters and never parsed. The time is
linear in the size of any body.
"""

import re
from typing import Final, NamedTuple

import msgspec

from waypost.errors import DecodeError, InvalidParameter
from waypost.limits import MAX_PACKET_SIZE
from waypost.wire.describe.bodies import body_text
from waypost.wire.variant_types import VT_VECTOR, VarType

VT_BSTR: Final = 8
VT_LPSTR: Final = 30
VT_LPWSTR: Final = int(VarType.VT_LPWSTR)
BYTES: Final = VT_VECTOR | VarType.VT_UI1
# The types whose text is UTF-16.
WIDE: Final = frozenset({VT_BSTR, VT_LPWSTR})

_XML_TEXT: Final = re.compile(r"[ \t\r\n]*<[A-Za-z_:?!\x80-\U0010ffff]")
_CONTROL_TEXT: Final = re.compile(r"[\x00-\x08\x0e-\x1f]")

# Its values are checked, but not built.
_JSON: Final = dict[str, msgspec.Raw] | list[msgspec.Raw]
_DECLARATION: Final = b"<?xml"
_ENCODING: Final = re.compile(rb"""<\?xml[^>]{0,200}?\sencoding\s{0,20}=\s{0,20}["']([A-Za-z0-9._-]{1,40})["']""")
# First bytes, encoding, and number of bytes before the text, where no declaration is needed (XML 1.0, appendix F).
_BEGINNINGS: Final = (
    (b"\xef\xbb\xbf", "utf-8", 3),
    (b"\xff\xfe", "utf-16-le", 2),
    (b"\xfe\xff", "utf-16-be", 2),
    (b"<\0?\0", "utf-16-le", 0),
    (b"\0<\0?", "utf-16-be", 0),
)
# Encodings that a declaration may name. Python knows others that do not encode text, or are slow on hostile bytes.
_ENCODINGS: Final = frozenset(
    {
        *("utf-8", "utf-16-le", "utf-16-be", "us-ascii", "koi8-r", "koi8-u", "big5", "gb2312", "gbk", "gb18030"),
        *("shift_jis", "euc-jp", "euc-kr"),
        *(f"iso-8859-{part}" for part in range(1, 17) if part != 12),
        *(f"windows-{page}" for page in range(1250, 1259)),
    }
)
# Names that are wrong in a declaration of single bytes: the writer took them over from a string and encoded that.
_MISTAKEN: Final = frozenset({"utf-16", "utf-16le", "utf-16be", "utf-16-le", "utf-16-be", "unicode", "utf8"})


class Reading(NamedTuple):
    """The text of a body and its kind, or the error."""

    text: str | None
    kind: str
    error: str | None = None


def check_size(body: bytes) -> None:
    """Raises InvalidParameter for a body that is too large for a message."""
    if len(body) > MAX_PACKET_SIZE:
        raise InvalidParameter(
            f"the body has {len(body)} bytes, but a message can have at most {MAX_PACKET_SIZE} bytes (4 MiB); send "
            "the body in parts, or store the body elsewhere and send its location"
        )


def decode_text(body: bytes, body_type: int) -> str:
    """The text of a body. Raises DecodeError if it is not text."""
    if body_type in WIDE:
        encoding = "utf-16-le"
    elif body_type == VT_LPSTR:
        encoding = "utf-8"
    else:
        found = _text_of_bytes(body, body_type)
        if found is not None:
            return found
        encoding = "utf-8"
    try:
        return body.decode(encoding).removesuffix("\0" if body_type in (*WIDE, VT_LPSTR) else "")
    except UnicodeDecodeError as error:
        if body_type == VT_LPSTR:
            return body.decode("latin-1").removesuffix("\0")
        reason = f"a body of type {body_type:#x} with {len(body)} bytes is not text; read the body as bytes"
        raise DecodeError("MS-MQMQ 2.2.19.3", "MessageBody", error.start, reason) from None


def _text_of_bytes(body: bytes, body_type: int) -> str | None:
    """The text of a body of type 0, or of XML in another encoding than UTF-8 in any type; None for other bodies."""
    if not body_type:
        return read_untyped_body(body).text
    if encoding_of(body) == ("utf-8", 0):
        return None
    found = read_untyped_body(body)
    return found.text if found.kind == "xml" else None


def read_untyped_body(body: bytes) -> Reading:
    """Read a body of type 0."""
    encoding, start = encoding_of(body)
    if encoding not in _ENCODINGS:
        return Reading(None, "xml", f"the XML declares the unknown encoding {encoding}; read the body as bytes")
    try:
        text = body[start:].decode(encoding).removesuffix("\0")
    except UnicodeDecodeError as error:
        if body.startswith(_DECLARATION):
            return Reading(
                None, "xml", f"the XML is not valid {encoding} at byte {error.start}; read the body as bytes"
            )
    else:
        # A declaration means XML, whatever follows.
        if text.startswith("<?xml") or (text and not _CONTROL_TEXT.search(text)):
            return Reading(text, kind_of(text))
    guess: str = body_text(body, 0).partition("): ")[2]
    return Reading(guess, kind_of(guess)) if guess else Reading(None, "binary")


def json_text(body: bytes) -> str | None:
    """The text of bytes that are a JSON object or array; None for other bytes."""
    data = body.removeprefix(_BEGINNINGS[0][0])
    if data.lstrip(b" \t\r\n")[:1] not in (b"{", b"["):
        return None
    try:
        msgspec.json.decode(data, type=_JSON)
        return data.decode()
    except (ValueError, RecursionError):
        return None


def kind_of(text: str) -> str:
    """The kind of a text without a type: xml or text."""
    return "xml" if _XML_TEXT.match(text) else "text"


def encoding_of(body: bytes) -> tuple[str, int]:
    """The encoding, and the number of bytes before the text."""
    for beginning, encoding, start in _BEGINNINGS:
        if body.startswith(beginning):
            return encoding, start
    declared = _ENCODING.match(body)
    if declared is None or body.isascii():
        return "utf-8", 0
    name = declared[1].decode("ascii").lower()
    return ("utf-8" if name in _MISTAKEN else name), 0
