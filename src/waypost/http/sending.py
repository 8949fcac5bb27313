"""POST /api/queues/NAME/messages."""

import asyncio

from litestar import post
from litestar.params import JSONBody
from msgspec import UNSET

from waypost.client.aio_manager import Transaction
from waypost.client.aio_queue import Queue
from waypost.client.bodies import Body
from waypost.client.message import Message
from waypost.client.remote.packing import sent_ids
from waypost.client.remote.schema import NewMessage, Send, Sent, SentIds
from waypost.errors import InvalidParameter
from waypost.http.media import ApiRequest, is_message_pack
from waypost.http.parameters import Name, Served, decoded
from waypost.http.results import objects
from waypost.http.service import Service


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
    assert data.like is not UNSET
    if len(data.bodies) == 1:
        return [await queue.send_record(data.bodies[0], data.like, transaction)]
    return await queue.send_records(data.bodies, data.like, transaction)


async def _send_each(queue: Queue, data: Send, transaction: Transaction | None) -> list[Message]:
    """All of them in one turn of the loop, so that they share one flush."""
    bodies = [body_of(each) for each in data.messages]
    outcomes = await asyncio.gather(
        *(queue.send_record(*each, transaction) for each in zip(bodies, data.messages, strict=True)),
        return_exceptions=True,
    )
    sent = [outcome for outcome in outcomes if isinstance(outcome, Message)]
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            if sent:
                outcome.add_note(f"{len(sent)} of {len(outcomes)} messages were sent.")
            raise outcome
    return sent


def body_of(message: NewMessage) -> Body:
    bodies = [body for body in (message.body, message.body_base64, message.body_text) if body is not UNSET]
    if len(bodies) > 1:
        raise InvalidParameter("a message has one of `body`, `body_base64` and `body_text`")
    return bodies[0] if bodies else b""
