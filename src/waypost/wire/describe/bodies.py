"""A message body as people read it: the value by its BodyType, or text where bytes are text.

BodyType uses the whole space of variant types, of which MS-MQMQ 2.2.12 names a part; the others are those that the
formatters of Windows write.
"""

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from waypost.guid import guid_text
from waypost.wire.describe.model import Value
from waypost.wire.variant_types import VT_VECTOR, VarType

VT_BSTR: Final = 8
VT_LPSTR: Final = 30
VT_ARRAY: Final = 0x2000

_OTHER_NAMES: Final = {
    4: "VT_R4", 5: "VT_R8", 6: "VT_CY", 7: "VT_DATE", VT_BSTR: "VT_BSTR", 9: "VT_DISPATCH", 10: "VT_ERROR",
    13: "VT_UNKNOWN", 14: "VT_DECIMAL", 22: "VT_INT", 23: "VT_UINT", VT_LPSTR: "VT_LPSTR", 64: "VT_FILETIME",
    66: "VT_STREAM", 68: "VT_STREAMED_OBJECT", 69: "VT_STORED_OBJECT", VT_VECTOR | VarType.VT_UI1: "VT_VECTOR|VT_UI1",
    VT_ARRAY | VarType.VT_UI1: "VT_ARRAY|VT_UI1",
}  # fmt: skip
_NAMES: Final = {**_OTHER_NAMES, **{member.value: member.name for member in VarType}}

_WIDE: Final = frozenset((VT_BSTR, VarType.VT_LPWSTR))
_TEXT: Final = _WIDE | {VarType.VT_EMPTY, VT_LPSTR, VT_VECTOR | VarType.VT_UI1, VT_ARRAY | VarType.VT_UI1}

# Prefix of the meaning of bytes that are text.
TEXT_MARK: Final = "text ("

_LINE_BREAKS: Final = str.maketrans("", "", "\t\r\n")
_WIDE_MARK: Final = b"\xff\xfe"


def variant(raw: int) -> tuple[Value, str]:
    return raw, _NAMES.get(raw, "not a known variant type")


def body_text(body: bytes, body_type: int) -> str:
    """The text of a body whose type is a text type; empty if it does not decode."""
    if body_type in _TEXT:
        return _text(body, body_type)
    # VARIANT_BOOL has two bytes, but not every sender writes both.
    if body_type == VarType.VT_BOOL and len(body) in (1, 2):
        return "true" if any(body) else "false"
    layout, show = _VALUES.get(body_type, ("", str))
    if not body or struct.calcsize(layout) != len(body):
        return ""
    return show(*struct.unpack(layout, body))


def _text(body: bytes, body_type: int) -> str:
    is_wide = body_type in _WIDE or body.startswith(_WIDE_MARK)
    for encoding in ("utf-16-le", "utf-8") if is_wide else ("utf-8", "utf-16-le"):
        try:
            text = body.decode(encoding).removeprefix("\ufeff").rstrip("\0")
        except UnicodeDecodeError:
            continue
        # Any two bytes are a character of UTF-16, most of them Chinese.
        is_guess = encoding == "utf-16-le" and not is_wide
        if text and text.translate(_LINE_BREAKS).isprintable() and not (is_guess and _is_mostly_foreign(text)):
            return f"{TEXT_MARK}{encoding}): {text}"
    return ""


def _is_mostly_foreign(text: str) -> bool:
    return 2 * len(text.encode("ascii", "ignore")) < len(text)


def _date(days: float) -> str:
    """VT_DATE counts days from 1899-12-30; before it, the fraction still counts forward from midnight."""
    # A number near 0 or beyond all calendars is not a date.
    if not 1e-6 < abs(days) < 2_958_466:
        return ""
    return _moment(datetime(1899, 12, 30, tzinfo=UTC), timedelta(days=int(days) + abs(days - int(days))))


def _file_time(ticks: int) -> str:
    moment = _moment(datetime(1601, 1, 1, tzinfo=UTC), timedelta(microseconds=ticks // 10))
    return moment and f"{moment} UTC"


def _moment(start: datetime, passed: timedelta) -> str:
    try:
        return f"{start + passed:%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return ""


def _currency(ten_thousandths: int) -> str:
    return str(Decimal(ten_thousandths).scaleb(-4))


# By BodyType: how `struct` reads the body, and how the value is shown.
_VALUES: Final[dict[int, tuple[str, Callable[[Any], str]]]] = {
    VarType.VT_I1: ("<b", str),
    VarType.VT_UI1: ("<B", str),
    VarType.VT_I2: ("<h", str),
    VarType.VT_UI2: ("<H", str),
    VarType.VT_I4: ("<i", str),
    VarType.VT_UI4: ("<I", str),
    VarType.VT_I8: ("<q", str),
    VarType.VT_UI8: ("<Q", str),
    22: ("<i", str),
    23: ("<I", str),
    4: ("<f", "{:.9g}".format),
    5: ("<d", str),
    6: ("<q", _currency),
    7: ("<d", _date),
    10: ("<I", "0x{:08X}".format),
    64: ("<Q", _file_time),
    VarType.VT_CLSID: ("<16s", guid_text),
}
