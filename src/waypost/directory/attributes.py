"""Directory attributes (MS-MQDMPR 3.1.1): the fields of an object that can be published.

A field is published if its metadata is one of the words below; that word also says how its value is kept. The other
fields of an object never leave the queue manager.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from struct import Struct
from typing import Any, Final

from waypost.wire.certificates import MqUserSignCerts
from waypost.wire.format_names import FormatName
from waypost.wire.keys import MqDsPublicKeys
from waypost.wire.security_descriptor import SecurityDescriptor
from waypost.wire.sid import Sid

_CODEC: Final = "codec"
_NUMBER: Final = Struct("<q")
_GUID_SIZE: Final = 16


@dataclass(frozen=True, slots=True)
class Codec:
    """Codec of the values of an attribute.

    `decode` raises ValueError, struct.error or DecodeError. Its caller checks that `encode` made the bytes, by encoding
    again.
    """

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _published(encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> Mapping[str, Codec]:
    return {_CODEC: Codec(encode, decode)}


def _encode_text(text: str) -> bytes:
    # Names come from packets, which can hold lone surrogates.
    return text.encode("utf-8", "surrogatepass")


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _decode_guid(data: bytes) -> bytes:
    if len(data) != _GUID_SIZE:
        raise ValueError("a GUID must have 16 bytes")
    return data


def _decode_guids(data: bytes) -> tuple[bytes, ...]:
    return tuple(_decode_guid(data[at : at + _GUID_SIZE]) for at in range(0, len(data), _GUID_SIZE))


def _decode_names(data: bytes) -> tuple[FormatName, ...]:
    return tuple(FormatName.parse(text) for text in _decode_text(data).split("\n") if text)


def closed_set(kind: type[IntEnum]) -> Mapping[str, Codec]:
    """The word for an attribute whose values are those of an enumeration."""
    return _published(_NUMBER.pack, lambda data: kind(*_NUMBER.unpack(data)))


TEXT: Final = _published(_encode_text, _decode_text)
NUMBER: Final = _published(_NUMBER.pack, lambda data: _NUMBER.unpack(data)[0])
FLAG: Final = _published(lambda flag: bytes([flag]), lambda data: data == b"\1")
GUID: Final = _published(bytes, _decode_guid)
# Also of digests, which have 16 bytes too.
GUIDS: Final = _published(b"".join, _decode_guids)
# A format name never has a line break in it.
FORMAT_NAMES: Final = _published(lambda names: _encode_text("\n".join(map(str, names))), _decode_names)
SECURITY: Final = _published(SecurityDescriptor.encode, SecurityDescriptor.decode)
SID: Final = _published(Sid.encode, lambda data: Sid.decode(data, 0)[0])
PUBLIC_KEYS: Final = _published(MqDsPublicKeys.encode, lambda data: MqDsPublicKeys.decode(data, 0)[0])
CERTIFICATES: Final = _published(MqUserSignCerts.encode, lambda data: MqUserSignCerts.decode(data, 0)[0])


def codecs_of(object_type: type[Any]) -> dict[str, Codec]:
    """The directory attributes of a type, Identifier among them, in the order of the specification."""
    return {each.name: each.metadata[_CODEC] for each in fields(object_type) if _CODEC in each.metadata}


def comparable(value: object) -> Any:
    """The form of an attribute for comparing and sorting. Texts compare without regard to case."""
    match value:
        case str():
            return value.casefold()
        case int():
            return int(value)
        case bytes():
            return value
        case tuple():
            return tuple(map(comparable, value))
        case FormatName():
            return str(value).casefold()
        case SecurityDescriptor() | Sid() | MqDsPublicKeys() | MqUserSignCerts():
            return value.encode()
    return None
