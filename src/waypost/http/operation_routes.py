"""Routes of operations: path, parameters, body, reply and status come from the rows of the operations."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from msgspec import Struct

from waypost.api.bulk import BULK_OPERATIONS, ListBulkQueues, ReadRange
from waypost.api.claims import CLAIM_OPERATIONS, ReadClaim
from waypost.api.explanation import Explanation
from waypost.api.frames import MEDIA_TYPE, Frame
from waypost.api.keys import KEY_OPERATIONS
from waypost.api.messages import Received
from waypost.api.operations import (
    OPERATIONS,
    AbortTransaction,
    BeginTransaction,
    Browse,
    CloseCursor,
    CloseQueue,
    CommitTransaction,
    CursorNext,
    CursorPeek,
    CursorReceive,
    DeleteMessage,
    DeleteQueue,
    Explain,
    Form,
    ListQueues,
    MoveAll,
    MoveMessage,
    OpenCursor,
    OpenQueue,
    Operation,
    Peek,
    PurgeQueue,
    Receive,
    Resend,
    Send,
    SetQueue,
    ShowQueue,
)
from waypost.api.properties import QueueInfo, QueueList
from waypost.api.status import (
    CreateLink,
    Doctor,
    ShowIdentity,
    ShowVerification,
    StartVerification,
    Status,
    VerificationInfo,
)
from waypost.api.users import PREPARED, USER_OPERATIONS
from waypost.client.transports.http.schema import Messages, Packets, SentIds, SentMessages
from waypost.http import bulk, handles, links, reading, sending, status, users
from waypost.http.requests import JSON, App, Request
from waypost.http.results import answer, resent
from waypost.http.routes import Perform, Route, of
from waypost.http.service import AsgiClient, Client, Service
from waypost.http.slices import sliced
from waypost.node.queue_calls import QueueCalls

O = TypeVar("O", bound=Operation[object])  # noqa: E741, an operation


async def _ask(service: Service, operation: Operation[object]) -> Struct | None:
    reply = await service.call(operation)
    assert reply is None or isinstance(reply, Struct)
    return reply


async def _explain(service: Service, operation: Explain) -> Explanation:
    explanation = await service.call(operation)
    host = service.remote.host_of(operation.queue) if operation.queue else None
    if host is None:
        return explanation
    sentence = (
        f"The queue is on the host {host}; only that host can explain its state. This queue manager can read the "
        "messages in the queue."
    )
    return explanation.with_sentence(sentence)


async def _verify(service: Service, operation: StartVerification | ShowVerification) -> VerificationInfo:
    if isinstance(operation, StartVerification):
        service.verifier.start()
    return service.verifier.state


async def _list_queues(service: Service, operation: ListQueues) -> QueueList:
    queues = QueueCalls(service.node)
    names = service.shell.look(queues.names, operation.kind)
    return QueueList(tuple(await sliced(partial(queues.infos, operation.pattern), names)))


async def _own(service: Service, operation: ShowQueue | SetQueue | DeleteQueue) -> QueueInfo | None:
    """Perform an operation that only queues of this computer have."""
    with service.remote.explaining(operation.name):
        return await service.call(operation)


async def _taken(service: Service, operation: PurgeQueue | DeleteMessage) -> None:
    with service.reading(operation.name, outgoing=operation.outgoing) as queue:
        await queue.call(operation)


async def _resend(service: Service, operation: Resend, request: Request) -> Messages | Packets:
    with service.reading(operation.name, outgoing=operation.outgoing) as queue:
        sent = await queue.call(operation)
    return resent(sent, operation.form, packed=request.wants_message_pack)


async def _send(service: Service, operation: Send, request: Request) -> SentMessages | SentIds:
    return await sending.sent(service, operation, packed=request.wants_message_pack)


def _reading(read: Callable[[Service, Client, O], Awaitable[Received]]) -> Perform[O]:
    """Perform a read, and answer with messages in the requested form."""

    async def perform(service: Service, operation: O, request: Request) -> Messages | Packets:
        found = await read(service, AsgiClient(request.receive, request.scope), operation)
        form: Form = operation.form  # type: ignore[attr-defined]  # all of these have it
        return answer(found, form, packed=request.wants_message_pack)

    return perform


def _plain(perform: Callable[[Service, O], Awaitable[Struct | App | None]]) -> Perform[O]:
    """Perform an operation without its request."""

    async def performed(service: Service, operation: O, _: Request) -> Struct | App | None:
        return await perform(service, operation)

    return performed


async def _browse(service: Service, _: Client, operation: Browse) -> Received:
    return await reading.browsed(service, operation)


def routes() -> list[Route]:
    """The routes of all operations."""
    by_hand = (
        _route(Status, _plain(status.status)),
        _route(ShowIdentity, _plain(status.identity)),
        _route(Doctor, _plain(status.doctor)),
        _route(StartVerification, _plain(_verify)),
        _route(ShowVerification, _plain(_verify)),
        *(_route(kind, _plain(users.perform)) for kind in PREPARED),
        _route(CreateLink, _plain(links.create_link)),
        _route(Explain, _plain(_explain)),
        _route(ListQueues, _plain(_list_queues)),
        _route(ShowQueue, _plain(_own)),
        _route(SetQueue, _plain(_own)),
        _route(DeleteQueue, _plain(_own)),
        _route(PurgeQueue, _plain(_taken)),
        _route(DeleteMessage, _plain(_taken)),
        _route(Send, _send, SentMessages, SentIds),
        _route(Resend, _resend, Messages, Packets),
        _route(Receive, _reading(reading.received), Messages, Packets),
        _route(Peek, _reading(reading.peeked), Messages, Packets),
        _route(Browse, _reading(_browse), Messages, Packets),
        _route(MoveMessage, _plain(reading.moved)),
        _route(MoveAll, _plain(reading.moved_all)),
        _route(OpenQueue, _plain(handles.open_queue)),
        _route(CloseQueue, _plain(handles.close_queue)),
        _route(OpenCursor, _plain(handles.open_cursor)),
        _route(CloseCursor, _plain(handles.close_cursor)),
        _route(CursorPeek, _reading(handles.read_at), Messages, Packets),
        _route(CursorNext, _reading(handles.read_at), Messages, Packets),
        _route(CursorReceive, _reading(handles.read_at), Messages, Packets),
        _route(BeginTransaction, _plain(handles.begin_transaction)),
        _route(CommitTransaction, _plain(handles.commit_transaction)),
        _route(AbortTransaction, _plain(handles.abort_transaction)),
        _route(ListBulkQueues, _plain(bulk.list_queues)),
        _route(ReadRange, _plain(bulk.framed)),
        _route(ReadClaim, _plain(bulk.framed)),
    )
    bound = {route.name for route in by_hand}
    kinds = (*OPERATIONS, *KEY_OPERATIONS, *BULK_OPERATIONS, *CLAIM_OPERATIONS, *USER_OPERATIONS)
    others = (kind for kind in kinds if kind.row.name not in bound)
    return [*by_hand, *(_route(kind, _plain(_ask)) for kind in others)]


def _route(kind: type[O], perform: Perform[O], *answers: type[Struct]) -> Route:
    """The route of an operation. `answers` are the structures of the answer, if it is not the reply itself."""
    row = kind.row
    is_frame = row.reply is Frame
    reply = () if row.reply is type(None) or is_frame else (row.reply,)
    return Route(
        method=row.method,
        path=row.path,
        name=row.name,
        asked=kind,
        perform=of(kind, perform),
        asks=row.asks,
        help=kind.__doc__ or "",
        body=row.body,
        answers=answers or reply,
        status=row.status,
        media_type=MEDIA_TYPE if is_frame else JSON.decode(),
    )
