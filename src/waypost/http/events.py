"""GET /api/queues/NAME/events: who follows a queue is told of every message that comes, and takes none.

Server-sent events: `id` is the SequentialID, so that a browser that connects again goes on where it was, and `data` is
the message object. A comment comes when there is nothing to tell, so that a dead connection is noticed.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from waypost.api.local import Follow
from waypost.api.operations import QueueName
from waypost.client.message import Message, message_object
from waypost.core.message import Message as CoreMessage
from waypost.core.positions import SEQUENCE_MASK
from waypost.errors import InvalidParameter, LimitReached, QueueNotFound, ServiceNotAvailable
from waypost.http.requests import Receive, Request, Scope, Send
from waypost.http.routes import Route, of
from waypost.http.service import AsgiClient, Service
from waypost.node.bulk import find_queue
from waypost.node.following import Following

# How often a queue is looked at: eight searches in sorted numbers.
_LOOK_SECONDS: Final = 0.1
_KEEP_ALIVE_SECONDS: Final = 15.0
_AT_ONCE: Final = 100

# A proxy must not hold events back.
_HEADERS: Final = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no"))

_encode: Final = msgspec.json.Encoder().encode


class Events(Struct, frozen=True):
    """The queue to follow, and from where on."""

    name: QueueName
    since: Annotated[str, Meta(extra_json_schema={"pattern": "^(start|[0-9]{1,20})?$"})] = ""


async def _events(service: Service, asked: Events, request: Request) -> "_Stream":
    """Follow a queue: events of what comes from now on, or behind the event `since`; `start` for all that is there."""
    if service.streams >= service.settings.max_streams:
        raise LimitReached(f"{service.streams} clients follow queues, and no more are allowed")
    with service.remote.explaining(asked.name):
        find_queue(service.node, service.name(asked.name))
    start = _start(service, request.header(b"last-event-id") or asked.since)
    return _Stream(service, Follow(name=asked.name, since=start, limit=_AT_ONCE))


class _Stream:
    """An ASGI application that sends events until the client goes."""

    def __init__(self, service: Service, wanted: Follow) -> None:
        self._service: Final = service
        self._events: Final = _follow(service, wanted)

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        # In the turn of the loop in which it was found that there is room.
        self._service.streams += 1
        try:
            await AsgiClient(receive).wait(self._send(send))
        finally:
            self._service.streams -= 1
            await self._events.aclose()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        async for event in self._events:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _follow(service: Service, wanted: Follow) -> AsyncGenerator[bytes, None]:
    """It is closed when the client goes. What is slow to be written is not fetched either."""
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


EVENTS: Final = Route(
    method="GET",
    path="/api/queues/{name}/events",
    name="events",
    asked=Events,
    perform=of(Events, _events),
    media_type="text/event-stream",
)
