"""POST /api/queues/NAME/messages."""

import asyncio
from typing import Any

from litestar import post
from litestar.params import JSONBody
from msgspec import UNSET

from waypost.client.aio_manager import Transaction
from waypost.client.aio_queue import Queue
from waypost.client.bodies import Body
from waypost.client.message import Message
from waypost.client.remote.packing import sent_ids
from waypost.client.remote.schema import NewMessage, Send, Sent, SentIds, given
from waypost.errors import InvalidParameter
from waypost.http.media import ApiRequest, is_message_pack
from waypost.http.parameters import Name, Served, decoded
from waypost.http.results import objects
from waypost.http.service import Service

_BODIES = ("body", "body_base64", "body_text")


@post("/api/queues/{name:str}/messages", status_code=200)
async def send(name: Name, data: JSONBody[Send], request: ApiRequest, service: Served) -> Sent | SentIds:
    """Send messages, and answer when they are safe: recoverable ones on disk, those of a transaction at its commit."""
    return await sent(service, decoded(name), data, packed=is_message_pack(request.scope, b"accept"))


async def sent(service: Service, name: str, data: Send, *, packed: bool) -> Sent | SentIds:
    """The answer to a Send. `packed` if it is going to be MessagePack."""
    if (data.like is UNSET) == (not data.messages) or bool(data.bodies) == bool(data.messages):
        raise InvalidParameter("give either `messages`, or `like` and `bodies`, and one message at least")
    if data.answer == "ids" and data.messages:
        raise InvalidParameter('the answer "ids" is for `like` and `bodies`')
    queue = service.manager.queue(name)
    with service.in_transaction(data.transaction, data.begin_s) as transaction:
        send_all = _send_alike if data.bodies else _send_each
        messages = await send_all(queue, data, transaction)
    return sent_ids(messages) if data.answer == "ids" else Sent(objects(messages, packed=packed))


async def _send_alike(queue: Queue, data: Send, transaction: Transaction | None) -> list[Message]:
    properties = given(data.like)  # type: ignore[arg-type]  # which is there
    if len(data.bodies) == 1:
        return [await queue.send(data.bodies[0], transaction=transaction, **properties)]
    return await queue.send_many(data.bodies, transaction=transaction, **properties)


async def _send_each(queue: Queue, data: Send, transaction: Transaction | None) -> list[Message]:
    """All of them in one turn of the loop, so that they share one flush."""
    messages = [properties_of(each) for each in data.messages]
    outcomes = await asyncio.gather(
        *(queue.send(body, transaction=transaction, **properties) for body, properties in messages),
        return_exceptions=True,
    )
    sent = [outcome for outcome in outcomes if isinstance(outcome, Message)]
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            if sent:
                outcome.add_note(f"{len(sent)} of {len(outcomes)} messages were sent.")
            raise outcome
    return sent


def properties_of(message: NewMessage) -> tuple[Body, dict[str, Any]]:
    """The body, and the keyword arguments of `Queue.send`."""
    properties = given(message)
    bodies = [properties.pop(name) for name in _BODIES if name in properties]
    if len(bodies) > 1:
        raise InvalidParameter("a message has one of `body`, `body_base64` and `body_text`")
    return bodies[0] if bodies else b"", properties
