"""A conversation that a test carries: it looks at what is asked and answers what it likes."""

from collections.abc import Callable
from itertools import count
from typing import Any, Generic, TypeVar

from waypost.errors import WaypostError
from waypost.remote.client.conversations import Ask, CallFailed, Conversation
from waypost.remote.client.reads import ClientIdentity
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import decode_request, encode_request
from waypost.wire import user_header
from waypost.wire.base_header import BaseHeader
from waypost.wire.format_names import FormatName
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.ndr import ContextHandle, NdrSyntax
from waypost.wire.receive_reply import BodyLimits, ReceiveReply
from waypost.wire.remote_packet import Origin, RemotePacket
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

R = TypeVar("R")

ME = bytes(range(16))
IDENTITY = ClientIdentity(ME)
ORDERS = FormatName.parse("DIRECT=OS:host\\private$\\orders")
SHELF = FormatName.parse("DIRECT=OS:host\\private$\\orders;shelf")
HANDLE = ContextHandle(0, b"h" * 16)
OTHER_HANDLE = ContextHandle(0, b"o" * 16)
LOOKUP_ID = 0x04_11223344556677
ARRIVED = 1_000_007
ALL = BodyLimits(0xFFFFFFFF, 0xFFFFFFFF)
FOREVER = 0xFFFFFFFF


class Talk(Generic[R]):
    """One conversation. `ask` is what it wants to know; when it is over, `result` or `error` is there."""

    def __init__(self, conversation: Conversation[R]) -> None:
        self._conversation = conversation
        self._asked: Ask | None = None
        self._result: list[R] = []
        self.error: WaypostError | None = None
        self._go(lambda: next(conversation))

    @property
    def is_over(self) -> bool:
        return self._asked is None

    @property
    def ask(self) -> Ask:
        assert self._asked is not None, "the conversation is over"
        return self._asked

    @property
    def request(self) -> Any:
        """The request that the server gets, after its way through NDR."""
        method = self.ask.interface.methods[self.ask.opnum]
        return decode_request(method, encode_request(method, self.ask.request, NdrSyntax.NDR20), NdrSyntax.NDR20)

    @property
    def result(self) -> R:
        assert self.is_over, "the conversation is not over"
        (result,) = self._result
        return result

    @property
    def status(self) -> int:
        assert isinstance(self.error, (CallFailed, RpcFault)), self.error
        return self.error.status

    def answer(self, reply: Any) -> "Talk[R]":
        assert isinstance(reply, self.ask.interface.methods[self.ask.opnum].reply)
        self._go(lambda: self._conversation.send(reply))
        return self

    def fail(self, error: WaypostError) -> "Talk[R]":
        assert not self.is_over
        self._go(lambda: self._conversation.throw(error))
        return self

    def _go(self, step: Callable[[], Ask]) -> None:
        try:
            self._asked = step()
        except StopIteration as stop:
            self._asked = None
            self._result.append(stop.value)
        except WaypostError as error:
            self._asked = None
            self.error = error


def user_message(body: bytes = b"twelve bytes", *, is_transactional: bool = False) -> UserMessage:
    mode = user_header.RECOVERABLE if is_transactional else 0
    return UserMessage(
        base=BaseHeader(flags=3, time_to_reach_queue=100),
        user=UserHeader(sent_time=1_000_000, flags=user_header.MP | mode << user_header.DM_SHIFT),
        transaction=TransactionHeader() if is_transactional else None,
        properties=MessagePropertiesHeader(message_body=body),
    )


def receive_reply(limits: BodyLimits = ALL, *, is_transactional: bool = False) -> ReceiveReply:
    packet = RemotePacket.of(user_message(is_transactional=is_transactional).encode(), Origin(b"q" * 16))
    return ReceiveReply.of(packet.encode(), LOOKUP_ID, ARRIVED, limits)


def damaged_reply() -> ReceiveReply:
    """Its sections are right, and together they do not make a packet."""
    reply = receive_reply()
    (section,) = reply.sections
    section.data = b"\xff" * len(section.data)
    return reply


def new_guids() -> Callable[[], bytes]:
    numbers = count(1)
    return lambda: next(numbers).to_bytes(16, "little")
