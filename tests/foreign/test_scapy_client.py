"""scapy reads from our daemon, in NDR and NDR64, with its NTLM and its SPNEGO."""

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
from waypost.remote.interfaces.remote_read import REMOTE_READ, CancelReceiveRequest, ReceiveAction
from waypost.rpc.authentication import AuthLevel, AuthType
from waypost.rpc.binds import KEEP_CONNECTION_ON_ORPHAN, BindResult, RejectionReason
from waypost.rpc.calls import FaultStatus
from waypost.rpc.interface import Empty
from waypost.wire.ndr import NdrSyntax
from waypost.wire.remote_packet import RemotePacket
from waypost.wire.section_buffer import join_sections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.foreign import scapy_client
    from tests.foreign.scapy_client import ScapyClient
else:
    scapy_client = late("tests.foreign.scapy_client")


INFINITE = 0xFFFF_FFFF
NDR20, NDR64 = NdrSyntax.NDR20, NdrSyntax.NDR64

WAYS = [
    *((level, AuthType.NTLM, syntax) for level in LEVELS for syntax in NdrSyntax),
    *((level, AuthType.SPNEGO, NDR64) for level in LEVELS[1:]),
]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("scapy"), 42) as host:
        fill(host)
        yield host


@pytest.fixture(scope="module")
def ours(host: Site) -> list[tuple[str, Any]]:
    return everything_by_our_own_client(host)


def connect(host: Site, level: AuthLevel = AuthLevel.NONE, syntax: NdrSyntax = NDR20, **options: Any) -> ScapyClient:
    return scapy_client.ScapyClient(host.endpoint(REMOTE_READ), REMOTE_READ, level, syntax, **options)


@pytest.mark.spec("MQRR-1.7-01", "MQRR-1.7-02", "MQRR-2.2-01", "MQQP-1.7-01", "MQQP-2.2-01")
@pytest.mark.parametrize(("level", "auth_type", "syntax"), WAYS)
def test_every_call_agrees_with_our_own_client(
    host: Site, ours: list[tuple[str, Any]], level: AuthLevel, auth_type: AuthType, syntax: NdrSyntax
) -> None:
    """Of 1.7-02 this is NTLM; Kerberos is in tests/daemon/test_rpc_kerberos.py."""
    with host.asking(
        lambda interface: scapy_client.ScapyClient(
            host.endpoint(interface), interface, level, syntax, auth_type=auth_type
        )
    ) as ask:
        assert everything(host, ask) == ours


@pytest.mark.parametrize(("level", "syntax"), list(zip(LEVELS, (NDR64, NDR20, NDR64), strict=True)))
def test_a_message_of_4_mb_comes_in_fragments(host: Site, level: AuthLevel, syntax: NdrSyntax) -> None:
    with connect(host, level, syntax) as client:
        handle = open_queue(client.ask, "long")
        reply = client.ask(REMOTE_READ, 7, start(handle, ReceiveAction.MQ_ACTION_PEEK_CURRENT, 1))
    assert RemotePacket.decode(join_sections(reply.sections)).message().properties.message_body == LONG_BODY


def test_of_two_transfer_syntaxes_one_is_accepted_and_the_features_are_answered(host: Site) -> None:
    """MS-RPCE 3.3.1.5.3 and 3.3.1.5.6: scapy offers NDR, NDR64 and the two existing features, in this order."""
    with connect(host, syntax=NDR64) as client:
        ndr, ndr64, features = client.bind_answer.results
        assert client.ask(REMOTE_READ, 0, Empty()).port == 2103
    assert (ndr.result, ndr.reason) == (
        BindResult.PROVIDER_REJECTION,
        RejectionReason.PROPOSED_TRANSFER_SYNTAXES_NOT_SUPPORTED,
    )
    assert ndr64.result == BindResult.ACCEPTANCE
    assert features.result == BindResult.NEGOTIATE_ACK
    assert features.reason & KEEP_CONNECTION_ON_ORPHAN


@pytest.mark.parametrize("level", LEVELS)
def test_a_call_that_is_given_up_ends_and_the_connection_stays(host: Site, level: AuthLevel) -> None:
    with connect(host, level) as client:
        handle = open_queue(client.ask, "waste")
        read = client.begin(REMOTE_READ, 7, start(handle, ReceiveAction.MQ_ACTION_RECEIVE, 1, timeout=INFINITE))
        client.give_up(read)
        assert client.ask(REMOTE_READ, 0, Empty()).port == 2103
        host.put("waste", b"for whoever still asks")
        assert client.ask(REMOTE_READ, 7, start(handle, ReceiveAction.MQ_ACTION_RECEIVE, 2)).hresult == HResult.MQ_OK
    host.manager.queue("waste").purge()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("syntax", NdrSyntax)
def test_a_context_is_added_to_a_connection(host: Site, level: AuthLevel, syntax: NdrSyntax) -> None:
    with connect(host, level, syntax) as client:
        handle = open_queue(client.ask, "orders")
        client.bind(QMCOMM)
        assert client.ask(QMCOMM, 31, GetPort(0)).port == 2103
        client.bind(REMOTE_READ)
        peeked = client.ask(REMOTE_READ, 7, start(handle, ReceiveAction.MQ_ACTION_PEEK_CURRENT, 1))
        assert peeked.hresult == HResult.MQ_OK


@pytest.mark.spec("MQRR-2.2.4.1-01")
@pytest.mark.parametrize("level", LEVELS)
def test_two_calls_are_open_on_one_connection(host: Site, level: AuthLevel) -> None:
    with connect(host, level, NDR64) as client:
        handle = open_queue(client.ask, "empty")
        read = client.begin(REMOTE_READ, 7, start(handle, ReceiveAction.MQ_ACTION_RECEIVE, 1, timeout=INFINITE))
        cancel = client.begin(REMOTE_READ, 8, CancelReceiveRequest(handle, 1))
        ended = dict(client.finish() for _ in range(2))
    assert ended[cancel].hresult == HResult.MQ_OK
    assert ended[read].hresult == HResult.MQ_ERROR_OPERATION_CANCELLED


@pytest.mark.spec("MQRR-2.2.4.1-01")
@pytest.mark.parametrize("level", LEVELS)
def test_a_read_is_cancelled_over_another_connection_of_the_association(host: Site, level: AuthLevel) -> None:
    with (
        connect(host, level) as client,
        connect(host, level) as stranger,
        connect(host, level, NDR64, group=client.group) as other,
    ):
        assert other.group == client.group != stranger.group
        handle = open_queue(client.ask, "empty")
        read = client.begin(REMOTE_READ, 7, start(handle, ReceiveAction.MQ_ACTION_RECEIVE, 1, timeout=INFINITE))
        cancel = CancelReceiveRequest(handle, 1)
        assert stranger.ask(REMOTE_READ, 8, cancel) == Faulted(FaultStatus.NCA_FAULT_CONTEXT_MISMATCH)
        with patience(SECONDS, "the read does not begin to wait") as turns:
            for _ in turns:
                if other.ask(REMOTE_READ, 8, cancel).hresult == HResult.MQ_OK:
                    break
        number, ended = client.finish()
    assert (number, ended.hresult) == (read, HResult.MQ_ERROR_OPERATION_CANCELLED)
