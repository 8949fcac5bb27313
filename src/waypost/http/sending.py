"""Send over HTTP: bodies with common properties, or single messages with different properties."""

import asyncio

from msgspec import UNSET
from msgspec.structs import replace

from waypost.api.messages import Copies
from waypost.api.new_bodies import body_of, encode_body
from waypost.api.operations import Send
from waypost.api.properties import NewMessage
from waypost.client.transports.http.packing import sent_ids
from waypost.client.transports.http.schema import SentIds, SentMessages
from waypost.core.message import Message
from waypost.errors import InvalidParameter
from waypost.http.results import objects
from waypost.http.service import Service


async def sent(service: Service, operation: Send, *, packed: bool) -> SentMessages | SentIds:
    """The answer to a Send. `packed` if it is going to be MessagePack."""
    if (operation.like is UNSET) == (not operation.messages) or bool(operation.bodies) == bool(operation.messages):
        raise InvalidParameter("send either `messages`, or `like` with `bodies`; at least one message is required")
    if operation.answer == "ids" and operation.messages:
        raise InvalidParameter('the answer "ids" requires `like` and `bodies`')
    with service.in_transaction(operation.transaction, operation.begin_s) as transaction:
        if transaction is not UNSET:
            operation = replace(operation, transaction=transaction, begin_s=UNSET)
        messages: list[Message] | list[Message | Copies]
        if operation.messages:
            messages = await _send_each(service, operation)
        else:
            messages = (await service.call(operation)).messages
    if operation.answer == "ids":
        return sent_ids(messages)
    return SentMessages(objects(messages, packed=packed))


async def _send_each(service: Service, operation: Send) -> list[Message | Copies]:
    """Send single messages in one turn of the loop, so that they share one flush."""
    sends = [_send(operation, each) for each in operation.messages]
    outcomes = await asyncio.gather(*map(service.call, sends), return_exceptions=True)
    done = [message for each in outcomes if not isinstance(each, BaseException) for message in each.messages]
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            if done:
                outcome.add_note(f"{len(done)} of {len(outcomes)} messages were sent.")
            raise outcome
    return done


def _send(operation: Send, message: NewMessage) -> Send:
    body, body_type = encode_body(body_of(message), message.body_type)
    like = replace(message, body_type=body_type)
    return Send(name=operation.name, like=like, bodies=[body], transaction=operation.transaction)
