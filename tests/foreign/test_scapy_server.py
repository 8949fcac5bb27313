"""Our client reads from a server of scapy, which says nothing of what ours says beyond the protocol.

scapy's server takes one call at a time, leaves the signature off a fault, and does not agree to sign headers although
it does. It does not look at the signature of a request without parameters, and has lost count after it, so that
R_GetServerPort is the last call here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pytest

from tests.crash.daemons import loopback
from tests.foreign.every_call import start
from tests.foreign.site import LEVELS, LONG_BODY, Faulted, OurClient
from tests.late import late
from tests.remote.conversing import IDENTITY, new_guids, user_message
from waypost.hresult import HResult
from waypost.remote.client.conversations import Ask, CallFailed, Conversation
from waypost.remote.client.reads import Opening, ReadRequest, Transaction
from waypost.remote.client.remote_read import RemoteReadClient
from waypost.remote.interfaces import remote_read as table
from waypost.remote.interfaces.remote_read import REMOTE_READ, ReceiveAction
from waypost.rpc.authentication import AuthLevel, AuthType
from waypost.rpc.calls import FaultStatus
from waypost.rpc.faults import RpcFault
from waypost.wire.format_names import FormatName
from waypost.wire.ndr import ContextHandle, NdrSyntax
from waypost.wire.remote_packet import Origin, RemotePacket

if TYPE_CHECKING:
    from tests.foreign import scapy_server
    from tests.foreign.scapy_server import Shelf
else:
    scapy_server = late("tests.foreign.scapy_server")


R = TypeVar("R")

NDR20, NDR64 = NdrSyntax.NDR20, NdrSyntax.NDR64
ADDRESS = loopback(43)
ORDERS = FormatName.parse(r"DIRECT=OS:host\private$\orders")
SHELF_LATE = FormatName.parse(r"DIRECT=OS:host\private$\orders;late")
TOKEN = b"a token of some coordinator"
FIRST = 4 << 56 | 1

SECURITY = [
    (AuthLevel.NONE, AuthType.NONE),
    *((level, auth_type) for level in LEVELS[1:] for auth_type in (AuthType.NTLM, AuthType.SPNEGO)),
]


def shelf(*bodies: bytes) -> Shelf:
    packets = [RemotePacket.of(user_message(body).encode(), Origin(b"q" * 16)).encode() for body in bodies]
    return scapy_server.Shelf(r"OS:host\PRIVATE$\orders", dict(enumerate(packets, FIRST)))


def carry(client: OurClient, conversation: Conversation[R]) -> R:
    """Runs a conversation over one connection."""
    step: partial[Ask] = partial(next, conversation)
    while True:
        try:
            ask = step()
        except StopIteration as stop:
            result: R = stop.value
            return result
        reply = client.ask(ask.interface, ask.opnum, ask.request)
        if isinstance(reply, Faulted):
            step = partial(conversation.throw, RpcFault(reply.status))
        else:
            step = partial(conversation.send, reply)


@pytest.mark.spec("MQRR-1.7-03")
@pytest.mark.parametrize("syntax", NdrSyntax)
@pytest.mark.parametrize(("level", "auth_type"), SECURITY)
def test_our_client_reads_from_a_server_of_scapy(level: AuthLevel, auth_type: AuthType, syntax: NdrSyntax) -> None:
    """Every method but one that waits. Of 1.7-03, a client on a computer that is in no domain takes NTLM by SPNEGO."""
    queue_of_scapy = shelf(b"one", b"two", b"three", b"four")
    reader = RemoteReadClient(IDENTITY, new_guids())
    with (
        scapy_server.serving(queue_of_scapy, ADDRESS, level, syntax, auth_type) as port,
        OurClient((ADDRESS, port), [REMOTE_READ], level, auth_type) as client,
    ):
        queue = carry(client, reader.open(Opening(ORDERS)))
        with pytest.raises(CallFailed, match="QUEUE_NOT_FOUND"):
            carry(client, reader.open(Opening(FormatName.parse(r"DIRECT=OS:host\private$\others"))))

        peeked = carry(client, queue.read(ReadRequest(ReceiveAction.MQ_ACTION_PEEK_CURRENT)))
        assert (peeked.message.properties.message_body, peeked.arrive_time) == (b"one", scapy_server.ARRIVED)
        cursor = carry(client, queue.create_cursor())
        following = ReadRequest(ReceiveAction.MQ_ACTION_PEEK_NEXT, cursor=cursor)
        assert carry(client, queue.read(following)).message.properties.message_body == b"two"
        carry(client, queue.close_cursor(cursor))

        received = carry(client, queue.read(ReadRequest()))
        assert (received.lookup_id, received.is_ended) == (peeked.lookup_id, True) == (FIRST, True)
        transaction = Transaction(b"t" * 16, TOKEN)
        by_lookup = ReadRequest(ReceiveAction.MQ_LOOKUP_RECEIVE_CURRENT, lookup_id=FIRST + 2, transaction=transaction)
        third = carry(client, queue.read(by_lookup))
        assert third.message.properties.message_body == b"three"
        carry(client, queue.reject(third))
        carry(client, queue.move(FIRST + 1, carry(client, reader.open_for_move(SHELF_LATE)), transaction))
        assert list(queue_of_scapy.packets) == [FIRST + 3]
        carry(client, queue.purge())
        with pytest.raises(CallFailed, match="IO_TIMEOUT"):
            carry(client, queue.read(ReadRequest()))
        cancelled = client.ask(REMOTE_READ, 8, table.CancelReceiveRequest(ContextHandle(0, scapy_server.HANDLE), 1))
        assert cancelled.hresult == HResult.STATUS_NOT_FOUND
        carry(client, queue.close())
        carry(client, reader.find_port())
        assert reader.port == port
    assert queue_of_scapy.enlisted == {transaction.identifier: TOKEN}
    assert queue_of_scapy.rejected == [FIRST + 2]
    assert queue_of_scapy.moved == [(FIRST + 1, transaction.identifier)]
    assert queue_of_scapy.levels == {level}
    assert set(queue_of_scapy.called) == {method.name for method in REMOTE_READ.methods.values()}


@pytest.mark.parametrize(("level", "syntax"), [(AuthLevel.INTEGRITY, NDR20), (AuthLevel.PRIVACY, NDR64)])
def test_a_long_message_comes_in_fragments(level: AuthLevel, syntax: NdrSyntax) -> None:
    """Without security, scapy sends fragments of zeros."""
    body = LONG_BODY[:500_000]
    reader = RemoteReadClient(IDENTITY, new_guids())
    with (
        scapy_server.serving(shelf(body), ADDRESS, level, syntax, AuthType.NTLM) as port,
        OurClient((ADDRESS, port), [REMOTE_READ], level) as client,
    ):
        queue = carry(client, reader.open(Opening(ORDERS)))
        assert carry(client, queue.read(ReadRequest())).message.properties.message_body == body


def test_calls_follow_each_other_where_the_server_takes_one_at_a_time() -> None:
    with (
        scapy_server.serving(shelf(b"one"), ADDRESS, AuthLevel.PRIVACY, NDR64, AuthType.NTLM) as port,
        OurClient((ADDRESS, port), [REMOTE_READ], AuthLevel.PRIVACY) as client,
    ):
        peek = start(ContextHandle(0, scapy_server.HANDLE), ReceiveAction.MQ_ACTION_PEEK_CURRENT, 1)
        replies = client.ask_all(REMOTE_READ, 7, [peek] * 5)
    assert [reply.hresult for reply in replies] == [HResult.MQ_OK] * 5


def test_a_server_that_does_not_know_the_password_answers_no_call() -> None:
    with (
        scapy_server.serving(shelf(b"one"), ADDRESS, AuthLevel.PRIVACY, NDR20, AuthType.NTLM) as port,
        OurClient((ADDRESS, port), [REMOTE_READ], AuthLevel.PRIVACY, password="guess") as client,
    ):
        reply = client.ask(REMOTE_READ, 4, table.CreateCursorRequest(ContextHandle(0, scapy_server.HANDLE)))
    assert reply == Faulted(FaultStatus.ACCESS_DENIED)
