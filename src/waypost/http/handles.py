"""Exclusive opens, cursors and transactions that a client keeps between its requests, each for a time."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from waypost.api.messages import Received
from waypost.api.opened import Handle, TransactionObject
from waypost.api.operation_rows import Owned
from waypost.api.operations import (
    AbortTransaction,
    BeginTransaction,
    CloseCursor,
    CloseQueue,
    CommitTransaction,
    CursorRead,
    OpenCursor,
    OpenQueue,
)
from waypost.api.times import iso_8601
from waypost.client.transports.http.schema import Outcomes, Receipts
from waypost.drive.new_guid import new_guid
from waypost.errors import InvalidHandle, InvalidParameter, LimitReached, Timeout
from waypost.guid import guid_text
from waypost.http.requests import Request
from waypost.http.routes import Route, of
from waypost.http.service import Client, OpenedCursor, Service
from waypost.limits import MAX_HTTP_LEASE_SECONDS


async def open_queue(service: Service, operation: OpenQueue) -> Handle:
    if not operation.exclusive:
        raise InvalidParameter("`exclusive` must be true: only exclusive reads require a handle")
    service.handles.check_room()
    seconds = service.settings.handle_s
    place = service.elsewhere(operation.queue)
    remote = None if place is None else await service.remote.exclusive(place)
    identifier = guid_text(new_guid()) if remote is not None else (await service.call(operation)).id
    try:
        return Handle(service.handles.add(remote, seconds, service.caller, identifier), seconds)
    except LimitReached:
        # Others were opened meanwhile.
        await service.close_handle(identifier, remote)
        raise


async def close_queue(service: Service, operation: CloseQueue) -> None:
    if not service.handles.has(operation.identifier, service.caller):
        raise InvalidHandle("the handle is not open")
    await service.close_handle(operation.identifier, service.handles.drop(operation.identifier))


async def open_cursor(service: Service, operation: OpenCursor) -> Handle:
    service.cursors.check_room()
    seconds = service.settings.handle_s
    if operation.handle is not UNSET:
        with service.using_handle(operation.handle, operation.queue) as remote:
            if remote is not None:
                opened = OpenedCursor(remote.cursor(), operation.handle)
                return Handle(service.cursors.add(opened, seconds, service.caller), seconds)
            found = await service.call(operation)
            try:
                return Handle(
                    service.cursors.add(OpenedCursor(None, operation.handle), seconds, service.caller, found.id),
                    seconds,
                )
            except LimitReached:
                await service.call(CloseCursor(identifier=found.id))
                raise
    if not operation.outgoing and (place := service.elsewhere(operation.queue)) is not None:
        opened = OpenedCursor(service.remote.cursor(place), None)
        return Handle(service.cursors.add(opened, seconds, service.caller), seconds)
    # The queue is read from until the cursor is closed.
    name = str(service.name(operation.queue))
    service.shared.begin(name)
    try:
        found = await service.call(operation)
    except BaseException:
        service.shared.end(name)
        raise
    opened = OpenedCursor(None, None, partial(service.shared.end, name))
    try:
        return Handle(service.cursors.add(opened, seconds, service.caller, found.id), seconds)
    except LimitReached:
        service.shared.end(name)
        await service.call(CloseCursor(identifier=found.id))
        raise


async def close_cursor(service: Service, operation: CloseCursor) -> None:
    if not service.cursors.has(operation.identifier, service.caller):
        raise InvalidHandle("the cursor is not open")
    opened = service.cursors.drop(operation.identifier)
    assert opened is not None
    await service.close_cursor(operation.identifier, opened)


async def read_at(service: Service, client: Client, operation: CursorRead) -> Received:
    if not service.cursors.has(operation.identifier, service.caller):
        raise InvalidHandle("the cursor is not open")
    wait = min(operation.timeout_s, service.settings.max_wait_s)
    with (
        service.cursors.using(operation.identifier) as opened,
        service.keeping(opened.handle),
        service.in_transaction(operation.transaction, operation.begin_s) as transaction,
    ):
        wanted = replace(operation, timeout_s=wait, transaction=transaction, begin_s=UNSET)
        read = (opened.remote or service).call(wanted)
        try:
            return await read if not wait else await client.wait(read) or Received([])
        except Timeout:
            return Received([])


async def begin_transaction(service: Service, operation: BeginTransaction) -> TransactionObject:
    seconds = service.settings.transaction_s if operation.timeout_s is UNSET else operation.timeout_s
    identifier = service.transactions.begin(seconds, service.caller, None if operation.id is UNSET else operation.id)
    expires = datetime.now(UTC) + timedelta(seconds=min(seconds, MAX_HTTP_LEASE_SECONDS))
    return TransactionObject(identifier, iso_8601(expires))


async def commit_transaction(service: Service, operation: CommitTransaction) -> None:
    await service.transactions.commit(operation.identifier, service.caller)


async def abort_transaction(service: Service, operation: AbortTransaction) -> None:
    await service.transactions.abort(operation.identifier, service.caller)


async def _commit_transactions(service: Service, asked: Receipts, _request: Request) -> Outcomes:
    """Commit several transactions, independently of each other."""
    if len(asked.ids) > service.settings.max_batch:
        raise InvalidParameter(f"a request can commit at most {service.settings.max_batch} transactions")
    return Outcomes(*await service.transactions.acknowledge(asked.ids, service.caller))


COMMIT_TRANSACTIONS: Final = Route(
    method="POST",
    path="/api/transactions/commit",
    name="commit_transactions",
    asked=Receipts,
    body=Receipts,
    perform=of(Receipts, _commit_transactions),
    asks=Owned.BY_CALLER,
    answers=(Outcomes,),
)
