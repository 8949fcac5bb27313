"""/api/queues: to create, list, show, change, purge, pause, resume and delete queues."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal

from litestar import delete, get, patch, post
from litestar.params import FromQuery, JSONBody

from waypost.client.aio_queue import Queue
from waypost.client.names import short_name
from waypost.client.queue_info import ignored
from waypost.client.remote.packing import queue_object
from waypost.client.remote.schema import NewQueue, QueueChange, QueueObject, Queues, given
from waypost.errors import QueueNotFound
from waypost.http.parameters import Name, Outgoing, Served, decoded
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
    properties = given(data)
    name = properties.pop("name")
    notes = _drop_ignored(service.name(name), properties)
    queue = await service.manager.create_queue(name, **properties)
    return _noted(queue_object(await queue.info()), notes)


@get("/api/queues/{name:str}")
async def show_queue(name: Name, service: Served) -> QueueObject:
    """What there is to know of a queue at this moment."""
    with service.remote.explaining(decoded(name)):
        return queue_object(await _queue(service, name).info())


@patch("/api/queues/{name:str}")
async def change_queue(name: Name, data: JSONBody[QueueChange], service: Served) -> QueueObject:
    """Change properties; the others stay."""
    queue = _queue(service, name)
    properties = given(data)
    notes = _drop_ignored(service.name(decoded(name)), properties)
    with service.remote.explaining(decoded(name)):
        await queue.set(**properties)
        return _noted(queue_object(await queue.info()), notes)


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


def _drop_ignored(name: FormatName, properties: dict[str, Any]) -> list[str]:
    """Leave out what changes nothing. A sentence for it, if something was."""
    sentence = ignored(name, properties)
    if not sentence:
        return []
    del properties["base_priority"]
    return [sentence]


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
                yield queue_object(service.calls.info(name))
