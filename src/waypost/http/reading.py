"""Receive, peek, browse and move over HTTP.

A client that leaves while it waits loses nothing: the wait ends with it. Where the server may notice that too late, it
receives the message in its own transaction, and commits if the client is still there. A client that leaves at the
moment of the answer loses the answer, unless it reads in a transaction or with a lease.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from waypost.api.messages import Received
from waypost.api.operations import Browse, MoveAll, MoveMessage, Peek, Read, Receive
from waypost.api.queues import MovedObject
from waypost.errors import InvalidParameter, Timeout
from waypost.http.remote_queues import RemoteQueue
from waypost.http.service import Client, Service
from waypost.limits import MAX_HTTP_ANSWER, MAX_MOVED_PARTS

# Receives messages, with a wait in seconds, in the transaction with this id.
Take = Callable[[float, str | UnsetType], Coroutine[Any, Any, Received]]


async def received(service: Service, client: Client, operation: Receive) -> Received:
    if operation.lease_s is not UNSET and operation.transaction is not UNSET:
        raise InvalidParameter("`lease_s` and `transaction` are mutually exclusive")
    if len(operation.acknowledge) > service.settings.max_batch:
        raise InvalidParameter(f"a request can acknowledge at most {service.settings.max_batch} receipts")
    with service.reading(operation.name, outgoing=operation.outgoing, handle=operation.handle) as queue:
        # First, so that a failure leaves no received message without an answer.
        _, refused = await service.transactions.acknowledge(operation.acknowledge, service.caller)
        found = await _receive(service, client, queue, operation)
    found.refused = refused
    return found


async def peeked(service: Service, client: Client, operation: Peek) -> Received:
    if operation.lease_s is not UNSET or operation.transaction is not UNSET or operation.acknowledge:
        raise InvalidParameter("a peek does not accept `lease_s`, `transaction` or `acknowledge`")
    with service.reading(operation.name, outgoing=operation.outgoing, handle=operation.handle) as queue:
        if _is_sought(operation):
            return await queue.call(replace(operation, timeout_s=0))
        if operation.count > 1:
            page = Browse(name=operation.name, limit=operation.count, outgoing=operation.outgoing)
            found = await browsed(service, page)
            if found.messages:
                found.next = ""
                return found
        wait = min(operation.timeout_s, service.settings.max_wait_s)
        try:
            return await queue.call(replace(operation, timeout_s=0))
        except Timeout:
            if not wait:
                return Received([])
        try:
            return await client.wait(queue.call(replace(operation, timeout_s=wait))) or Received([])
        except Timeout:
            return Received([])


async def browsed(service: Service, operation: Browse) -> Received:
    operation = replace(operation, limit=min(operation.limit, service.settings.max_batch))
    place = None if operation.outgoing else service.elsewhere(operation.name)
    if place is None:
        return await service.call(operation)
    with service.remote.using(place) as queue:
        return await queue.call(operation)


async def moved(service: Service, operation: MoveMessage) -> None:
    with (
        service.reading(operation.name, outgoing=operation.outgoing) as queue,
        service.in_transaction(operation.transaction, operation.begin_s) as transaction,
    ):
        await queue.call(replace(operation, transaction=transaction, begin_s=UNSET))


async def moved_all(service: Service, operation: MoveAll) -> MovedObject:
    """Move messages in some parts, between which others have their turns."""
    count = 0
    with service.reading(operation.name, outgoing=operation.outgoing) as queue:
        for _ in range(MAX_MOVED_PARTS):
            part = await queue.call(operation)
            count += part.moved
            if not part.next:
                break
            operation = replace(operation, after=int(part.next), up_to=int(part.up_to))
            await asyncio.sleep(0)
    return MovedObject(count, part.next, part.up_to)


def _take(service: Service, queue: Service | RemoteQueue, operation: Receive) -> Take:
    """An attempt to receive. After the wait the result is empty."""

    async def take(timeout_s: float, transaction: str | UnsetType) -> Received:
        if _is_sought(operation):
            return await queue.call(replace(operation, timeout_s=0, transaction=transaction, begin_s=UNSET))
        count = _count(service, operation)
        wanted = replace(operation, count=count, timeout_s=timeout_s, transaction=transaction, begin_s=UNSET)
        try:
            return await queue.call(wanted)
        except Timeout:
            return Received([])

    return take


async def _receive(service: Service, client: Client, queue: Service | RemoteQueue, operation: Receive) -> Received:
    # The queue manager knows transactions, not leases.
    take = _take(service, queue, replace(operation, lease_s=UNSET, acknowledge=[]))
    wait = min(operation.timeout_s, service.settings.max_wait_s)
    if operation.transaction is not UNSET or operation.begin_s is not UNSET:
        with service.in_transaction(operation.transaction, operation.begin_s) as transaction:
            return await _take_or_wait(client, take, wait, transaction)
    if operation.lease_s is UNSET and (client.leaves_at_once or not wait or isinstance(queue, RemoteQueue)):
        return await _take_or_wait(client, take, wait, UNSET)
    if operation.lease_s is not UNSET:
        service.transactions.check_room()
    own, found = await _lock(service, client, take, wait)
    if own is None:
        return Received([])
    if operation.lease_s is not UNSET:
        found.receipt = service.transactions.adopt(own, operation.lease_s, service.caller)
    else:
        await service.transactions.end_own(own, commits=True)
    return found


async def _take_or_wait(client: Client, take: Take, wait: float, transaction: str | UnsetType) -> Received:
    """The messages in the queue, or those that come while the client waits."""
    if client.is_gone:
        return Received([])
    if not wait or client.is_hurried:
        return await take(0, transaction)
    return await client.wait(take(wait, transaction)) or Received([])


async def _lock(service: Service, client: Client, take: Take, wait: float) -> tuple[str | None, Received]:
    """Messages, and the transaction that holds them; None without messages, or if the client is gone."""
    own = service.transactions.begin_own(service.caller)
    is_kept = False
    try:
        found = await _take_or_wait(client, take, wait, own)
        is_kept = bool(found.messages) and not client.is_gone
    finally:
        if not is_kept:
            await service.transactions.end_own(own, commits=False)
    return (own if is_kept else None), found


def _is_sought(operation: Read) -> bool:
    return operation.lookup_id is not UNSET or operation.seek is not UNSET


def _count(service: Service, operation: Receive) -> int:
    """The number of messages that fit into one answer, by their average size in the queue."""
    count = min(operation.count, service.settings.max_batch)
    if count > 1:
        found = service.node.manager.find_queue(service.name(operation.name))
        if found is not None and found.total_bytes > MAX_HTTP_ANSWER:
            count = max(1, min(count, MAX_HTTP_ANSWER * len(found.positions) // found.total_bytes))
    return count
