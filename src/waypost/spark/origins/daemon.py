"""A Waypost daemon as an origin, through its bulk interface."""

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET

from waypost.api.bulk import DEFAULT_READ, Claim, ReadClaim, RemoveRange
from waypost.arrow.packets import Packets
from waypost.client.bulk.client import BulkClient
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
            removed = self._client.remove(RemoveRange(name=name, after=after, up_to=up_to, epoch=epoch))
            count += removed.count
            # What is left then is locked: it belongs to somebody else.
            if not removed.count or not removed.left:
                return count

    def claim(self, name: str, claim: str, after: int, limits: Limits, *, epoch: str) -> tuple[int, int]:
        place = self._place
        wish = Claim(
            name=name,
            claim=claim,
            after=after,
            max_messages=DEFAULT_READ if limits.max_messages is None else limits.max_messages,
            max_bytes=UNSET if limits.max_bytes is None else limits.max_bytes,
            lease_s=place.lease_s,
            max_aborts=place.max_aborts,
            epoch=epoch,
        )
        claimed = self._client.claim(wish)
        return claimed.number, claimed.count

    def settle(self, name: str, claim: str, after: int, *, epoch: str) -> None:
        if after:
            self._client.settle(name, claim, after, epoch=epoch)

    def read_claim(self, name: str, part: Part, *, epoch: str) -> Iterator[Packets]:
        wanted = ReadClaim(
            name=name, claim=part.claim, number=part.number, start=part.start, stop=part.stop, epoch=epoch
        )  # fmt: skip
        for frame in self._client.read_claim_all(wanted):
            yield Packets.of_frame(frame, name)
