"""MS-MQRR 2.1, 3.1.4.2 and 5.1: who may open a queue, and how calls are protected."""

import pytest

from tests.remote.harness import ALICE, Host
from tests.remote.reader import (
    PEEK,
    PEEK_CURRENT,
    RECEIVE,
    UOW,
    Reader,
    label,
    queue_format,
    serve,
)
from waypost.core.queues import AccessType
from waypost.hresult import HResult
from waypost.remote.context import RemoteSettings
from waypost.remote.interfaces.remote_read import (
    OpenQueueForMoveRequest,
    OpenQueueRequest,
)
from waypost.rpc.authentication import AuthLevel, Caller
from waypost.rpc.calls import FaultStatus

BOB = Caller(AuthLevel.PRIVACY, "CORP\\bob", "10.0.0.8")
REQUESTS = {2: OpenQueueRequest, 11: OpenQueueForMoveRequest}
ANONYMOUS = Caller.anonymous("10.0.0.7")


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def reader(host: Host) -> Reader:
    return Reader(serve(host), host)


@pytest.mark.spec("MQRR-1.5-01")
def test_a_queue_manager_that_is_not_ready_serves_nobody(host: Host, reader: Reader) -> None:
    host.put("a")
    handle = reader.open()
    assert Reader(reader.service.handler, host, ANONYMOUS).try_open().status == FaultStatus.ACCESS_DENIED  # type: ignore[arg-type]
    host.manager.queue_manager_stopped()
    assert reader.try_open().status == HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE
    assert reader.read(handle).status == HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE
    host.manager.queue_manager_started(host.now)
    assert label(reader.read(handle)) == "a"


@pytest.mark.spec("MQRR-3.1.4.2-04", "MQRR-3.1.4.2-05", "MQRR-3.1.4.7-04")
def test_a_handle_allows_what_it_was_opened_for(host: Host, reader: Reader) -> None:
    message = host.put("a")
    peeking, moving, receiving = reader.open(access=PEEK), reader.open_for_move("orders").context, reader.open()
    assert label(reader.read(peeking, PEEK_CURRENT)) == "a"
    for handle, actions in ((peeking, (0x0000_0000, 0x4000_0020)), (moving, (0, 0x8000_0000, 0x4000_0010))):
        for action in actions:
            lookup_id = message if action & 0x4000_0000 else 0
            assert reader.read(handle, action, lookup_id).status == HResult.STATUS_ACCESS_DENIED
            assert reader.read(handle, action, lookup_id, tx=UOW).status == HResult.STATUS_ACCESS_DENIED
    assert reader.read(peeking, PEEK_CURRENT, tx=UOW).status == HResult.STATUS_ACCESS_DENIED
    assert label(reader.read(receiving, PEEK_CURRENT)) == label(reader.read(receiving)) == "a"
    in_ledger = reader.open("ledger")
    host.put("b", host.ledger)
    assert label(reader.read(in_ledger, PEEK_CURRENT, tx=bytes(16))) == "b"
    assert label(reader.read(in_ledger, tx=UOW)) == "b"


@pytest.mark.spec("MQRR-3.1.4.11-07")
def test_who_lacks_the_right_gets_no_handle(host: Host, reader: Reader) -> None:
    host.denied = {(ALICE.name, host.orders, access) for access in (AccessType.RECEIVE, AccessType.MOVE)}
    for answer in (reader.try_open(), reader.try_open("orders;late"), reader.try_open_for_move("orders;late")):
        assert (answer.raised, answer.record) == (HResult.MQ_ERROR_ACCESS_DENIED, None)
    assert not host.orders.descriptors
    assert not host.orders.subqueues, "nothing is made for somebody who may not use it"
    assert reader.open(access=PEEK)
    bob = Reader(reader.service.handler, host, BOB)  # type: ignore[arg-type]
    assert bob.open()
    assert host.asked[-1] == (BOB, host.orders, AccessType.RECEIVE)


@pytest.mark.spec("MQRR-3.1.4.2-15", "MQRR-5.1-01")
@pytest.mark.parametrize("opnum", [2, 11])
def test_calls_are_protected_as_the_settings_ask(opnum: int) -> None:
    for settings, least in (
        (RemoteSettings(), AuthLevel.PRIVACY),
        (RemoteSettings(min_auth_level=AuthLevel.INTEGRITY), AuthLevel.INTEGRITY),
        (RemoteSettings(allows_nonauthenticated_rpc=True), AuthLevel.NONE),
    ):
        host = Host(settings)
        server = serve(host)
        for level in AuthLevel:
            client = Reader(server, host, Caller(level, "CORP\\alice", "10.0.0.9"))
            answer = client.start(opnum, REQUESTS[opnum](queue_format("orders"), RECEIVE, 0))
            assert answer.raised == (None if level >= least else FaultStatus.ACCESS_DENIED)


@pytest.mark.parametrize("opnum", [2, 11])
@pytest.mark.parametrize(
    "settings",
    [
        RemoteSettings(),
        RemoteSettings(allows_nonauthenticated_rpc=True, denies_workgroup_client=True),
        RemoteSettings(allows_none_security_client=True),
    ],
)
def test_who_comes_without_a_name_does_not_learn_which_queues_there_are(settings: RemoteSettings, opnum: int) -> None:
    host = Host(settings)
    host.denied = {(None, host.orders, access) for access in AccessType}
    nobody = Reader(serve(host), host, ANONYMOUS)
    for name in ("orders", "orders;late", "nowhere", "nowhere;late"):
        answer = nobody.start(opnum, REQUESTS[opnum](queue_format(name), RECEIVE, 0))
        assert answer.raised == FaultStatus.ACCESS_DENIED
    known = Reader(nobody.service.handler, host)  # type: ignore[arg-type]
    assert known.try_open("nowhere").raised == HResult.MQ_ERROR_QUEUE_NOT_FOUND


@pytest.mark.spec("MQRR-3.1.4.2-15")
def test_the_level_of_a_handle_holds_for_later_calls(host: Host, reader: Reader) -> None:
    handle = reader.open()
    host.put("a")
    reader.caller = Caller(AuthLevel.INTEGRITY, ALICE.name, ALICE.address)
    assert reader.read(handle).raised == FaultStatus.ACCESS_DENIED
    assert reader.enlist(b"") == FaultStatus.ACCESS_DENIED
    reader.caller = ALICE
    assert label(reader.read(handle)) == "a"


@pytest.mark.spec("MQRR-3.1.4.2-16", "MQRR-5.1-01")
@pytest.mark.parametrize("workgroup", [0, 1])
@pytest.mark.parametrize("denies_workgroup_client", [False, True])
@pytest.mark.parametrize("allows_nonauthenticated_rpc", [False, True])
def test_who_may_come_without_a_name(
    allows_nonauthenticated_rpc: bool,  # noqa: FBT001
    denies_workgroup_client: bool,  # noqa: FBT001
    workgroup: int,
) -> None:
    host = Host(
        RemoteSettings(
            allows_nonauthenticated_rpc=allows_nonauthenticated_rpc, denies_workgroup_client=denies_workgroup_client
        )
    )
    nobody = Reader(serve(host), host, ANONYMOUS)
    is_allowed = allows_nonauthenticated_rpc and (workgroup == 1 or not denies_workgroup_client)
    answer = nobody.try_open(workgroup=workgroup)
    assert answer.raised == (None if is_allowed else FaultStatus.ACCESS_DENIED)


@pytest.mark.spec("MQRR-3.1.4.2-16")
def test_a_queue_that_is_open_to_everybody_can_be_read_without_a_name() -> None:
    host = Host(RemoteSettings(allows_none_security_client=True))
    nobody = Reader(serve(host), host, ANONYMOUS)
    host.denied = {(None, host.orders, AccessType.RECEIVE)}
    assert nobody.open(access=PEEK)
    assert nobody.try_open().raised == HResult.MQ_ERROR_ACCESS_DENIED
    host.denied |= {(None, host.orders, AccessType.PEEK)}
    assert nobody.try_open(access=PEEK).raised == FaultStatus.ACCESS_DENIED
