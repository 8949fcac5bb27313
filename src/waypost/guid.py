"""GUIDs as 16 bytes in packet form (MS-DTYP 2.3.4.2): Data1, Data2 and Data3 little-endian, Data4 as it stands.

A GUID stays `bytes` everywhere: it is a key and a field, rarely a thing to look at. Text has 8-4-4-4-12 hexadecimal
digits; format names print it bare, MS-DTYP 2.3.4.3 and message ids put it in braces.
"""

import re
from typing import Final

from waypost.errors import DecodeError

NULL_GUID: Final = bytes(16)

# The 8-4-4-4-12 form as a regular expression, also for JSON Schema and Java.
GUID_PATTERN: Final = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

_TEXT: Final = re.compile(GUID_PATTERN)


def guid_text(guid: bytes) -> str:
    """The 8-4-4-4-12 form, lower case, without braces."""
    data4 = guid[8:].hex()
    return f"{guid[3::-1].hex()}-{guid[5:3:-1].hex()}-{guid[7:5:-1].hex()}-{data4[:4]}-{data4[4:]}"


def braced_guid_text(guid: bytes) -> str:
    """MS-DTYP 2.3.4.3: the same in braces."""
    return f"{{{guid_text(guid)}}}"


def parse_guid(text: str) -> bytes:
    """Sixteen bytes from the 8-4-4-4-12 form, with or without braces, in upper or lower case."""
    braced = text.startswith("{") and text.endswith("}")
    bare = text[1:-1] if braced else text
    if _TEXT.fullmatch(bare) is None:
        raise DecodeError("MS-DTYP 2.3.4.3", "GUID", 0, f"{text[:60]!r} is not a GUID of 8-4-4-4-12 hexadecimal digits")
    data = bytes.fromhex(bare.replace("-", ""))
    return data[3::-1] + data[5:3:-1] + data[7:5:-1] + data[8:]
