"""MS-MQRR 3.2.4.1: RemoteRead first, and qm2qm where a computer does not have it."""

import pytest

from tests.remote.conversing import HANDLE, IDENTITY, ORDERS, Talk, new_guids
from waypost.hresult import HResult
from waypost.remote.client.choosing import open_remote_queue
from waypost.remote.client.conversations import CallFailed
from waypost.remote.client.qm2qm import Qm2QmClient
from waypost.remote.client.reads import Opening, RemoteQueue
from waypost.remote.client.remote_read import RemoteReadClient, RemoteReadQueue
from waypost.remote.interfaces.qmcomm import QMCOMM
from waypost.remote.interfaces.remote_read import REMOTE_READ, OpenQueueReply
from waypost.rpc.binds import RejectionReason, RejectReason
from waypost.rpc.calls import FaultStatus
from waypost.rpc.client_errors import (
    BindRefused,
    CallTimedOut,
    ConnectionFailed,
    InterfaceNotSupported,
    InterfaceRefused,
)
from waypost.rpc.endpoint_lookup import EPT_S_NOT_REGISTERED
from waypost.rpc.faults import RpcFault


def choosing() -> Talk[RemoteQueue]:
    return Talk(open_remote_queue(RemoteReadClient(IDENTITY, new_guids()), Qm2QmClient(IDENTITY), Opening(ORDERS)))


def test_remote_read_is_taken_where_it_is() -> None:
    talk = choosing()
    assert talk.ask.interface is REMOTE_READ
    assert isinstance(talk.answer(OpenQueueReply(HANDLE)).result, RemoteReadQueue)


@pytest.mark.spec("MQRR-3.2.4.1-03")
def test_qm2qm_is_tried_when_remote_read_is_not_registered_and_only_then() -> None:
    for missing in (RpcFault(0x6D9), InterfaceNotSupported("RemoteRead")):
        talk = choosing().fail(missing)
        assert talk.ask.interface is QMCOMM
    others = (
        RpcFault(HResult.MQ_ERROR_QUEUE_NOT_FOUND),
        RpcFault(HResult.MQ_ERROR_ACCESS_DENIED),
        RpcFault(FaultStatus.ACCESS_DENIED),
        RpcFault(EPT_S_NOT_REGISTERED - 1),
        BindRefused(RejectReason.TEMPORARY_CONGESTION),
        InterfaceRefused("RemoteRead", RejectionReason.LOCAL_LIMIT_EXCEEDED),
        ConnectionFailed("nobody answers"),
        CallTimedOut("R_OpenQueue"),
    )
    for error in others:
        talk = choosing().fail(error)
        assert talk.is_over
        assert isinstance(talk.error, (type(error), CallFailed))
