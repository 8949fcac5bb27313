"""A reader over RemoteRead and what it has open, as tests need it."""

from tests.remote.conversing import (
    HANDLE,
    IDENTITY,
    ORDERS,
    Talk,
    new_guids,
)
from waypost.hresult import HResult
from waypost.remote.client.reads import Opening, Received, Transaction
from waypost.remote.client.remote_read import RemoteReadClient, RemoteReadQueue
from waypost.remote.interfaces.remote_read import (
    CreateCursorReply,
    OpenQueueReply,
    ReceiveAction,
)
from waypost.rpc.interface import ResultReply
from waypost.wire.receive_reply import BodyLimits

RECEIVE = ReceiveAction.MQ_ACTION_RECEIVE
PEEK = ReceiveAction.MQ_ACTION_PEEK_CURRENT
PEEK_NEXT = ReceiveAction.MQ_ACTION_PEEK_NEXT

RECEIVES = [action for action in ReceiveAction if not action.is_peek]
PEEKS = [action for action in ReceiveAction if action.is_peek]

OK = ResultReply()
FAILED = ResultReply(HResult.MQ_ERROR_INVALID_HANDLE)
TRANSACTION = Transaction(b"t" * 16, b"the token")
EMPTY_LIMITS = BodyLimits(0, 0)


def new_client() -> RemoteReadClient:
    return RemoteReadClient(IDENTITY, new_guids())


def opened(client: RemoteReadClient | None = None) -> RemoteReadQueue:
    return Talk((client or new_client()).open(Opening(ORDERS))).answer(OpenQueueReply(HANDLE)).result


def with_cursor(number: int = 9) -> RemoteReadQueue:
    queue = opened()
    assert Talk(queue.create_cursor()).answer(CreateCursorReply(number)).result == number
    return queue


def enlisted(talk: Talk[Received]) -> Talk[Received]:
    """Answers the question that comes before others in a transaction."""
    assert talk.ask.opnum == 12
    return talk.answer(OK)
