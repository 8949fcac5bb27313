"""MS-MQRR 3.1.4.2 and 3.1.4.11: what our client says of itself when it opens a queue, and how our server takes it."""

import pytest

from tests.remote.conversing import ME, ORDERS, SHELF, Talk, new_guids
from tests.remote.harness import Host
from tests.remote.reader import Reader, serve
from waypost.core.queues import AccessType, ShareMode
from waypost.remote.client.reads import ClientIdentity, Opening
from waypost.remote.client.remote_read import RemoteReadClient
from waypost.remote.context import RemoteSettings
from waypost.remote.interfaces.remote_read import OpenQueueRequest
from waypost.rpc.authentication import Caller
from waypost.rpc.calls import FaultStatus
from waypost.rpc.faults import RpcFault
from waypost.wire.queue_format import QueueFormatType

SOMEBODY = b"\x66" * 16


def requests(identity: ClientIdentity) -> dict[int, OpenQueueRequest]:
    """The requests of the client to open a queue, and to open a subqueue for moving, by the number of the method."""
    client = RemoteReadClient(identity, new_guids())
    return {2: Talk(client.open(Opening(ORDERS))).request, 11: Talk(client.open_for_move(SHELF)).request}


@pytest.mark.spec("MQRR-3.1.4.2-08", "MQRR-3.1.4.2-11")
@pytest.mark.parametrize("is_routing_server", [True, False])
def test_a_client_names_itself_and_the_server_looks_at_no_name(*, is_routing_server: bool) -> None:
    host = Host()
    server = serve(host)
    for identifier in (ME, ME, SOMEBODY):
        identity = ClientIdentity(identifier, is_routing_server=is_routing_server)
        for opnum, request in requests(identity).items():
            assert request.client_id == identifier
            assert request.non_routing_server == (0 if is_routing_server else 1)
            assert not Reader(server, host).ask(opnum, request).context.is_null


@pytest.mark.spec("MQRR-3.1.4.11-02")
def test_a_queue_that_a_client_opens_for_moving_has_move_access() -> None:
    host = Host()
    request = requests(ClientIdentity(ME))[11]
    assert (request.access, request.share_mode) == (0x04, 0)
    assert request.queue_format.m_qft is QueueFormatType.SUBQUEUE
    Reader(serve(host), host).ask(11, request)
    (descriptor,) = host.orders.subqueues["shelf"].descriptors.values()
    assert (descriptor.access_type, descriptor.share_mode) == (AccessType.MOVE, ShareMode.DENY_NONE)


@pytest.mark.spec("MQRR-3.1.4.11-09")
@pytest.mark.parametrize("opnum", [2, 11])
@pytest.mark.parametrize("is_domain_member", [True, False])
def test_what_a_client_says_of_its_domain_decides_over_its_level(*, opnum: int, is_domain_member: bool) -> None:
    """Product notes 19 and 26: whoever is in a domain can say who it is; PKT_PRIVACY is the default for everybody."""
    request = requests(ClientIdentity(ME, is_domain_member=is_domain_member))[opnum]
    assert request.workgroup == (0 if is_domain_member else 1)
    lenient = RemoteSettings(allows_nonauthenticated_rpc=True, denies_workgroup_client=True)
    for settings, is_refused in ((lenient, is_domain_member), (RemoteSettings(), True)):
        host = Host(settings)
        nobody = Reader(serve(host), host, Caller.anonymous("10.0.0.7"))
        if is_refused:
            with pytest.raises(RpcFault) as refusal:
                nobody.ask(opnum, request)
            assert refusal.value.status == FaultStatus.ACCESS_DENIED
        else:
            assert not nobody.ask(opnum, request).context.is_null
