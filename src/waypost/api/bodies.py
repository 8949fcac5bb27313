"""What is in a body, one by one: its text, and what kind of text. waypost.arrow.bodies does it by the thousand.

A body of the types VT_BSTR, VT_LPWSTR and VT_LPSTR is text. Of type 0 the sender says nothing: the XmlMessageFormatter
of .NET writes XML in UTF-8, and so do NServiceBus and Rebus, or JSON. Text is UTF-8 without control characters, or what
a byte order mark or an XML declaration says; where neither does, wire.describe guesses, as `waypost decode` shows it.
XML is recognised by how it begins and never parsed. Time is linear in the body, whatever is in it.
"""

import re
from typing import Final, NamedTuple

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

_DECLARATION: Final = b"<?xml"
_ENCODING: Final = re.compile(rb"""<\?xml[^>]{0,200}?\sencoding\s{0,20}=\s{0,20}["']([A-Za-z0-9._-]{1,40})["']""")
# How bytes begin in each encoding that needs no declaration (XML 1.0, appendix F), and what of it is no text.
_BEGINNINGS: Final = (
    (b"\xef\xbb\xbf", "utf-8", 3),
    (b"\xff\xfe", "utf-16-le", 2),
    (b"\xfe\xff", "utf-16-be", 2),
    (b"<\0?\0", "utf-16-le", 0),
    (b"\0<\0?", "utf-16-be", 0),
)
# What may be named. Python knows more, some of which are no encodings of text or slow on hostile bytes.
_ENCODINGS: Final = frozenset(
    {
        *("utf-8", "utf-16-le", "utf-16-be", "us-ascii", "koi8-r", "koi8-u", "big5", "gb2312", "gbk", "gb18030"),
        *("shift_jis", "euc-jp", "euc-kr"),
        *(f"iso-8859-{part}" for part in range(1, 17) if part != 12),
        *(f"windows-{page}" for page in range(1250, 1259)),
    }
)
# Names that cannot be right for a declaration in letters of one byte: the writer encoded a string that named them.
_MISTAKEN: Final = frozenset({"utf-16", "utf-16le", "utf-16be", "utf-16-le", "utf-16-be", "unicode", "utf8"})


class Reading(NamedTuple):
    """What one body says."""

    text: str | None
    kind: str
    error: str | None = None


def check_size(body: bytes) -> None:
    """Raises InvalidParameter for a body that no message has room for."""
    if len(body) > MAX_PACKET_SIZE:
        raise InvalidParameter(
            f"the body has {len(body)} bytes, and a message at most {MAX_PACKET_SIZE} (4 MiB) with all that belongs "
            "to it; send it in parts, or send the place where it is kept"
        )


def decode_text(body: bytes, body_type: int) -> str:
    """The text of a body. Raises DecodeError if it is none."""
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
        reason = f"{len(body)} bytes of type {body_type:#x} are not text; take them as bytes"
        raise DecodeError("MS-MQMQ 2.2.19.3", "MessageBody", error.start, reason) from None


def _text_of_bytes(body: bytes, body_type: int) -> str | None:
    """What is more than UTF-8: text of no type, and XML in other encodings whatever the type. None for the rest."""
    if not body_type:
        return read_untyped_body(body).text
    if encoding_of(body) == ("utf-8", 0):
        return None
    found = read_untyped_body(body)
    return found.text if found.kind == "xml" else None


def read_untyped_body(body: bytes) -> Reading:
    """A body of type 0."""
    encoding, start = encoding_of(body)
    if encoding not in _ENCODINGS:
        return Reading(None, "xml", f"the XML declares the encoding {encoding}, which is not known; take it as bytes")
    try:
        text = body[start:].decode(encoding).removesuffix("\0")
    except UnicodeDecodeError as error:
        if body.startswith(_DECLARATION):
            return Reading(None, "xml", f"the XML is not {encoding} at byte {error.start}; take it as bytes")
    else:
        # Who writes a declaration means XML, whatever follows.
        if text.startswith("<?xml") or (text and not _CONTROL_TEXT.search(text)):
            return Reading(text, kind_of(text))
    guess: str = body_text(body, 0).partition("): ")[2]
    return Reading(guess, kind_of(guess)) if guess else Reading(None, "binary")


def kind_of(text: str) -> str:
    """Of text whose sender says nothing of it."""
    return "xml" if _XML_TEXT.match(text) else "text"


def encoding_of(body: bytes) -> tuple[str, int]:
    """The encoding, and how many bytes stand before the text."""
    for beginning, encoding, start in _BEGINNINGS:
        if body.startswith(beginning):
            return encoding, start
    declared = _ENCODING.match(body)
    if declared is None or body.isascii():
        return "utf-8", 0
    name = declared[1].decode("ascii").lower()
    return ("utf-8" if name in _MISTAKEN else name), 0
