"""A Waypost daemon as an origin, through its bulk interface."""

from collections.abc import Iterator
from typing import Final

from waypost.arrow.packets import Packets
from waypost.client.bulk.client import BulkClient
from waypost.client.bulk.schema import NewClaim, ReadClaim, RemoveRange
from waypost.spark.options import Place
from waypost.spark.origin import Limits, Part
from waypost.spark.origins.reading import RangeReading


class DaemonOrigin(RangeReading[BulkClient]):
    """See waypost.spark.origin.Origin."""

    def __init__(self, client: BulkClient, place: Place) -> None:
        super().__init__(client, place.locked)
        self._place: Final = place

    def remove(self, name: str, after: int, up_to: int, *, epoch: str) -> int:
        count = 0
        while True:
            removed = self._client.remove(name, RemoveRange(after=after, up_to=up_to, epoch=epoch))
            count += removed.count
            # What is left then is locked: it belongs to somebody else.
            if not removed.count or not removed.left:
                return count

    def claim(self, name: str, claim: str, after: int, limits: Limits, *, epoch: str) -> tuple[int, int]:
        claimed = self._client.claim(name, self._wish(claim, after, limits, epoch))
        return claimed.number, claimed.count

    def settle(self, name: str, claim: str, after: int, *, epoch: str) -> None:
        if after:
            self._client.claim(name, self._wish(claim, after, Limits(0), epoch))

    def read_claim(self, name: str, part: Part, *, epoch: str) -> Iterator[Packets]:
        wanted = ReadClaim(claim=part.claim, number=part.number, start=part.start, stop=part.stop, epoch=epoch)
        for frame in self._client.read_claim_all(name, wanted):
            yield Packets.of_frame(frame, name)

    def _wish(self, claim: str, after: int, limits: Limits, epoch: str) -> NewClaim:
        place = self._place
        wish = NewClaim(claim=claim, after=after, lease_s=place.lease_s, max_aborts=place.max_aborts, epoch=epoch)
        if limits.max_messages is not None:
            wish.max_messages = limits.max_messages
        if limits.max_bytes is not None:
            wish.max_bytes = limits.max_bytes
        return wish
