"""Record: the answer of an operation. Python, HTTP and `--json` use the same object."""

from typing import TypeVar

import msgspec

R = TypeVar("R")


class Record(msgspec.Struct, frozen=True):
    """A frozen record. `to_dict` returns its JSON object."""

    def to_dict(self) -> dict[str, object]:
        """Return the record as a dict that `json.dumps` accepts."""
        return plain(self)


def plain(record: msgspec.Struct) -> dict[str, object]:
    """A record as values of JSON: times are ISO 8601 text, and bytes are base64. MessagePack has the same."""
    return msgspec.json.decode(msgspec.json.encode(record), type=dict[str, object])


def record_of(values: object, kind: type[R]) -> R:
    """The record of values: the reverse of `plain`. Raises msgspec.ValidationError."""
    return msgspec.convert(values, kind)
