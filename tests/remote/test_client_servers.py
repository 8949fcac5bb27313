"""Both readers against our own servers, over connections."""

from typing import Any, Generic, TypeVar

import pytest

from tests.remote.conversing import IDENTITY, ORDERS, SHELF, Talk, new_guids
from tests.remote.qm2qm_reader import ReadHost
from tests.remote.reader import serve
from tests.rpc.calling import Wire
from tests.rpc.serving import Guids, toy_acceptors
from waypost.errors import WaypostError
from waypost.hresult import HResult
from waypost.remote.client.choosing import open_remote_queue
from waypost.remote.client.conversations import CallFailed, Conversation
from waypost.remote.client.qm2qm import Qm2QmClient, Qm2QmQueue
from waypost.remote.client.reads import Opening, ReadRequest, RemoteQueue
from waypost.remote.client.remote_read import RemoteReadClient, RemoteReadQueue
from waypost.remote.context import RemoteSettings
from waypost.remote.interfaces.remote_read import ReceiveAction
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.client import ClientConnection
from waypost.rpc.endpoint_lookup import EPT_S_NOT_REGISTERED
from waypost.rpc.faults import RpcFault
from waypost.rpc.server import RpcServer
from waypost.rpc.settings import RpcSettings
from waypost.wire.format_names import FormatName

R = TypeVar("R")

RECEIVE = ReceiveAction.MQ_ACTION_RECEIVE
PEEK = ReceiveAction.MQ_ACTION_PEEK_CURRENT


class Network:
    """A computer with our servers, and a shell that carries conversations to it: a connection for each binding."""

    def __init__(self, *, has_remote_read: bool = True) -> None:
        self.host = ReadHost(RemoteSettings(min_auth_level=AuthLevel.NONE))
        remote_read = [serve(self.host).service] if has_remote_read else []
        listeners = {"2103": [*remote_read, self.host.qmcomm], "2105": [self.host.qm2qm]}
        self._server = RpcServer(listeners, toy_acceptors, Guids(), RpcSettings(AuthLevel.NONE))
        self._mapped = {service.interface.uuid: port for port, services in listeners.items() for service in services}
        self._wires: dict[tuple[bytes, str], Wire] = {}

    def begin(self, conversation: Conversation[R]) -> "Run[R]":
        return Run(self, conversation)

    def run(self, conversation: Conversation[R]) -> R:
        return self.begin(conversation).talk.result

    def call(self, talk: Talk[Any]) -> tuple[Wire, int] | None:
        """Begins the call that is asked for; None if the endpoint mapper does not know where it goes."""
        ask = talk.ask
        port = str(ask.port) if ask.port else self._mapped.get(ask.interface.uuid)
        if port is None:
            return None
        wire = self._wires.get((ask.interface.uuid, port))
        if wire is None:
            connection = ClientConnection([ask.interface])
            wire = Wire(connection, self._server, len(self._wires) + 1, listener=port)
            self._wires[ask.interface.uuid, port] = wire
        call_id = wire.connection.call(ask.interface, ask.opnum, ask.request)
        self._server.received(wire.number, wire.connection.take_output(), self.host.now)
        self.deliver()
        return wire, call_id

    def deliver(self) -> None:
        self.host.pump()
        by_number = {wire.number: wire for wire in self._wires.values()}
        for number, data in self._server.take_output():
            assert data is not None
            by_number[number].connection.feed(data)
            self._server.sent(number, len(data))


class Run(Generic[R]):
    """A conversation on its way. `go_on` when something may have come for it."""

    def __init__(self, network: Network, conversation: Conversation[R]) -> None:
        self._network = network
        self.talk = Talk(conversation)
        self._open: tuple[Wire, int] | None = None
        self._ask()

    def _ask(self) -> None:
        while not self.talk.is_over:
            self._open = self._network.call(self.talk)
            if self._open is None:
                self.talk.fail(RpcFault(EPT_S_NOT_REGISTERED))
            elif not self._take():
                return

    def go_on(self) -> None:
        self._network.deliver()
        if self._take():
            self._ask()

    def _take(self) -> bool:
        assert self._open is not None
        wire, call_id = self._open
        results = wire.connection.take_results()
        mine = [result for number, result in results if number == call_id]
        wire.connection._results += [(number, result) for number, result in results if number != call_id]
        if not mine:
            return False
        if isinstance(mine[0], WaypostError):
            self.talk.fail(mine[0])
        else:
            self.talk.answer(mine[0])
        return True


def open_queue(network: Network) -> RemoteQueue:
    return network.run(
        open_remote_queue(RemoteReadClient(IDENTITY, new_guids()), Qm2QmClient(IDENTITY), Opening(ORDERS))
    )


BOTH = pytest.mark.parametrize(
    ("has_remote_read", "kind"), [(True, RemoteReadQueue), (False, Qm2QmQueue)], ids=["RemoteRead", "qm2qm"]
)


@BOTH
def test_messages_of_our_own_servers_are_peeked_and_received(has_remote_read: bool, kind: type) -> None:  # noqa: FBT001
    network = Network(has_remote_read=has_remote_read)
    lookup_ids = [network.host.put(label) for label in ("first", "second")]
    queue = open_queue(network)
    assert isinstance(queue, kind)
    peeked = network.run(queue.read(ReadRequest(PEEK)))
    assert peeked.message.properties.label == "first"
    received = network.run(queue.read(ReadRequest(RECEIVE)))
    assert (received.message.properties.label, received.is_ended) == ("first", True)
    assert received.lookup_id == lookup_ids[0]
    look = ReadRequest(ReceiveAction.MQ_LOOKUP_RECEIVE_CURRENT, lookup_id=lookup_ids[1])
    assert network.run(queue.read(look)).message.properties.label == "second"
    assert network.host.contents(network.host.orders) == []
    network.run(queue.close())


@BOTH
def test_a_read_waits_for_a_message_while_others_go_on(has_remote_read: bool, kind: type) -> None:  # noqa: FBT001
    network = Network(has_remote_read=has_remote_read)
    queue = open_queue(network)
    waiting = network.begin(queue.read(ReadRequest(RECEIVE, 60_000)))
    cursor = network.run(queue.create_cursor())
    assert not waiting.talk.is_over
    network.host.put("late")
    waiting.go_on()
    assert waiting.talk.result.message.properties.label == "late"
    network.host.put("next")
    by_cursor = network.run(queue.read(ReadRequest(PEEK, cursor=cursor)))
    assert by_cursor.message.properties.label == "next"
    network.run(queue.close_cursor(cursor))
    network.run(queue.purge())
    assert network.host.contents(network.host.orders) == []


@BOTH
def test_a_read_that_waits_is_cancelled(has_remote_read: bool, kind: type) -> None:  # noqa: FBT001
    network = Network(has_remote_read=has_remote_read)
    queue = open_queue(network)
    request = ReadRequest(RECEIVE, 0xFFFFFFFF)
    waiting = network.begin(queue.read(request))
    network.run(queue.cancel(request.request_id))
    waiting.go_on()
    assert waiting.talk.status in (
        HResult.MQ_ERROR_OPERATION_CANCELLED,
        HResult.MQ_INFORMATION_REMOTE_CANCELED_BY_CLIENT,
    )
    last = ReadRequest(PEEK, 0xFFFFFFFF)
    waiting = network.begin(queue.read(last))
    network.run(queue.close())
    waiting.go_on()
    assert isinstance(waiting.talk.error, CallFailed)


def test_a_message_is_moved_to_a_subqueue() -> None:
    network = Network()
    client = RemoteReadClient(IDENTITY, new_guids())
    lookup_id = network.host.put("moved")
    queue = network.run(client.open(Opening(ORDERS)))
    target = network.run(client.open_for_move(SHELF))
    network.run(queue.move(lookup_id, target))
    shelf = network.run(client.open(Opening(SHELF)))
    assert network.run(shelf.read(ReadRequest(PEEK))).message.properties.label == "moved"
    assert network.host.contents(network.host.orders) == []


def test_a_queue_that_is_not_there_is_not_opened_over_the_other_protocol() -> None:
    network = Network()
    opening = Opening(FormatName.parse("DIRECT=OS:host\\private$\\nothing"))
    run = network.begin(open_remote_queue(RemoteReadClient(IDENTITY, new_guids()), Qm2QmClient(IDENTITY), opening))
    assert run.talk.status == HResult.MQ_ERROR_QUEUE_NOT_FOUND
