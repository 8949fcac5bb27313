"""What the bulk interface needs over HTTP beside the rows of its operations: frames, and a list made part by part.

A frame is binary, whatever the request accepts; a refusal is not.
"""

import asyncio
from contextlib import suppress

from litestar import Response

from waypost.api.bulk import BulkQueue, BulkQueues, ListBulkQueues, ReadClaim, ReadRange, ShowBulkQueue
from waypost.api.frames import MEDIA_TYPE
from waypost.errors import QueueNotFound
from waypost.http.service import Service
from waypost.http.slices import slices
from waypost.node.bulk import matching
from waypost.wire.format_names import FormatName


async def list_queues(service: Service, operation: ListBulkQueues) -> BulkQueues:
    """Each as it is when its part comes."""
    found: list[BulkQueue] = []
    async for names in slices(service.shell.look(matching, service.node.manager, operation)):
        shown = await asyncio.gather(*(_shown(service, name) for name in names))
        found += [queue for queue in shown if queue is not None]
    return BulkQueues(found)


async def _shown(service: Service, name: FormatName) -> BulkQueue | None:
    """None if it was deleted meanwhile."""
    with suppress(QueueNotFound):
        return await service.shell.call(ShowBulkQueue(name=str(name)))
    return None


async def framed(service: Service, operation: ReadRange | ReadClaim) -> Response[bytes]:
    frame = await service.shell.call(operation)
    return Response(bytes(frame.data), media_type=MEDIA_TYPE)
