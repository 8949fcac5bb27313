"""GET /api/queues/NAME/events: follow a queue, with an event for every message that comes, and receive none.

Server-sent events: `id` is the SequentialID, so that a browser that connects again goes on where it was, and `data` is
the message object, or a packet for waypost.connect. A comment after the last message and from time to time says that
nothing is new, so that both sides notice a dead connection.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec
from msgspec.structs import replace

from waypost.api.events import Events
from waypost.api.operation_rows import QueueRight
from waypost.api.operations import Form
from waypost.client.message import Message, message_object
from waypost.client.transports.http.packing import packet_row
from waypost.core.message import Message as CoreMessage
from waypost.core.positions import SEQUENCE_MASK
from waypost.errors import AccessDenied, LimitReached, QueueNotFound, ServiceNotAvailable
from waypost.http.problems import problem
from waypost.http.requests import Receive, Request, Scope, Send
from waypost.http.routes import Route, of
from waypost.http.service import AsgiClient, Service, behind
from waypost.node.following import LOOK_SECONDS, Follower

_KEEP_ALIVE_SECONDS: Final = 15.0

# A proxy must not hold events back.
_HEADERS: Final = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no"))

_encode: Final = msgspec.json.Encoder().encode


async def _events(service: Service, asked: Events, request: Request) -> "_Stream":
    """Follow a queue: the answer is a stream with an event for each new message.

    If `since` is the id of an event, the stream begins after this event. If `since` is `start`, the stream begins with
    the first message in the queue.
    """
    if service.streams >= service.settings.max_streams:
        raise LimitReached(f"too many clients follow queues; the limit is {service.streams}")
    with service.remote.explaining(asked.name):
        follower = service.shell.look(
            Follower,
            service.node,
            replace(asked, since=request.header(b"last-event-id") or asked.since),
            service.caller,
        )
    return _Stream(service, follower, asked.form)


class _Stream:
    """An ASGI application that sends events until the client leaves."""

    def __init__(self, service: Service, follower: Follower, form: Form) -> None:
        self._service: Final = service
        self._follower: Final = follower
        self._form: Final[Form] = form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # In the same turn of the loop as the check of the limit.
        with self._service.following():
            async with aclosing(_follow(self._service, self._follower, self._form, behind(scope))) as events:
                await AsgiClient(receive).wait(_send(events, send))


async def _send(events: AsyncGenerator[bytes, None], send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    async for event in events:
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _follow(
    service: Service, follower: Follower, form: Form, behind: asyncio.Event
) -> AsyncGenerator[bytes, None]:
    """The events of a queue. It closes when the client leaves, and ends when another request comes behind this one.

    Messages are fetched only as fast as the client reads them.
    """
    try:
        silent = _KEEP_ALIVE_SECONDS
        while not (service.is_stopping or behind.is_set()):
            if service.shell.look(follower.has_more, time.time()):
                for message in follower.take(await service.call(follower.wanted)):
                    yield _event(message, form)
                # A client that waits for a time learns at once that these were all.
                silent = _KEEP_ALIVE_SECONDS
                await asyncio.sleep(0)
                continue
            if silent >= _KEEP_ALIVE_SECONDS:
                yield b": nothing new\n\n"
                silent = 0.0
            await asyncio.sleep(LOOK_SECONDS)
            silent += LOOK_SECONDS
    except (QueueNotFound, ServiceNotAvailable, AccessDenied) as error:
        yield b"event: gone\ndata: %b\n\n" % (str(error).encode() if form == "full" else _encode(problem(error)))


def _event(message: CoreMessage, form: Form) -> bytes:
    number = message.lookup_identifier & SEQUENCE_MASK
    data = packet_row(message) if form == "packet" else message_object(Message(message))
    return b"id: %d\nevent: message\ndata: %b\n\n" % (number, _encode(data))


EVENTS: Final = Route(
    method="GET",
    path="/api/queues/{name}/events",
    name="events",
    asked=Events,
    perform=of(Events, _events),
    asks=QueueRight.PEEK,
    media_type="text/event-stream",
)
