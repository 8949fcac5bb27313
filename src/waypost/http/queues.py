"""/api/queues: to create, change and purge queues. waypost.http.bound has the rest."""

from typing import Any

from litestar import patch, post
from litestar.params import JSONBody
from msgspec.structs import replace

from waypost.api.queues import QueueInfo
from waypost.client.aio_queue import Queue
from waypost.client.queue_info import ignored
from waypost.client.remote.schema import NewQueue, QueueChange, given
from waypost.http.parameters import Name, Outgoing, Served, decoded
from waypost.http.service import Service
from waypost.wire.format_names import FormatName


@post("/api/queues")
async def create_queue(data: JSONBody[NewQueue], service: Served) -> QueueInfo:
    """Create a queue."""
    properties = given(data)
    name = properties.pop("name")
    notes = _drop_ignored(service.name(name), properties)
    queue = await service.manager.create_queue(name, **properties)
    return _noted(await queue.info(), notes)


@patch("/api/queues/{name:str}")
async def change_queue(name: Name, data: JSONBody[QueueChange], service: Served) -> QueueInfo:
    """Change properties; the others stay."""
    queue = _queue(service, name)
    properties = given(data)
    notes = _drop_ignored(service.name(decoded(name)), properties)
    with service.remote.explaining(decoded(name)):
        await queue.set(**properties)
        return _noted(await queue.info(), notes)


@post("/api/queues/{name:str}/purge", status_code=204)
async def purge_queue(name: Name, service: Served, outgoing: Outgoing = False) -> None:
    """Remove all messages that are in the queue now."""
    async with service.queue(decoded(name), outgoing=outgoing) as queue:
        await queue.purge()


def _drop_ignored(name: FormatName, properties: dict[str, Any]) -> list[str]:
    """Leave out what changes nothing. A sentence for it, if something was."""
    sentence = ignored(name, properties)
    if not sentence:
        return []
    del properties["base_priority"]
    return [sentence]


def _noted(found: QueueInfo, notes: list[str]) -> QueueInfo:
    return replace(found, notes=tuple(notes)) if notes else found


def _queue(service: Service, name: str) -> Queue:
    return service.manager.queue(decoded(name))
