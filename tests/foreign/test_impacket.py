"""impacket reads from our daemon: its PDUs, its NDR and its NTLM against ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.daemons import patience
from tests.foreign.every_call import everything, everything_by_our_own_client, fill, open_queue, start
from tests.foreign.site import LEVELS, LONG_BODY, SECONDS, Faulted, Site, site
from tests.late import late
from waypost.hresult import HResult
from waypost.remote.interfaces.qmcomm import QMCOMM
from waypost.remote.interfaces.qmcomm import GetServerPortRequest as GetPort
from waypost.remote.interfaces.remote_read import REMOTE_READ, CancelReceiveRequest, EndReceiveRequest, ReceiveAction
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.calls import FaultStatus
from waypost.rpc.interface import Empty
from waypost.wire.remote_packet import RemotePacket
from waypost.wire.section_buffer import join_sections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.foreign import impacket_client
    from tests.foreign.impacket_client import ImpacketClient
else:
    impacket_client = late("tests.foreign.impacket_client")


INFINITE = 0xFFFF_FFFF


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("impacket"), 41) as host:
        fill(host)
        yield host


@pytest.fixture(scope="module")
def ours(host: Site) -> list[tuple[str, Any]]:
    return everything_by_our_own_client(host)


def connect(host: Site, level: AuthLevel = AuthLevel.NONE, group: int = 0) -> ImpacketClient:
    return impacket_client.ImpacketClient(host.endpoint(REMOTE_READ), REMOTE_READ, level, group=group)


@pytest.mark.spec(
    *("MQRR-1.7-01", "MQRR-1.7-02", "MQRR-2.1-02", "MQRR-2.1-03"),
    *("MQQP-1.7-01", "MQQP-2.1-03", "MQQP-2.1-04", "MQQP-3.1.4-02"),
)
@pytest.mark.parametrize("level", LEVELS)
def test_every_call_agrees_with_our_own_client(host: Site, ours: list[tuple[str, Any]], level: AuthLevel) -> None:
    """Of 1.7-02 this is NTLM; Kerberos is in tests/daemon/test_rpc_kerberos.py. impacket has its own opnums."""
    with host.asking(
        lambda interface: impacket_client.ImpacketClient(host.endpoint(interface), interface, level)
    ) as ask:
        assert everything(host, ask) == ours


@pytest.mark.parametrize("level", LEVELS)
def test_a_message_of_4_mb_comes_in_fragments(host: Site, level: AuthLevel) -> None:
    with connect(host, level) as client:
        handle = open_queue(client.ask, "long")
        reply = client.ask(REMOTE_READ, 7, start(handle, ReceiveAction.MQ_ACTION_PEEK_CURRENT, 1))
    assert RemotePacket.decode(join_sections(reply.sections)).message().properties.message_body == LONG_BODY


@pytest.mark.spec("MQRR-2.2.4.1-01", "MQRR-3.1.4.7-35")
@pytest.mark.parametrize("level", LEVELS)
def test_a_read_is_cancelled_over_another_connection_of_the_association(host: Site, level: AuthLevel) -> None:
    with connect(host, level) as client, connect(host, level, client.group) as other, connect(host, level) as stranger:
        assert other.group == client.group != stranger.group
        handle = open_queue(client.ask, "empty")
        read = start(handle, ReceiveAction.MQ_ACTION_RECEIVE, 1, timeout=INFINITE)
        client.begin(REMOTE_READ, 7, read)
        cancel = CancelReceiveRequest(handle, 1)
        assert stranger.ask(REMOTE_READ, 8, cancel) == Faulted(FaultStatus.NCA_FAULT_CONTEXT_MISMATCH)
        with patience(SECONDS, "the read does not begin to wait") as turns:
            for _ in turns:
                if other.ask(REMOTE_READ, 8, cancel).hresult == HResult.MQ_OK:
                    break
        assert client.finish(REMOTE_READ, 7, read).hresult == HResult.MQ_ERROR_OPERATION_CANCELLED


def test_one_bind_offers_several_contexts(host: Site) -> None:
    """Three of them are of interfaces that nobody knows."""
    with impacket_client.ImpacketClient(host.endpoint(REMOTE_READ), REMOTE_READ, unknown=3) as client:
        assert client.ask(REMOTE_READ, 0, Empty()).port == 2103


@pytest.mark.parametrize("level", LEVELS)
def test_a_context_is_added_to_a_connection(host: Site, level: AuthLevel) -> None:
    with connect(host, level) as client:
        handle = open_queue(client.ask, "orders")
        client.add(QMCOMM)
        assert client.ask(QMCOMM, 31, GetPort(0)).port == 2103
        peeked = client.ask(REMOTE_READ, 7, start(handle, ReceiveAction.MQ_ACTION_PEEK_CURRENT, 1))
        assert peeked.hresult == HResult.MQ_OK


def test_a_value_outside_its_range_is_bad_stub_data(host: Site) -> None:
    with connect(host) as client:
        handle = open_queue(client.ask, "orders")
        answer = client.ask(REMOTE_READ, 9, EndReceiveRequest(handle, 3, 1))
    assert answer == Faulted(FaultStatus.BAD_STUB_DATA)


def test_who_does_not_know_the_password_makes_no_call(host: Site) -> None:
    endpoint = host.endpoint(REMOTE_READ)
    with impacket_client.ImpacketClient(endpoint, REMOTE_READ, AuthLevel.PRIVACY, password="guess") as client:
        assert client.ask(REMOTE_READ, 0, Empty()) == Faulted(FaultStatus.ACCESS_DENIED)
