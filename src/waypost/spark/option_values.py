"""Parse the values of options. An invalid value raises an error that shows the allowed values."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from waypost.api.excerpt import excerpt
from waypost.core.positions import SEQUENCE_MASK
from waypost.errors import DecodeError, InvalidParameter
from waypost.guid import parse_guid
from waypost.wire.message_class import MessageClass

T = TypeVar("T")

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SPAN: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(ms|s|m|h|d)?", re.ASCII | re.IGNORECASE)
_SIZE: Final = re.compile(r"(\d{1,15})\s*([kmg]?)(?:i?b)?", re.ASCII | re.IGNORECASE)
_BOOLEANS: Final = {"true": True, "false": False}
# An arrival number has 56 bits.
MAX_NUMBER: Final = SEQUENCE_MASK
# One end of a queue, an arrival number (seq), or a time.
Place: TypeAlias = Literal["earliest", "latest"] | int | datetime
# The numbers that Kafka has for the ends of a partition.
_ENDS: Final[dict[int, Literal["latest", "earliest"]]] = {-1: "latest", -2: "earliest"}
_PREFIX: Final = "MQMSG_CLASS_"
_MAX_CLASS: Final = 0xFFFF


@dataclass(frozen=True, slots=True)
class Given:
    """The options of the user as texts. Names are not case-sensitive."""

    values: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """The text of an option, or None if it is missing. Raises InvalidParameter if it is empty."""
        found = self.values.get(name.lower())
        if found is not None and not found.strip():
            raise InvalidParameter(f"the option `{name}` is empty; set a value, or remove the option")
        return found

    def read(self, name: str, reader: Callable[[str, str], T], default: T) -> T:
        found = self.text(name)
        return default if found is None else reader(name, found)

    def word(self, name: str, words: Sequence[str], default: str) -> str:
        found = self.text(name)
        if found is None:
            return default
        if found.lower() not in words:
            raise refused(name, found, f"one of {', '.join(words)}")
        return found.lower()

    def secret(self, name: str, environment: str | None) -> str | None:
        """The content of the file that the option names; without the option, the value of the environment."""
        found = self.text(name)
        if found is None:
            return environment or None
        try:
            return Path(found).read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            raise InvalidParameter(f"cannot read {excerpt(found)}, the file of the option `{name}`: {reason}") from None


def refused(name: str, found: object, allowed: str) -> InvalidParameter:
    return InvalidParameter(f"the option `{name}` must be {allowed}, not {excerpt(found)}")


def boolean(name: str, text: str) -> bool:
    found = _BOOLEANS.get(text.strip().lower())
    if found is None:
        raise refused(name, text, "true or false")
    return found


def count(name: str, text: str) -> int:
    return _whole(name, text, 1)


def count_or_none(name: str, text: str) -> int:
    """A whole number; 0 means never."""
    return _whole(name, text, 0)


def seconds(name: str, text: str) -> float:
    found = _SPAN.fullmatch(text.strip())
    if found is None or not (span := float(found[1]) * _SECONDS[(found[2] or "s").lower()]):
        raise refused(name, text, "a duration such as 90, 90s, 15m or 1h")
    return span


def size(name: str, text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None or not (number := int(found[1]) * _BYTES[found[2].lower()]):
        raise refused(name, text, "a number of bytes such as 1048576, 512k, 64m or 1g")
    return number


def time(name: str, text: str) -> datetime:
    """A time in ISO 8601, in UTC if it has no zone, or in milliseconds since 1970."""
    try:
        if text.strip().isdecimal():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        found = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError, OSError):
        raise refused(
            name, text, "a time such as 2026-03-01T08:00:00Z, or a number of milliseconds since 1970"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def positions(name: str, text: str) -> dict[str, Place]:
    """A place for each queue: an arrival number, -1 or -2 for an end, or the whole object from a checkpoint."""
    found = _parsed(text)
    if not isinstance(found, dict) or not found:
        raise refused(name, text, '`earliest`, `latest` or JSON such as {"orders": 42}')
    return {queue: _position(name, queue, value) for queue, value in found.items()}


def times(name: str, text: str) -> dict[str, Place]:
    """A time for each queue, in the forms of `time`; -1 or -2 for an end of the queue."""
    found = _parsed(text)
    if not isinstance(found, dict) or not found:
        raise refused(name, text, 'JSON such as {"orders": 1772352000000}')
    return {
        queue: _ENDS[value] if _is_end(value) else time(f"{name}` for the queue `{queue}", str(value))
        for queue, value in found.items()
    }


def texts(name: str, text: str) -> tuple[str, ...]:
    """A JSON list of texts."""
    found = _parsed(text)
    if not isinstance(found, list) or not found or not all(isinstance(each, str) for each in found):
        raise refused(name, text, 'a JSON list such as ["orders", "returns"]')
    return tuple(found)


def classes(name: str, text: str) -> frozenset[int]:
    """Classes of messages by their numbers, or by their names without MQMSG_CLASS_."""
    return frozenset(_class(name, part.strip()) for part in text.split(","))


def _class(name: str, text: str) -> int:
    known = MessageClass.__members__.get(f"{_PREFIX}{text.upper().removeprefix(_PREFIX)}")
    if known is not None:
        return int(known)
    try:
        number = int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        number = -1
    if not 0 <= number <= _MAX_CLASS:
        raise refused(name, text, "a list of message classes such as normal, report, nack_q_deleted, 0x4000 or 32768")
    return number


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_end(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _ENDS


def names(name: str, text: str) -> tuple[str, ...]:
    """A list separated by commas, which queue names never contain."""
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise refused(name, text, "a list of non-empty names such as orders,returns")
    twice = {part for part in found if [each.lower() for each in found].count(part.lower()) > 1}
    if twice:
        raise InvalidParameter(f"the option `{name}` contains {excerpt(min(twice))} twice")
    return found


def _position(name: str, queue: str, value: Any) -> Place:
    if _is_end(value):
        return _ENDS[value]
    found = value.get("seq") if isinstance(value, dict) else value
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= MAX_NUMBER:
        raise InvalidParameter(
            f"the option `{name}` has an invalid position for the queue {excerpt(queue)}: {excerpt(value)}; "
            "use an arrival number (seq), -1 (the end of the queue) or -2 (the beginning of the queue)"
        )
    return found


def _whole(name: str, text: str, least: int) -> int:
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdecimal() and len(stripped) < 18 and int(stripped) >= least):
        raise refused(name, text, f"a whole number of at least {least}")
    return int(stripped)


def guid(name: str, text: str) -> str:
    if not is_guid(text.strip()):
        raise refused(name, text, "a GUID, such as the result of str(uuid.uuid4())")
    return text.strip()


def is_guid(text: str) -> bool:
    try:
        return bool(parse_guid(text))
    except DecodeError:
        return False
