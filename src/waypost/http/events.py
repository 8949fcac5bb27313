"""GET /api/queues/NAME/events: who follows a queue is told of every message that comes, and takes none.

Server-sent events: `id` is the SequentialID, so that a browser that connects again goes on where it was, and `data` is
the message object. A comment comes when there is nothing to tell, so that a dead connection is noticed.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.params import QueryParameter
from litestar.response import Stream
from msgspec.structs import replace

from waypost.api.local import Follow
from waypost.client.message import Message, message_object
from waypost.core.message import Message as CoreMessage
from waypost.core.positions import SEQUENCE_MASK
from waypost.errors import InvalidParameter, LimitReached, QueueNotFound, ServiceNotAvailable
from waypost.http.media import ApiRequest
from waypost.http.parameters import Name, Served, decoded
from waypost.http.service import Service
from waypost.node.bulk import find_queue
from waypost.node.following import Following

# How often a queue is looked at: eight searches in sorted numbers.
_LOOK_SECONDS: Final = 0.1
_KEEP_ALIVE_SECONDS: Final = 15.0
_AT_ONCE: Final = 100

# A proxy must not hold events back.
_HEADERS: Final = {"x-accel-buffering": "no"}

Since = Annotated[str, QueryParameter(schema_extra={"pattern": "^(start|[0-9]{1,20})?$"})]

_encode: Final = msgspec.json.Encoder().encode


@get("/api/queues/{name:str}/events", media_type="text/event-stream")
async def events(
    name: Name,
    request: ApiRequest,
    service: Served,
    since: Since = "",
) -> Stream:
    """Follow a queue: events of what comes from now on, or behind the event `since`; `start` for all that is there."""
    if service.streams >= service.settings.max_streams:
        raise LimitReached(f"{service.streams} clients follow queues, and no more are allowed")
    queue = decoded(name)
    with service.remote.explaining(queue):
        find_queue(service.node, service.name(queue))
    start = _start(service, request.headers.get("last-event-id") or since)
    wanted = Follow(name=queue, since=start, limit=_AT_ONCE)
    return Stream(_follow(service, wanted), media_type="text/event-stream", headers=_HEADERS)


async def _follow(service: Service, wanted: Follow) -> AsyncIterator[bytes]:
    """Ends when the client goes: litestar then closes it. What is slow to be written is not fetched either."""
    service.streams += 1
    try:
        silent = _KEEP_ALIVE_SECONDS
        following = Following(service.node)
        while not service.is_stopping:
            if service.shell.look(following.has_more, wanted):
                found = await service.shell.call(wanted)
                wanted = replace(wanted, since=found.since, held=found.held)
                for message in found.messages:
                    yield _event(message)
                silent = 0.0
            elif silent >= _KEEP_ALIVE_SECONDS:
                yield b": nothing new\n\n"
                silent = 0.0
            await asyncio.sleep(_LOOK_SECONDS)
            silent += _LOOK_SECONDS
    except (QueueNotFound, ServiceNotAvailable) as error:
        yield f"event: gone\ndata: {error}\n\n".encode()
    finally:
        service.streams -= 1


def _event(message: CoreMessage) -> bytes:
    number = message.lookup_identifier & SEQUENCE_MASK
    return b"id: %d\nevent: message\ndata: %b\n\n" % (number, _encode(message_object(Message(message))))


def _start(service: Service, since: str) -> int:
    if since == "start":
        return -1
    if not since:
        return service.node.manager.positions.sequential_id
    if not (since.isascii() and since.isdigit() and len(since) <= 20):
        raise InvalidParameter("since is the id of an event, or start")
    return min(int(since), service.node.manager.positions.sequential_id)
