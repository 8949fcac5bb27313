"""What is remembered of single messages for a while: bounded in total, and for each peer that causes it."""

from typing import Final, Generic, Protocol, TypeVar


class Recorded(Protocol):
    """`peer` is the address that caused it."""

    @property
    def peer(self) -> str: ...


R = TypeVar("R", bound=Recorded)


class RecentRecords(Generic[R]):
    """Records by the identifiers of messages, the last one at the end.

    A peer that has its share loses its own oldest record, so that it takes nothing from the others.
    """

    __slots__ = ("_by_peer", "_of_peer", "_total", "records")

    def __init__(self, total: int, of_peer: int) -> None:
        self._total: Final = total
        self._of_peer: Final = of_peer
        self.records: dict[bytes, R] = {}
        self._by_peer: dict[str, dict[bytes, None]] = {}

    def __len__(self) -> int:
        return len(self.records)

    def get(self, identifier: bytes) -> R | None:
        return self.records.get(identifier)

    def put(self, identifier: bytes, record: R) -> None:
        """It takes the place of an earlier record of the same message."""
        self.discard(identifier)
        own = self._by_peer.setdefault(record.peer, {})
        if len(own) >= self._of_peer:
            self.discard(next(iter(own)))
            own = self._by_peer.setdefault(record.peer, {})
        elif len(self.records) >= self._total:
            self.discard(next(iter(self.records)))
            own = self._by_peer.setdefault(record.peer, {})
        self.records[identifier] = record
        own[identifier] = None
        assert len(self.records) <= self._total, "what is remembered is bounded"

    def discard(self, identifier: bytes) -> None:
        record = self.records.pop(identifier, None)
        if record is None:
            return
        own = self._by_peer[record.peer]
        del own[identifier]
        if not own:
            del self._by_peer[record.peer]
