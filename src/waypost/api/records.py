"""Record: what an operation is answered with. The same object is the one of Python, of HTTP and of `--json`."""

from typing import TypeVar

import msgspec

R = TypeVar("R")


class Record(msgspec.Struct, frozen=True):
    """A frozen record of one fact. `to_dict` gives its JSON object."""

    def to_dict(self) -> dict[str, object]:
        """Ready for json."""
        return plain(self)


def plain(record: msgspec.Struct) -> dict[str, object]:
    """The values of JSON: times are ISO 8601 text, and bytes base64. MessagePack has the same."""
    return msgspec.json.decode(msgspec.json.encode(record), type=dict[str, object])


def record_of(values: object, kind: type[R]) -> R:
    """The reverse of `plain`. Raises msgspec.ValidationError."""
    return msgspec.convert(values, kind)
