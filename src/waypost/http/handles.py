"""/api/handles, /api/cursors and /api/transactions: what a client has open between its requests."""

from datetime import UTC, datetime, timedelta

from litestar import delete, post
from litestar.params import JSONBody
from msgspec import UNSET

from waypost.api.times import iso_8601
from waypost.client.message import Message
from waypost.client.remote.open_schema import (
    CursorRead,
    Handle,
    NewCursor,
    NewHandle,
    NewTransaction,
    Outcomes,
    Receipts,
    TransactionObject,
)
from waypost.client.remote.schema import Messages, Packets
from waypost.errors import InvalidHandle, InvalidParameter, Timeout
from waypost.http.media import ApiRequest, is_message_pack
from waypost.http.parameters import Identifier, Served
from waypost.http.results import answer
from waypost.http.service import AsgiClient, OpenCursor, Service
from waypost.limits import MAX_HTTP_LEASE_SECONDS


@post("/api/handles", status_code=201)
async def open_handle(data: JSONBody[NewHandle], service: Served) -> Handle:
    """Open a queue for this client alone, so that nobody else receives from it."""
    if not data.exclusive:
        raise InvalidParameter("only exclusive opens need a handle")
    service.handles.check_room()
    queue = service.exclusive_queue(data.queue)
    try:
        # The queue is opened now and not at the first receive, so that it is known who has it.
        async with queue.cursor() as cursor:
            await cursor.peek(0)
    except Timeout:
        pass
    except BaseException:
        await queue.close()
        raise
    return Handle(service.handles.add(queue, service.settings.handle_s), service.settings.handle_s)


@delete("/api/handles/{identifier:str}")
async def close_handle(identifier: Identifier, service: Served) -> None:
    """Close it: what waits on it ends."""
    queue = service.handles.drop(identifier)
    if queue is None:
        raise InvalidHandle("the handle is not open")
    await queue.close()


@post("/api/cursors", status_code=201)
async def open_cursor(data: JSONBody[NewCursor], service: Served) -> Handle:
    """A place in a queue, before its first message."""
    service.cursors.check_room()
    if data.handle is not UNSET:
        with service.using_handle(data.handle, data.queue) as queue:
            opened = OpenCursor(queue.cursor(), data.handle, None)
    elif data.outgoing:
        owned = await service.outgoing_queue(data.queue)
        opened = OpenCursor(owned.cursor(), None, owned)
    elif (place := service.remote.find(data.queue)) is not None:
        opened = OpenCursor(service.remote.cursor(place), None, None)
    else:
        opened = service.shared_cursor(data.queue)
    return Handle(service.cursors.add(opened, service.settings.handle_s), service.settings.handle_s)


@delete("/api/cursors/{identifier:str}")
async def close_cursor(identifier: Identifier, service: Served) -> None:
    """Forget the place."""
    opened = service.cursors.drop(identifier)
    if opened is None:
        raise InvalidHandle("the cursor is not open")
    await opened.close()


@post("/api/cursors/{identifier:str}/peek", status_code=200)
async def cursor_peek(
    identifier: Identifier, data: JSONBody[CursorRead], request: ApiRequest, service: Served
) -> Messages | Packets:
    """Look at the message where the cursor is."""
    return await _read(service, request, identifier, data, "peek")


@post("/api/cursors/{identifier:str}/next", status_code=200)
async def cursor_next(
    identifier: Identifier, data: JSONBody[CursorRead], request: ApiRequest, service: Served
) -> Messages | Packets:
    """Go on to the next message, and look at it."""
    return await _read(service, request, identifier, data, "peek_next")


@post("/api/cursors/{identifier:str}/receive", status_code=200)
async def cursor_receive(
    identifier: Identifier, data: JSONBody[CursorRead], request: ApiRequest, service: Served
) -> Messages | Packets:  # fmt: skip
    """Receive the message where the cursor is."""
    return await _read(service, request, identifier, data, "receive")


@post("/api/transactions", status_code=201)
async def begin_transaction(data: JSONBody[NewTransaction], service: Served) -> TransactionObject:
    """Begin a transaction, which is aborted when it was not used for `timeout_s`."""
    seconds = service.settings.transaction_s if data.timeout_s is UNSET else data.timeout_s
    identifier = service.transactions.begin(seconds, None if data.id is UNSET else data.id)
    expires = datetime.now(UTC) + timedelta(seconds=min(seconds, MAX_HTTP_LEASE_SECONDS))
    return TransactionObject(identifier, iso_8601(expires))


@post("/api/transactions/{identifier:str}/commit", status_code=204)
async def commit_transaction(identifier: Identifier, service: Served) -> None:
    """Commit, and answer when all is on disk. One that is committed already stays so."""
    await service.transactions.commit(identifier)


@post("/api/transactions/{identifier:str}/abort", status_code=204)
async def abort_transaction(identifier: Identifier, service: Served) -> None:
    """Undo all that was done in it."""
    await service.transactions.abort(identifier)


@post("/api/transactions/commit", status_code=200)
async def commit_transactions(data: JSONBody[Receipts], service: Served) -> Outcomes:
    """Commit many, each by itself."""
    if len(data.ids) > service.settings.max_batch:
        raise InvalidParameter(f"at most {service.settings.max_batch} transactions are committed at once")
    return Outcomes(*await service.transactions.acknowledge(data.ids))


async def _read(
    service: Service, request: ApiRequest, identifier: str, data: CursorRead, verb: str
) -> Messages | Packets:  # fmt: skip
    if identifier not in service.cursors:
        raise InvalidHandle("the cursor is not open")
    with service.cursors.using(identifier) as opened, service.keeping(opened.handle):
        messages = await _waiting(service, request, opened, data, verb)
    return answer(messages, data.form, packed=is_message_pack(request.scope, b"accept"))


async def _waiting(
    service: Service, request: ApiRequest, opened: OpenCursor, data: CursorRead, verb: str
) -> list[Message]:  # fmt: skip
    wait = min(data.timeout_s, service.settings.max_wait_s)
    with service.in_transaction(data.transaction, data.begin_s) as transaction:
        options = {"transaction": transaction} if verb == "receive" else {}
        read = getattr(opened.cursor, verb)(wait, **options)
        try:
            if not wait:
                return [await read]
            message = await AsgiClient(request.receive).wait(read)
        except Timeout:
            return []
    return [] if message is None else [message]
