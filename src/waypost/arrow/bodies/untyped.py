"""Bodies of type 0, of which the sender says nothing: XML, other text, or anything.

The XmlMessageFormatter of .NET writes XML in UTF-8, and so do NServiceBus and Rebus, or JSON. Text is UTF-8 without
control characters, or what a byte order mark or an XML declaration says; where neither does, wire.describe guesses, as
`waypost decode` shows it. XML is recognised by how it begins and never parsed.
"""

import re
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from waypost.arrow.bodies.columns import Columns, Reading, nulls
from waypost.arrow.bodies.flat import any_bits, flat
from waypost.wire.describe.bodies import body_text

_KINDS: Final = pa.array(["empty", "xml", "text"])
_EMPTY, _XML, _TEXT = range(3)

# Below the blank stand control characters, of which text has those from the tabulator to the carriage return.
_BLANK: Final = 32
_FIRST_OF_TEXT: Final = np.uint8(9)
_OF_TEXT: Final = 5

# RE2 sees bytes as Latin-1. A name may begin with any letter that is not ASCII.
_XML_START: Final = r"^[ \t\r\n]*<[A-Za-z_:?!\x80-\xff]"
# A byte order mark, or a declaration of another encoding than UTF-8: everything in which _ENCODING finds one.
_MARKED: Final = (
    r"(?i)^(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)"
    r"|^<\?xml[^>]{0,201}encoding[\s\x0b]*=[\s\x0b]*[\"'](?:[^u]|u[^t]|ut[^f]|utf[^-]|utf-[^8]|utf-8[^\"'])"
)
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


def read_untyped(body: pa.BinaryArray) -> Columns:
    data, offsets = flat(body)
    # Below the first, the difference wraps round to a big number.
    is_control = (data < _BLANK) & (data - _FIRST_OF_TEXT >= _OF_TEXT)
    is_text = ~any_bits(is_control, offsets)
    is_ascii = any_bits(data, offsets) < 0x80
    fast = is_text & is_ascii
    letters = is_text & ~is_ascii
    if letters.any():
        fast |= _utf_8(body, letters)
    slow = body.filter(pa.array(~fast)).to_pylist()
    return Columns.together(
        [
            (np.flatnonzero(fast), _texts(body if fast.all() else body.filter(pa.array(fast)))),
            (np.flatnonzero(~fast), Columns.of_readings(map(_read, slow))),
        ]
    )


def _utf_8(body: pa.BinaryArray, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which of the rows are UTF-8 for sure; none if one of them is not."""
    candidates = body.filter(pa.array(rows))
    sure = ~pc.match_substring_regex(candidates, _MARKED).to_numpy(zero_copy_only=False)
    result = np.zeros(len(rows), np.bool_)
    try:
        candidates.filter(pa.array(sure)).cast(pa.string())
    except pa.ArrowInvalid:
        return result
    result[np.flatnonzero(rows)[sure]] = True
    return result


def _texts(body: pa.BinaryArray) -> Columns:
    """Bodies that are known to be UTF-8 text."""
    is_xml = pc.match_substring_regex(body, _XML_START).to_numpy(zero_copy_only=False)
    kinds = np.where(is_xml, _XML, _TEXT)
    kinds[pc.binary_length(body).to_numpy() == 0] = _EMPTY
    text = body.cast(pa.string(), safe=False)
    return Columns(text, _KINDS.take(pa.array(kinds)), nulls(len(body)))


def _read(body: bytes) -> Reading:
    encoding, start = _encoding(body)
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
            return Reading(text, _kind(text))
    guess = body_text(body, 0).partition("): ")[2]
    return Reading(guess, _kind(guess)) if guess else Reading(None, "binary")


def _kind(text: str) -> str:
    return "xml" if _XML_TEXT.match(text) else "text"


def _encoding(body: bytes) -> tuple[str, int]:
    """The encoding, and how many bytes stand before the text."""
    for beginning, encoding, start in _BEGINNINGS:
        if body.startswith(beginning):
            return encoding, start
    declared = _ENCODING.match(body)
    if declared is None or body.isascii():
        return "utf-8", 0
    name = declared[1].decode("ascii").lower()
    return ("utf-8" if name in _MISTAKEN else name), 0
