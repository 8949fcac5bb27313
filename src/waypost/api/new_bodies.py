"""Bodies to send: bytes or text in Python, BodyType and bytes in the message. waypost.api.bodies reads them.

Text travels as VT_BSTR, UTF-16 without an end mark: the only type that both the ActiveXMessageFormatter of .NET and the
COM objects of MSMQ read as a string. Bytes travel as VT_VECTOR | VT_UI1, which both read as an array of bytes.
The XmlMessageFormatter, the default of .NET, reads UTF-8 text of type 0: `xml_body` writes it. Bodies of the
BinaryMessageFormatter of .NET stay bytes; nothing here ever turns a body into objects.
"""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from msgspec import UNSET

from waypost.api.bodies import BYTES, VT_BSTR, WIDE, check_size
from waypost.api.properties import NewMessage
from waypost.errors import InvalidParameter

Body: TypeAlias = str | bytes | bytearray | memoryview


def encode_body(body: Body, body_type: int | None) -> tuple[bytes, int]:
    """The bytes and the BodyType. Text is UTF-16 in the types of wide strings, and UTF-8 in every other."""
    if isinstance(body, str):
        number = VT_BSTR if body_type is None else body_type
        data = _encoded(body, "utf-16-le" if number in WIDE else "utf-8")
    elif isinstance(body, bytes | bytearray | memoryview):
        number = BYTES if body_type is None else body_type
        data = bytes(body)
    else:
        raise InvalidParameter(
            f"a body must be bytes or text, not {type(body).__name__}; convert it first, for example with json"
        )
    check_size(data)
    return data, number


def encode_bodies(bodies: Iterable[Body], body_type: int | None) -> tuple[list[bytes], int]:
    """The bytes and the one BodyType of messages that are sent together."""
    if isinstance(bodies, str | bytes | bytearray | memoryview):
        raise InvalidParameter("`bodies` must be a list of bodies, not one body")
    if not isinstance(bodies, Iterable):
        raise InvalidParameter(f"`bodies` must be a list of bodies, not {type(bodies).__name__}")
    if isinstance(bodies, list) and set(map(type, bodies)) == {bytes}:
        # Thousands of them come at once.
        check_size(max(bodies, key=len))
        return bodies, BYTES if body_type is None else body_type
    encoded = []
    number = body_type
    for body in bodies:
        data, found = encode_body(body, body_type)
        if found != number and number is not None:
            raise InvalidParameter("bodies that are sent together must be all text or all bytes")
        number = found
        encoded.append(data)
    return encoded, BYTES if number is None else number


def body_of(message: NewMessage) -> Body:
    """The body of a message. Raises InvalidParameter if it is given twice."""
    bodies = [body for body in (message.body, message.body_base64, message.body_text) if body is not UNSET]
    if len(bodies) > 1:
        raise InvalidParameter("`body`, `body_base64` and `body_text` are mutually exclusive")
    return bodies[0] if bodies else b""


def xml_body(text: str) -> bytes:
    """Encode text as the XmlMessageFormatter of .NET encodes a string. Send the result with `body_type=0`."""
    if not isinstance(text, str):
        raise InvalidParameter(f"the body must be text, not {type(text).__name__}")
    return _encoded(f'<?xml version="1.0"?>\r\n<string>{escape(text, quote=False)}</string>', "utf-8")


def _encoded(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        raise InvalidParameter(f"the body is not valid text: {error.reason}") from None
