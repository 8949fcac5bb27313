"""The keys of a queue manager without their files: which one is current, and which ones still decrypt."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from waypost.api.keys import KeyKind


class KeyRecord(Struct, kw_only=True):
    """A key of the queue manager. Its file has the name of its digest."""

    kind: KeyKind
    digest: str
    bits: int
    created: int
    retired: int | None = None
    ends: int | None = None


def rotated(keys: Iterable[KeyRecord], record: KeyRecord, grace_s: int) -> tuple[list[KeyRecord], list[str]]:
    """The keys after a new one is added, and the digests of those that have ended.

    The grace is of the one before. Without a grace, all earlier ones of this kind end, also those of earlier rotations.
    """
    now = record.created
    changed = [record]
    for each in keys:
        if each.kind == record.kind:
            if each.retired is None:
                each = replace(each, retired=now, ends=now + grace_s)  # noqa: PLW2901, the new one
            elif not grace_s:
                each = replace(each, ends=now)  # noqa: PLW2901, the new one
        changed.append(each)
    return ended(changed, now)


def ended(keys: Iterable[KeyRecord], wall: float) -> tuple[list[KeyRecord], list[str]]:
    """The keys without those whose grace has ended, and the digests of those."""
    kept, gone = [], []
    for each in keys:
        if each.ends is not None and each.ends <= wall:
            gone.append(each.digest)
        else:
            kept.append(each)
    return kept, gone


def current_first(keys: Iterable[KeyRecord]) -> list[KeyRecord]:
    return sorted(keys, key=lambda each: each.retired is not None)


def decrypting(keys: Iterable[KeyRecord], wall: float) -> list[KeyRecord]:
    """The exchange keys that decrypt now, the current one first."""
    exchange = [each for each in keys if each.kind == "exchange"]
    return [each for each in current_first(exchange) if each.ends is None or wall < each.ends]
