"""Receive, peek, browse, move, resend and delete: what is read under /api/queues/NAME.

A client that goes away while it waits loses nothing: the wait ends with it. Where its leaving is heard of too late for
that, the message is taken in a transaction of the server, which is committed if the client is still there. One that
goes away in the moment of the answer loses that, unless it reads in a transaction or with a lease of its own.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from litestar import delete, get, post
from litestar.params import FromQuery, JSONBody, QueryParameter
from msgspec import UNSET

from waypost.api.forms import LOOKUP_ID_OR_NOTHING_FORM
from waypost.client.aio_manager import Transaction
from waypost.client.aio_queue import move_some
from waypost.client.message import Message
from waypost.client.remote.schema import Form, Messages, Move, MoveAll, MovedObject, Packets, Read, Resend
from waypost.core.writing import MovedPart
from waypost.errors import InvalidParameter, Timeout
from waypost.http.media import ApiRequest, is_message_pack
from waypost.http.operations import Browse, Page
from waypost.http.parameters import LookupIdInPath, Name, Outgoing, Served, decoded, lookup_id
from waypost.http.remote_queues import RemoteQueue
from waypost.http.results import answer
from waypost.http.service import AnyQueue, AsgiClient, Client, Service
from waypost.limits import MAX_HTTP_ANSWER, MAX_MOVED_PARTS

Take = Callable[[float, Transaction | None], Coroutine[Any, Any, list[Message]]]


@post("/api/queues/{name:str}/receive", status_code=200)
async def receive(
    name: Name, data: JSONBody[Read], request: ApiRequest, service: Served, outgoing: Outgoing = False
) -> Messages | Packets:
    """Take messages out of the queue: those that are there, up to `count`, or the first that comes in time."""
    packed = is_message_pack(request.scope, b"accept")
    client = AsgiClient(request.receive)
    return await received(service, client, decoded(name), data, packed=packed, outgoing=outgoing)


async def received(
    service: Service, client: Client, name: str, data: Read, *, packed: bool, outgoing: bool = False
) -> Messages | Packets:
    """The answer to a Read that takes. `packed` if it is going to be MessagePack."""
    if data.lease_s is not UNSET and data.transaction is not UNSET:
        raise InvalidParameter("a receive has a lease or a transaction, not both")
    async with service.queue(name, outgoing=outgoing, handle=data.handle) as queue:
        # If one of them fails, nothing is taken that the answer could not bring.
        _, refused = await service.transactions.acknowledge(data.acknowledge)
        messages, receipt = await _receive(service, client, queue, data)
    result = answer(messages, data.form, packed=packed)
    result.receipt = receipt
    result.refused = refused
    return result


@post("/api/queues/{name:str}/peek", status_code=200)
async def peek(
    name: Name, data: JSONBody[Read], request: ApiRequest, service: Served, outgoing: Outgoing = False
) -> Messages | Packets:
    """Look at messages and leave them there."""
    if data.lease_s is not UNSET or data.transaction is not UNSET or data.acknowledge:
        raise InvalidParameter("a peek has neither a lease nor a transaction, and acknowledges nothing")
    async with service.queue(decoded(name), outgoing=outgoing, handle=data.handle) as queue:
        messages: list[Message] = []
        if data.lookup_id is not UNSET or data.seek is not UNSET:
            messages = [await queue.peek(0, **_sought(data))]
        elif data.count > 1:
            messages, _ = await _browse(service, decoded(name), None, data.count, outgoing=outgoing)
        if not messages:
            messages = await _peek_waiting(service, AsgiClient(request.receive), queue, data.timeout_s)
    return answer(messages, data.form, packed=is_message_pack(request.scope, b"accept"))


@get("/api/queues/{name:str}/browse")
async def browse(
    name: Name,
    request: ApiRequest,
    service: Served,
    after: Annotated[str, QueryParameter(schema_extra=LOOKUP_ID_OR_NOTHING_FORM)] = "",
    limit: Annotated[int, QueryParameter(ge=1)] = 100,
    form: FromQuery[Form] = "full",
    outgoing: Outgoing = False,
) -> Messages | Packets:
    """Look at all messages, page by page: `after` is what the page before calls `next`."""
    start = lookup_id(after) if after else None
    messages, is_last = await _browse(service, decoded(name), start, limit, outgoing=outgoing)
    result = answer(messages, form, packed=is_message_pack(request.scope, b"accept"))
    if not is_last:
        result.next = str(messages[-1].lookup_id)
    return result


@delete("/api/queues/{name:str}/messages/{number:str}")
async def delete_message(name: Name, number: LookupIdInPath, service: Served, outgoing: Outgoing = False) -> None:
    """Remove one message, as a receive does."""
    async with service.queue(decoded(name), outgoing=outgoing) as queue:
        await queue.receive(0, lookup_id=lookup_id(number))


@post("/api/queues/{name:str}/move", status_code=204)
async def move(name: Name, data: JSONBody[Move], service: Served, outgoing: Outgoing = False) -> None:
    """Move a message between a queue and its subqueues."""
    async with service.queue(decoded(name), outgoing=outgoing) as queue:
        with service.in_transaction(data.transaction, data.begin_s) as transaction:
            await queue.move(lookup_id(data.lookup_id), data.to, transaction=transaction)


@post("/api/queues/{name:str}/move-all", status_code=200)
async def move_all(
    name: Name, data: JSONBody[MoveAll], service: Served, outgoing: Outgoing = False
) -> MovedObject:  # fmt: skip
    """Move the messages of a queue to one of its subqueues, or back, some thousand with one request.

    To go on, ask again with `after` and `up_to` as the answer has them in `next` and `up_to`, until `next` is empty.
    Messages that come meanwhile stay, and so do those that a reader holds. Each message is in one of the two queues,
    whenever this ends.
    """
    part = MovedPart()
    if (data.after == "") != (data.up_to == ""):
        raise InvalidParameter("`after` and `up_to` go together: give both as the last answer has them, or neither")
    if data.after != "":
        part = MovedPart(after=lookup_id(data.after), up_to=lookup_id(data.up_to))
    moved = 0
    async with service.queue(decoded(name), outgoing=outgoing) as queue:
        if isinstance(queue, RemoteQueue):
            error = InvalidParameter(
                f"{decoded(name)} is a queue of another computer, whose messages are moved one by one"
            )
            error.add_note("move all of them at that computer")
            raise error
        for _ in range(MAX_MOVED_PARTS):
            part = await move_some(queue, data.to, part)
            moved += part.count
            if part.is_last:
                break
            await asyncio.sleep(0)
    return MovedObject(moved, "" if part.is_last else str(part.after), str(part.up_to))


@post("/api/queues/{name:str}/resend", status_code=200)
async def resend(
    name: Name, data: JSONBody[Resend], request: ApiRequest, service: Served, outgoing: Outgoing = False
) -> Messages | Packets:
    """Take a message and send it once more, to another queue or to where it was sent to: both are done or neither."""
    async with service.queue(decoded(name), outgoing=outgoing) as queue:
        sent = await queue.resend(lookup_id(data.lookup_id), None if data.to is UNSET else data.to)
    copies = sent.copies if data.form == "packet" else ()
    return answer(copies or [sent], data.form, packed=is_message_pack(request.scope, b"accept"))


def _take(service: Service, queue: AnyQueue, data: Read) -> Take:
    """One try to receive; nothing in time is an empty list."""

    async def take(timeout: float, transaction: Transaction | None) -> list[Message]:
        if data.lookup_id is not UNSET or data.seek is not UNSET:
            return [await queue.receive(0, transaction=transaction, **_sought(data))]
        try:
            return await queue.receive_many(_count(service, queue, data.count), timeout, transaction=transaction)
        except Timeout:
            return []

    return take


async def _receive(service: Service, client: Client, queue: AnyQueue, data: Read) -> tuple[list[Message], str]:
    """The messages, and the receipt of a lease."""
    take = _take(service, queue, data)
    wait = min(data.timeout_s, service.settings.max_wait_s)
    if data.transaction is not UNSET or data.begin_s is not UNSET:
        with service.in_transaction(data.transaction, data.begin_s) as transaction:
            return await _take_or_wait(client, take, wait, transaction), ""
    if data.lease_s is UNSET and (client.leaves_at_once or not wait or isinstance(queue, RemoteQueue)):
        return await _take_or_wait(client, take, wait, None), ""
    if data.lease_s is not UNSET:
        service.transactions.check_room()
    transaction, messages = await _lock(service, client, take, wait)
    if transaction is None:
        return [], ""
    if data.lease_s is not UNSET:
        return messages, await service.transactions.adopt(transaction, data.lease_s)
    await transaction.commit()
    return messages, ""


async def _take_or_wait(client: Client, take: Take, wait: float, transaction: Transaction | None) -> list[Message]:
    """What is there, or what comes while the client is there."""
    if client.is_gone:
        return []
    if not wait or client.is_hurried:
        return await take(0, transaction)
    return await client.wait(take(wait, transaction)) or []


async def _lock(
    service: Service, client: Client, take: Take, wait: float
) -> tuple[Transaction | None, list[Message]]:  # fmt: skip
    """Messages, and the transaction that holds them; None if there are none, or the client has gone."""
    transaction = service.manager.transaction()
    is_kept = False
    try:
        messages = await _take_or_wait(client, take, wait, transaction)
        is_kept = bool(messages) and not client.is_gone
    finally:
        if not is_kept and transaction.is_open:
            await transaction.abort()
    return (transaction, messages) if is_kept else (None, [])


async def _peek_waiting(service: Service, client: Client, queue: AnyQueue, timeout_s: float) -> list[Message]:
    wait = min(timeout_s, service.settings.max_wait_s)
    try:
        return [await queue.peek(0)]
    except Timeout:
        if not wait:
            return []
    try:
        message = await client.wait(queue.peek(wait))
    except Timeout:
        message = None
    return [] if message is None else [message]


async def _browse(
    service: Service, name: str, after: int | None, limit: int, *, outgoing: bool
) -> tuple[list[Message], bool]:
    """A page of messages, and whether it is the last."""
    limit = min(limit, service.settings.max_batch)
    place = None if outgoing else service.remote.find(name)
    if place is not None:
        with service.remote.using(place) as queue:
            return await queue.page(after, limit)
    operation = Browse(service.node, service.name(name), after, limit, max_bytes=MAX_HTTP_ANSWER)
    page: Page = await service.shell.do(operation)
    return [Message(core) for core in page.messages], page.is_last


def _sought(data: Read) -> dict[str, Any]:
    return {
        "lookup_id": None if data.lookup_id is UNSET else lookup_id(data.lookup_id),
        "seek": None if data.seek is UNSET else data.seek,
    }


def _count(service: Service, queue: AnyQueue, count: int) -> int:
    """No more than fits into one answer, by the average size of the messages in the queue."""
    count = min(count, service.settings.max_batch)
    if count > 1:
        found = service.node.manager.find_queue(service.name(queue.format_name))
        if found is not None and found.total_bytes > MAX_HTTP_ANSWER:
            count = max(1, min(count, MAX_HTTP_ANSWER * len(found.positions) // found.total_bytes))
    return count
