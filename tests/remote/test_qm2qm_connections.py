"""qm2qm and qmcomm over connections: binds, transfer syntaxes, endpoints, concurrent calls, associations, callers."""

from dataclasses import replace
from typing import Any

import pytest

from tests.remote.qm2qm_reader import (
    ACK,
    CANCELED,
    CLIENT_ID,
    DENIED,
    FOREVER,
    INVALID_PARAMETER,
    NACK,
    ORDERS,
    PEEK,
    RECEIVE,
    RECEIVE_ACCESS,
    ReadHost,
)
from tests.rpc.calling import toy_security
from tests.rpc.serving import toy_acceptors
from waypost.core.positions import PositionState
from waypost.core.serialization import deserialize_message_from_buffer
from waypost.hresult import HResult
from waypost.remote.context import RemoteSettings
from waypost.remote.interfaces.qm2qm import (
    QM2QM,
    CancelReceiveRequest,
    CloseCursorRequest,
    CloseQueueRequest,
    EndReceiveRequest,
    GetServerPortRequest,
    OpenQueueRequest,
    PurgeQueueRequest,
    RemoteReadDesc,
    RemoteReadDesc2,
    StartReceive2Request,
    StartReceiveByLookupIdRequest,
    StartReceiveRequest,
)
from waypost.remote.interfaces.qmcomm import QMCOMM, OpenRemoteQueueRequest
from waypost.remote.interfaces.remote_read import ReceiveAction
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.binds import NDR20, NDR64, Bind, BindAck, BindResult, ContextElement, SyntaxId
from waypost.rpc.calls import FaultStatus
from waypost.rpc.client import ClientConnection
from waypost.rpc.client_binding import ClientSecurity
from waypost.rpc.client_errors import InterfaceRefused
from waypost.rpc.endpoint_mapper import Registration, endpoint_mapper
from waypost.rpc.endpoint_mapper_interface import EPMAPPER, Endpoint, EptMapRequest, Tower
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Empty, Interface, Method, Parameters, ResultReply
from waypost.rpc.pdu import FragmentReader, PacketType, fragment_of
from waypost.rpc.server import RpcServer
from waypost.rpc.settings import RpcSettings
from waypost.wire.format_names import FormatName
from waypost.wire.queue_format import QueueFormat

OPEN_TO_ALL = RemoteSettings(allows_nonauthenticated_rpc=True)
AVAILABLE, LOCKED = PositionState.AVAILABLE, PositionState.LOCKED
ADDRESS = "10.0.0.9"


class Network:
    """A host with its listeners, and lines to it. With 2105 taken, qm2qm is at 2116."""

    def __init__(self, settings: RemoteSettings = OPEN_TO_ALL) -> None:
        self.host = ReadHost(settings)
        self.host.qm2qm_port = 2116
        listeners = {
            "135": [endpoint_mapper([Registration(QM2QM, 2116), Registration(QMCOMM, 2103)])],
            "2103": [self.host.qmcomm],
            "2116": [self.host.qm2qm],
        }
        self.server = RpcServer(listeners, toy_acceptors, self.host.new_guid, RpcSettings())
        self.lines: dict[int, Line] = {}

    def run(self) -> None:
        is_silent = False
        while not is_silent:
            is_silent = True
            for number, line in list(self.lines.items()):
                if output := line.connection.take_output():
                    self.server.received(number, output, self.host.now)
                    is_silent = False
            self.host.pump()
            for number, data in self.server.take_output():
                assert data is not None
                if number in self.lines:
                    self.lines[number].connection.feed(data)
                    self.server.sent(number, len(data))
                    is_silent = False


class Line:
    """A connection of a client to a listener."""

    def __init__(
        self,
        network: Network,
        interface: Interface,
        port: int,
        group_id: int = 0,
        security: ClientSecurity | None = None,
        address: str = ADDRESS,
    ) -> None:
        self.network = network
        self.interface = interface
        self.number = len(network.lines) + 100
        self.connection = ClientConnection([interface], security, group_id)
        self._results: dict[int, Any] = {}
        network.server.connected(self.number, str(port), address, network.host.now)
        network.lines[self.number] = self
        self.connection.start()
        network.run()

    def start(self, opnum: int, request: Parameters) -> int:
        call_id = self.connection.call(self.interface, opnum, request)
        self.network.run()
        return call_id

    def result(self, call_id: int) -> Any:
        """The result of the call; None if there is none yet."""
        self._results.update(self.connection.take_results())
        return self._results.pop(call_id, None)

    def ask(self, opnum: int, request: Parameters) -> Any:
        result = self.result(self.start(opnum, request))
        assert result is not None
        return result

    def cut(self) -> None:
        """The connection goes."""
        del self.network.lines[self.number]
        self.network.server.closed(self.number, self.network.host.now)
        self.network.run()


class Lines:
    """A reader with a line to each interface and a queue that is open."""

    def __init__(
        self, network: Network, security: ClientSecurity | None = None, more: ClientSecurity | None = None
    ) -> None:
        self.qmcomm = Line(network, QMCOMM, 2103, security=security)
        self.qm2qm = Line(network, QM2QM, 2116, security=more)
        opened = self.qmcomm.ask(2, open_remote())
        assert opened.hresult == HResult.MQ_OK
        self.handle: int = opened.queue
        session = self.qm2qm.ask(2, OpenQueueRequest(CLIENT_ID, 0, self.handle, self.handle, self.handle))
        assert session.hresult == HResult.MQ_OK
        self.session = session.context

    def desc(self, action: int = RECEIVE, timeout: int = 0, request_id: int = 1) -> RemoteReadDesc:
        return RemoteReadDesc(self.handle, 0, action, timeout, self.handle, request_id)


def open_remote() -> OpenRemoteQueueRequest:
    queue_format = QueueFormat.from_format_name(FormatName.parse(ORDERS))
    return OpenRemoteQueueRequest(queue_format, 0, RECEIVE_ACCESS, 0, CLIENT_ID, 0)


def label(desc: RemoteReadDesc | None) -> str:
    assert desc is not None
    assert desc.buffer is not None
    return deserialize_message_from_buffer(desc.buffer).label


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.mark.spec("MQQP-1.9-01", "MQQP-1.7-01")
def test_the_interface_is_bound_by_its_uuid_and_its_version(network: Network) -> None:
    assert QM2QM.version == (1, 0)
    assert str(Line(network, QM2QM, 2116).ask(8, Empty())).startswith("GetVersionReply")
    for other in (
        replace(QM2QM, uuid=b"x" * 16),
        replace(QM2QM, version=(2, 0)),
        replace(QM2QM, version=(0, 0)),
    ):
        assert isinstance(Line(network, other, 2116).ask(8, Empty()), InterfaceRefused)


@pytest.mark.spec("MQQP-1.7-01")
def test_there_are_eleven_methods(network: Network) -> None:
    names = [
        "StartReceive",
        "EndReceive",
        "OpenQueue",
        "CloseQueue",
        "CloseCursor",
        "CancelReceive",
        "PurgeQueue",
        "GetQMQMServerPort",
        "GetVersion",
        "StartReceive2",
        "StartReceiveByLookupId",
    ]
    assert [QM2QM.methods[opnum].name.lower() for opnum in range(11)] == [f"remoteqm{name}".lower() for name in names]
    beyond = Method(11, "none", Empty, ResultReply, "")
    line = Line(network, replace(QM2QM, methods={**QM2QM.methods, 11: beyond}), 2116)
    fault = line.ask(11, Empty())
    assert isinstance(fault, RpcFault)
    assert fault.status == FaultStatus.NCA_OP_RNG_ERROR


@pytest.mark.spec("MQQP-2.2-01")
@pytest.mark.parametrize("offered", [[NDR20], [NDR64], [NDR20, NDR64]])
def test_either_transfer_syntax_is_accepted_and_only_one(network: Network, offered: list[SyntaxId]) -> None:
    server, now = network.server, network.host.now
    server.connected(1, "2116", ADDRESS, now)
    contexts = [ContextElement(number, QM2QM.syntax, [transfer]) for number, transfer in enumerate(offered)]
    server.received(1, fragment_of(Bind(5840, 5840, 0, contexts), 1).encode(), now)
    ((_, data),) = server.take_output()
    assert data is not None
    (fragment,) = FragmentReader().feed(data)
    assert fragment.header.ptype == PacketType.BIND_ACK
    results = [result.result for result in BindAck.decode(fragment).results]
    assert results.count(BindResult.ACCEPTANCE) == 1
    assert len(results) == len(offered)


@pytest.mark.spec("MQQP-2.1-03", "MQQP-2.1-04", "MQQP-3.1.4.8-07", "MQQP-3.1.4.8-03", "MQQP-7-02")
def test_the_mapper_and_the_server_name_one_port_where_all_methods_are_served(network: Network) -> None:
    """readings MQQP 4: also if it is not the default."""
    network.host.put("a")
    mapper = Line(network, EPMAPPER, 135)
    wanted = Tower.of(Endpoint(QM2QM.syntax, NDR20, 0))
    mapped = mapper.ask(3, EptMapRequest(None, wanted, max_towers=4))
    (tower,) = mapped.towers
    port = tower.endpoint.port
    line = Line(network, QM2QM, port)
    assert [line.ask(7, GetServerPortRequest(1)).port for _ in range(2)] == [port, port] == [2116, 2116]
    reader = Lines(network)
    desc2 = RemoteReadDesc2(reader.desc(PEEK))
    read = reader.qm2qm.ask(0, StartReceiveRequest(reader.desc()))
    assert label(read.remote_read_desc) == "a"
    assert reader.qm2qm.ask(1, EndReceiveRequest(read.context, NACK)).hresult == HResult.MQ_OK
    assert reader.qm2qm.ask(4, CloseCursorRequest(reader.handle, 1)).hresult == HResult.MQ_ERROR_INVALID_HANDLE
    cancel = CancelReceiveRequest(reader.handle, reader.handle, 1)
    assert reader.qm2qm.ask(5, cancel).hresult == HResult.MQ_ERROR_INVALID_HANDLE
    assert reader.qm2qm.ask(8, Empty()).major == 6
    assert label(reader.qm2qm.ask(9, StartReceive2Request(desc2)).remote_read_desc2.remote_read_desc) == "a"
    first = RemoteReadDesc2(reader.desc(ReceiveAction.MQ_LOOKUP_PEEK_NEXT))
    by_lookup_id = reader.qm2qm.ask(10, StartReceiveByLookupIdRequest(0, first))
    assert label(by_lookup_id.remote_read_desc2.remote_read_desc) == "a"
    assert reader.qm2qm.ask(6, PurgeQueueRequest(reader.handle)).hresult == HResult.MQ_OK
    assert reader.qm2qm.ask(3, CloseQueueRequest(reader.session)).hresult == HResult.MQ_OK


@pytest.mark.spec("MQQP-2.1-05", "MQQP-5-01", "MQQP-5-02", "MQQP-5-03")
def test_everybody_may_bind_and_the_methods_refuse() -> None:
    network = Network(RemoteSettings())
    line = Line(network, QM2QM, 2116)
    assert line.ask(7, GetServerPortRequest(1)).port == 2116
    assert line.ask(2, OpenQueueRequest(CLIENT_ID, 0, 1, 1, 1)).hresult == DENIED
    assert Line(network, QMCOMM, 2103).ask(2, open_remote()).hresult == DENIED
    assert network.host.asked == []
    known = Line(network, QMCOMM, 2103, security=toy_security())
    assert known.ask(2, open_remote()).hresult == HResult.MQ_OK
    ((caller, queue, _),) = network.host.asked
    assert (caller.name, caller.level, queue) == ("CORP\\alice", AuthLevel.PRIVACY, network.host.orders)


def test_a_reader_who_logs_in_on_each_line_is_the_same_and_nobody_without_the_number_is() -> None:
    network = Network(RemoteSettings())
    network.host.put("a")
    reader = Lines(network, toy_security(), toy_security())
    thief = Line(network, QM2QM, 2116, security=toy_security(name="CORP\\mary"))
    guess = reader.handle ^ 1
    assert thief.ask(2, OpenQueueRequest(CLIENT_ID, 0, guess, guess, guess)).hresult == INVALID_PARAMETER
    assert thief.ask(0, StartReceiveRequest(reader.desc(PEEK))).hresult == INVALID_PARAMETER
    assert label(reader.qm2qm.ask(0, StartReceiveRequest(reader.desc(PEEK))).remote_read_desc) == "a"


@pytest.mark.spec("MQQP-5-04", "MQQP-3.1.4.2-03")
def test_a_machine_account_reads_a_queue_that_a_user_has_opened_with_the_rights_of_the_user() -> None:
    """The flow of a supporting server: the number of the user, and another login on the line of qm2qm."""
    network = Network(RemoteSettings())
    network.host.put("a")
    network.host.put("b")
    user = Line(network, QMCOMM, 2103, security=toy_security())
    number = user.ask(2, open_remote()).queue
    machine = Line(network, QM2QM, 2116, security=toy_security(name="CORP\\SERVER$"))
    (asked,) = network.host.asked
    assert asked[0].name == "CORP\\alice"
    session = machine.ask(2, OpenQueueRequest(CLIENT_ID, 0, number, number, number))
    assert session.hresult == HResult.MQ_OK
    desc = RemoteReadDesc(remote_queue=number, queue=number, action=RECEIVE, timeout=0, request_id=1)
    read = machine.ask(0, StartReceiveRequest(desc))
    assert (read.hresult, label(read.remote_read_desc)) == (HResult.MQ_OK, "a")
    assert machine.ask(1, EndReceiveRequest(read.context, ACK)).hresult == HResult.MQ_OK
    assert network.host.contents(network.host.orders) == [("b", AVAILABLE)]
    # Nobody was asked about again: the handle has the rights of its opener.
    assert network.host.asked == [asked]
    assert machine.ask(3, CloseQueueRequest(session.context)).hresult == HResult.MQ_OK


def test_a_peek_of_the_user_is_not_a_receive_of_the_machine_account() -> None:
    network = Network(RemoteSettings())
    network.host.put("a")
    user = Line(network, QMCOMM, 2103, security=toy_security())
    number = user.ask(2, replace(open_remote(), desired_access=0x20)).queue
    machine = Line(network, QM2QM, 2116, security=toy_security(name="CORP\\SERVER$"))
    assert machine.ask(2, OpenQueueRequest(CLIENT_ID, 0, number, number, number)).hresult == HResult.MQ_OK
    desc = RemoteReadDesc(remote_queue=number, queue=number, action=RECEIVE, timeout=0, request_id=1)
    assert machine.ask(0, StartReceiveRequest(desc)).hresult == DENIED
    peek = machine.ask(0, StartReceiveRequest(replace(desc, action=PEEK)))
    assert label(peek.remote_read_desc) == "a"
    assert network.host.contents(network.host.orders) == [("a", AVAILABLE)]


@pytest.mark.spec("MQQP-3.1.4.6-01")
@pytest.mark.parametrize("how", ["same connection", "same association", "another association"])
def test_a_cancel_is_a_second_call_while_the_first_one_waits(network: Network, how: str) -> None:
    reader = Lines(network)
    waiting = reader.qm2qm.start(0, StartReceiveRequest(reader.desc(RECEIVE, FOREVER, 7)))
    assert reader.qm2qm.result(waiting) is None
    group_id = reader.qm2qm.connection.assoc_group_id if how == "same association" else 0
    second = reader.qm2qm if how == "same connection" else Line(network, QM2QM, 2116, group_id)
    assert second.ask(5, CancelReceiveRequest(reader.handle, reader.handle, 7)).hresult == HResult.MQ_OK
    reply = reader.qm2qm.result(waiting)
    assert (reply.hresult, reply.context.is_null, reply.remote_read_desc.buffer) == (CANCELED, True, None)


@pytest.mark.spec("MQQP-3.1.6.1-01", "MQQP-3.1.6.2-01")
def test_handles_run_down_when_the_last_connection_of_the_association_goes(network: Network) -> None:
    reader, host = Lines(network), network.host
    host.put("a")
    second = Line(network, QM2QM, 2116, reader.qm2qm.connection.assoc_group_id)
    assert reader.qm2qm.ask(0, StartReceiveRequest(reader.desc())).hresult == HResult.MQ_OK
    reader.qmcomm.cut()
    reader.qm2qm.cut()
    assert host.contents(host.orders) == [("a", LOCKED)]
    assert second.ask(0, StartReceiveRequest(reader.desc())).hresult == HResult.MQ_ERROR_IO_TIMEOUT
    second.cut()
    assert host.contents(host.orders) == [("a", AVAILABLE)]
    assert not host.orders.descriptors


def test_a_wait_ends_with_its_connection(network: Network) -> None:
    reader, host = Lines(network), network.host
    Line(network, QM2QM, 2116, reader.qm2qm.connection.assoc_group_id)
    reader.qm2qm.start(0, StartReceiveRequest(reader.desc(RECEIVE, FOREVER)))
    reader.qm2qm.cut()
    host.put("a")
    assert host.contents(host.orders) == [("a", AVAILABLE)]


def test_a_wait_that_the_client_gives_up_ends(network: Network) -> None:
    reader, host = Lines(network), network.host
    waiting = reader.qm2qm.start(0, StartReceiveRequest(reader.desc(RECEIVE, FOREVER)))
    reader.qm2qm.connection.cancel(waiting)
    network.run()
    assert reader.qm2qm.result(waiting).hresult == CANCELED
    orphan = reader.qm2qm.start(0, StartReceiveRequest(reader.desc(RECEIVE, FOREVER)))
    reader.qm2qm.connection.orphan(orphan)
    network.run()
    host.put("a")
    assert host.contents(host.orders) == [("a", AVAILABLE)]


def test_many_waits_are_answered_each_with_its_own_message(network: Network) -> None:
    reader, host = Lines(network), network.host
    waits = [
        reader.qm2qm.start(9, StartReceive2Request(RemoteReadDesc2(reader.desc(RECEIVE, FOREVER, number))))
        for number in range(50)
    ]
    for number in range(50):
        host.put(str(number))
    network.run()
    replies = [reader.qm2qm.result(wait) for wait in waits]
    labels = [label(reply.remote_read_desc2.remote_read_desc) for reply in replies]
    assert labels == [str(number) for number in range(50)]
    assert len({reply.context for reply in replies}) == 50


def test_a_message_of_four_megabytes_comes_over_the_wire(network: Network) -> None:
    reader, host = Lines(network), network.host
    body = bytes(range(256)) * 16_380
    host.put(replace(host.message("big"), body=body))
    reply = reader.qm2qm.ask(0, StartReceiveRequest(reader.desc(PEEK)))
    assert deserialize_message_from_buffer(reply.remote_read_desc.buffer).body == body
