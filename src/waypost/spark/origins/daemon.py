"""A Waypost daemon as an origin, through its bulk interface."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from waypost.api.bulk import Claim, Claimed, KeepClaim, ReadClaim, RemoveRange, TakeClaim, Taken
from waypost.arrow.packets import Packets
from waypost.client.bulk.client import BulkClient
from waypost.spark.options import Endpoint
from waypost.spark.origins.reading import RangeReading


class DaemonOrigin(RangeReading[BulkClient]):
    """The Origin of a daemon."""

    def __init__(self, client: BulkClient, endpoint: Endpoint) -> None:
        super().__init__(client, endpoint.locked)
        self._endpoint: Final = endpoint

    def remove(self, wanted: RemoveRange) -> int:
        count = 0
        while True:
            removed = self._client.remove(wanted)
            count += removed.count
            # The messages that are left then are locked by another reader.
            if not removed.count or not removed.left:
                return count

    def claim(self, wish: Claim) -> Claimed:
        return self._client.claim(replace(wish, lease_s=self._endpoint.lease_s, max_aborts=self._endpoint.max_aborts))

    def take_claim(self, wish: TakeClaim) -> Taken:
        return self._client.take_claim(wish)

    def keep_claim(self, wish: KeepClaim) -> None:
        self._client.keep_claim(wish)

    def read_claim(self, wanted: ReadClaim) -> Iterator[Packets]:
        for frame in self._client.read_claim_all(wanted):
            yield Packets.of_frame(frame, wanted.name)

    def batches(self, query: str) -> Sequence[int]:
        return self._client.batches(query)
