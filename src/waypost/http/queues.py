"""/api/queues: to create, list, show, change, purge, pause, resume and delete queues."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal

from litestar.params import FromQuery, JSONBody
from msgspec import UNSET
from msgspec.structs import replace

from waypost.api.properties import QueueObject, QueueProperties
from waypost.client.aio_queue import Queue
from waypost.client.names import short_name
from waypost.client.queue_info import ignored, queue_attributes
from waypost.client.remote.schema import NewQueue, Queues
from waypost.errors import QueueNotFound
from waypost.http.parameters import Name, Outgoing, Served, decoded
from waypost.http.routing import delete, get, patch, post
from waypost.http.service import Service
from waypost.http.slices import sliced
from waypost.wire.format_names import FormatName

Kind = Literal["", "local", "outgoing", "system", "all"]


@get("/api/queues")
async def list_queues(service: Served, kind: FromQuery[Kind] = "", pattern: FromQuery[str] = "") -> Queues:
    """The queues that applications have created; with `kind` others: outgoing, system or all.

    `pattern` has * and ? for any characters, and is compared with the names of queues. Of many queues each is shown as
    it is when its turn comes: one that is created or deleted meanwhile may be missing.
    """
    names = service.shell.look(_names, service, kind)
    return Queues(await sliced(partial(_objects, service, pattern.lower()), names))


@post("/api/queues")
async def create_queue(data: JSONBody[NewQueue], service: Served) -> QueueObject:
    """Create a queue."""
    properties, notes = _without_ignored(service.name(data.name), data)
    queue = await service.manager.create_queue_record(data.name, properties, transactional=data.transactional)
    return _noted((await queue.info()).to_object(), notes)


@get("/api/queues/{name:str}")
async def show_queue(name: Name, service: Served) -> QueueObject:
    """What there is to know of a queue at this moment."""
    with service.remote.explaining(decoded(name)):
        return (await _queue(service, name).info()).to_object()


@patch("/api/queues/{name:str}")
async def change_queue(name: Name, data: JSONBody[QueueProperties], service: Served) -> QueueObject:
    """Change properties; the others stay."""
    queue = _queue(service, name)
    properties, notes = _without_ignored(service.name(decoded(name)), data)
    with service.remote.explaining(decoded(name)):
        await queue.set_record(properties)
        return _noted((await queue.info()).to_object(), notes)


@delete("/api/queues/{name:str}")
async def delete_queue(name: Name, service: Served) -> None:
    """Delete a queue with all that is in it."""
    with service.remote.explaining(decoded(name)):
        await _queue(service, name).delete()


@post("/api/queues/{name:str}/purge", status_code=204)
async def purge_queue(name: Name, service: Served, outgoing: Outgoing = False) -> None:
    """Remove all messages that are in the queue now."""
    async with service.queue(decoded(name), outgoing=outgoing) as queue:
        await queue.purge()


@post("/api/queues/{name:str}/pause", status_code=204)
async def pause_queue(name: Name, service: Served) -> None:
    """Let no message leave an outgoing queue."""
    await _queue(service, name).pause()


@post("/api/queues/{name:str}/resume", status_code=204)
async def resume_queue(name: Name, service: Served) -> None:
    """Let messages leave an outgoing queue again."""
    await _queue(service, name).resume()


def _without_ignored(name: FormatName, properties: QueueProperties) -> tuple[QueueProperties, list[str]]:
    """Leave out what changes nothing, once it is checked. A sentence for it, if something was."""
    queue_attributes(properties)
    sentence = ignored(name, properties)
    return (replace(properties, base_priority=UNSET), [sentence]) if sentence else (properties, [])


def _noted(found: QueueObject, notes: list[str]) -> QueueObject:
    if notes:
        found.notes = notes
    return found


def _queue(service: Service, name: str) -> Queue:
    return service.manager.queue(decoded(name))


def _names(service: Service, kind: Kind) -> list[FormatName]:
    names: list[FormatName] = []
    if kind in ("", "local", "all"):
        names += service.calls.queues()
    if kind in ("system", "all"):
        names += [service.name(f"system$;{name}") for name in ("deadletter", "deadxact", "journal")]
    if kind in ("outgoing", "all"):
        names += service.calls.outgoing_queues()
    return names


def _objects(service: Service, pattern: str, names: Sequence[FormatName]) -> Iterator[QueueObject]:
    """Those of a part of a list that match the pattern and were not deleted meanwhile."""
    for name in names:
        if not pattern or fnmatchcase(short_name(name, service.manager.name).lower(), pattern):
            with suppress(QueueNotFound):
                yield service.calls.info(name).to_object()
