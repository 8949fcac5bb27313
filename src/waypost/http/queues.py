"""/api/queues: to create, change and purge queues. waypost.http.bound has the rest."""

from litestar import patch, post
from litestar.params import JSONBody
from msgspec import UNSET
from msgspec.structs import replace

from waypost.api.properties import QueueProperties
from waypost.api.queues import QueueInfo
from waypost.client.aio_queue import Queue
from waypost.client.queue_info import ignored, queue_attributes
from waypost.client.remote.schema import NewQueue
from waypost.http.parameters import Name, Outgoing, Served, decoded
from waypost.http.service import Service
from waypost.wire.format_names import FormatName


@post("/api/queues")
async def create_queue(data: JSONBody[NewQueue], service: Served) -> QueueInfo:
    """Create a queue."""
    properties, notes = _without_ignored(service.name(data.name), data)
    queue = await service.manager.create_queue_record(data.name, properties, transactional=data.transactional)
    return _noted(await queue.info(), notes)


@patch("/api/queues/{name:str}")
async def change_queue(name: Name, data: JSONBody[QueueProperties], service: Served) -> QueueInfo:
    """Change properties; the others stay."""
    queue = _queue(service, name)
    properties, notes = _without_ignored(service.name(decoded(name)), data)
    with service.remote.explaining(decoded(name)):
        await queue.set_record(properties)
        return _noted(await queue.info(), notes)


@post("/api/queues/{name:str}/purge", status_code=204)
async def purge_queue(name: Name, service: Served, outgoing: Outgoing = False) -> None:
    """Remove all messages that are in the queue now."""
    async with service.queue(decoded(name), outgoing=outgoing) as queue:
        await queue.purge()


def _without_ignored(name: FormatName, properties: QueueProperties) -> tuple[QueueProperties, list[str]]:
    """Leave out what changes nothing, once it is checked. A sentence for it, if something was."""
    queue_attributes(properties)
    sentence = ignored(name, properties)
    return (replace(properties, base_priority=UNSET), [sentence]) if sentence else (properties, [])


def _noted(found: QueueInfo, notes: list[str]) -> QueueInfo:
    return replace(found, notes=tuple(notes)) if notes else found


def _queue(service: Service, name: str) -> Queue:
    return service.manager.queue(decoded(name))
