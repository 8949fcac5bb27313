"""The bulk interface over HTTP, beside the rows of its operations: frames, and a list built part by part.

A frame is always binary, whatever the request accepts; an error is not.
"""

from waypost.api.bulk import BulkQueue, BulkQueues, ListBulkQueues, ReadRange
from waypost.api.claims import ReadClaim
from waypost.api.frames import MEDIA_TYPE
from waypost.api.local import ShowBulkQueues
from waypost.http.requests import Response
from waypost.http.service import Service
from waypost.http.slices import slices
from waypost.node.bulk import matching


async def list_queues(service: Service, operation: ListBulkQueues) -> BulkQueues:
    """List queues; each is shown as it is when its part comes."""
    found: list[BulkQueue] = []
    async for names in slices(service.shell.look(matching, service.node.manager, operation)):
        found += (await service.call(ShowBulkQueues(names=tuple(names)))).queues
    return BulkQueues(found)


async def framed(service: Service, operation: ReadRange | ReadClaim) -> Response:
    frame = await service.call(operation)
    return Response(bytes(frame.data), media_type=MEDIA_TYPE)
