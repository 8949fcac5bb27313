"""MS-MQRR 6: the interface RemoteRead, and the values of its parameters that have names.

A context handle has 20 bytes, whether the IDL calls it SERIALIZE or NOSERIALIZE (2.2.4). A pointer at the top level is
a reference pointer and takes no room (readings MQRR 5), so that "no transaction" is an XACTUOW of 16 zeros. R_OpenQueue
and R_OpenQueueForMove return no result: a failure is a fault whose status is the HRESULT.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Final

from waypost.guid import NULL_GUID, parse_guid
from waypost.hresult import HResult
from waypost.limits import MAX_PROPAGATION_TOKEN
from waypost.rpc.interface import (
    NULL_HANDLE,
    Empty,
    Guid,
    InPlace,
    Interface,
    Method,
    ResultReply,
    SizedBytes,
    Stub,
    byte,
    dword,
    long,
    ulonglong,
    ushort,
)
from waypost.wire.ndr import ContextHandle
from waypost.wire.queue_format import QueueFormat
from waypost.wire.receive_reply import ReceiveReply

Handle = Annotated[ContextHandle, InPlace("phContext", ContextHandle)]
HandlePointer = Annotated[ContextHandle, InPlace("pphContext", ContextHandle)]
Result = Annotated[int, dword("return")]
Transaction = Annotated[bytes, Guid("pTransactionId")]


class ReceiveAction(IntEnum):
    """MS-MQRR 3.1.4.7, MS-MQQP 2.2.2.1: ulAction."""

    MQ_ACTION_RECEIVE = 0x0000_0000
    MQ_ACTION_PEEK_CURRENT = 0x8000_0000
    MQ_ACTION_PEEK_NEXT = 0x8000_0001
    MQ_LOOKUP_PEEK_CURRENT = 0x4000_0010
    MQ_LOOKUP_PEEK_NEXT = 0x4000_0011
    MQ_LOOKUP_PEEK_PREV = 0x4000_0012
    MQ_LOOKUP_RECEIVE_CURRENT = 0x4000_0020
    MQ_LOOKUP_RECEIVE_NEXT = 0x4000_0021
    MQ_LOOKUP_RECEIVE_PREV = 0x4000_0022

    @property
    def is_lookup(self) -> bool:
        return self & 0x4000_0000 != 0

    @property
    def is_peek(self) -> bool:
        return self & 0x8000_0010 != 0


class RemoteReadAck(IntEnum):
    """MS-MQQP 2.2.1.3 REMOTEREADACK, and dwAck of both protocols."""

    RR_UNKNOWN = 0
    RR_NACK = 1
    RR_ACK = 2


@dataclass(slots=True)
class GetServerPortReply(Stub):
    """Zero stands for an error."""

    port: Annotated[int, dword("return")] = 0


@dataclass(slots=True)
class OpenQueueRequest(Stub):
    queue_format: Annotated[QueueFormat, InPlace("pQueueFormat", QueueFormat)]
    access: Annotated[int, dword("dwAccess")]
    share_mode: Annotated[int, dword("dwShareMode")]
    client_id: Annotated[bytes, Guid("pClientId")] = NULL_GUID
    non_routing_server: Annotated[int, long("fNonRoutingServer")] = 0
    major: Annotated[int, byte("Major")] = 0
    minor: Annotated[int, byte("Minor")] = 0
    build_number: Annotated[int, ushort("BuildNumber")] = 0
    workgroup: Annotated[int, long("fWorkgroup")] = 0


@dataclass(slots=True)
class OpenQueueReply(Stub):
    context: HandlePointer


@dataclass(slots=True)
class CloseQueueRequest(Stub):
    context: HandlePointer


@dataclass(slots=True)
class CloseQueueReply(Stub):
    context: HandlePointer = NULL_HANDLE
    hresult: Result = HResult.MQ_OK


@dataclass(slots=True)
class CreateCursorRequest(Stub):
    context: Handle


@dataclass(slots=True)
class CreateCursorReply(Stub):
    cursor: Annotated[int, dword("phCursor")] = 0
    hresult: Result = HResult.MQ_OK


@dataclass(slots=True)
class CloseCursorRequest(Stub):
    context: Handle
    cursor: Annotated[int, dword("hCursor")]


@dataclass(slots=True)
class PurgeQueueRequest(Stub):
    context: Handle


@dataclass(slots=True)
class StartReceiveRequest(Stub):
    context: Handle
    lookup_id: Annotated[int, ulonglong("LookupId")]
    cursor: Annotated[int, dword("hCursor")]
    action: Annotated[int, dword("ulAction")]
    timeout: Annotated[int, dword("ulTimeout")]
    request_id: Annotated[int, dword("dwRequestId")]
    max_body_size: Annotated[int, dword("dwMaxBodySize")]
    max_compound_message_size: Annotated[int, dword("dwMaxCompoundMessageSize")]


@dataclass(slots=True)
class CancelReceiveRequest(Stub):
    context: Handle
    request_id: Annotated[int, dword("dwRequestId")]


@dataclass(slots=True)
class EndReceiveRequest(Stub):
    context: Handle
    ack: Annotated[int, dword("dwAck", 1, 2)]
    request_id: Annotated[int, dword("dwRequestId")]


@dataclass(slots=True)
class MoveMessageRequest(Stub):
    context_from: Annotated[ContextHandle, InPlace("phContextFrom", ContextHandle)]
    context_to: Annotated[int, ulonglong("ullContextTo")]
    lookup_id: Annotated[int, ulonglong("LookupId")]
    transaction_id: Transaction = NULL_GUID


@dataclass(slots=True)
class OpenQueueForMoveRequest(OpenQueueRequest):
    """Parameters of R_OpenQueue."""


@dataclass(slots=True)
class OpenQueueForMoveReply(Stub):
    move_context: Annotated[int, ulonglong("pMoveContext")]
    context: HandlePointer


@dataclass(slots=True)
class QMEnlistRemoteTransactionRequest(Stub):
    transaction_id: Transaction
    propagation_token: Annotated[bytes, SizedBytes("cbPropagationToken", "pbPropagationToken", MAX_PROPAGATION_TOKEN)]
    queue_format: Annotated[QueueFormat, InPlace("pQueueFormat", QueueFormat)]


@dataclass(slots=True)
class StartTransactionalReceiveRequest(StartReceiveRequest):
    transaction_id: Transaction


@dataclass(slots=True)
class SetUserAcknowledgementClassRequest(Stub):
    context: Handle
    lookup_id: Annotated[int, ulonglong("LookupId")]
    user_class: Annotated[int, ushort("usClass")]


@dataclass(slots=True)
class EndTransactionalReceiveRequest(EndReceiveRequest):
    """Parameters of R_EndReceive."""


REMOTE_READ: Final = Interface.of(
    "RemoteRead",
    parse_guid("1a9134dd-7b39-45ba-ad88-44d01ca47f28"),
    (1, 0),
    Method(0, "R_GetServerPort", Empty, GetServerPortReply, "DWORD ([in] handle_t hBind)"),
    Method(
        2,
        "R_OpenQueue",
        OpenQueueRequest,
        OpenQueueReply,
        """void ([in] handle_t hBind, [in] QUEUE_FORMAT* pQueueFormat, [in] DWORD dwAccess, [in] DWORD dwShareMode,
        [in] GUID* pClientId, [in] LONG fNonRoutingServer, [in] unsigned char Major, [in] unsigned char Minor,
        [in] USHORT BuildNumber, [in] LONG fWorkgroup, [out] QUEUE_CONTEXT_HANDLE_SERIALIZE* pphContext)""",
    ),
    Method(
        3,
        "R_CloseQueue",
        CloseQueueRequest,
        CloseQueueReply,
        "HRESULT ([in] handle_t hBind, [in, out] QUEUE_CONTEXT_HANDLE_SERIALIZE* pphContext)",
    ),
    Method(
        4,
        "R_CreateCursor",
        CreateCursorRequest,
        CreateCursorReply,
        """HRESULT ([in] handle_t hBind, [in] QUEUE_CONTEXT_HANDLE_NOSERIALIZE phContext, [out] DWORD* phCursor)""",
    ),
    Method(
        5,
        "R_CloseCursor",
        CloseCursorRequest,
        ResultReply,
        "HRESULT ([in] handle_t hBind, [in] QUEUE_CONTEXT_HANDLE_NOSERIALIZE phContext, [in] DWORD hCursor)",
    ),
    Method(
        6,
        "R_PurgeQueue",
        PurgeQueueRequest,
        ResultReply,
        "HRESULT ([in] handle_t hBind, [in] QUEUE_CONTEXT_HANDLE_NOSERIALIZE phContext)",
    ),
    Method(
        7,
        "R_StartReceive",
        StartReceiveRequest,
        ReceiveReply,
        """HRESULT ([in] handle_t hBind, [in] QUEUE_CONTEXT_HANDLE_NOSERIALIZE phContext, [in] ULONGLONG LookupId,
        [in] DWORD hCursor, [in] DWORD ulAction, [in] DWORD ulTimeout, [in] DWORD dwRequestId, [in] DWORD dwMaxBodySize,
        [in] DWORD dwMaxCompoundMessageSize, [out] DWORD* pdwArriveTime, [out] ULONGLONG* pSequenceId,
        [out] DWORD* pdwNumberOfSections, [out, size_is(,*pdwNumberOfSections)] SectionBuffer** ppPacketSections)""",
    ),
    Method(
        8,
        "R_CancelReceive",
        CancelReceiveRequest,
        ResultReply,
        "HRESULT ([in] handle_t hBind, [in] QUEUE_CONTEXT_HANDLE_NOSERIALIZE phContext, [in] DWORD dwRequestId)",
    ),
    Method(
        9,
        "R_EndReceive",
        EndReceiveRequest,
        ResultReply,
        """HRESULT ([in] handle_t hBind, [in] QUEUE_CONTEXT_HANDLE_NOSERIALIZE phContext, [in, range(1,2)] DWORD dwAck,
        [in] DWORD dwRequestId)""",
    ),
    Method(
        10,
        "R_MoveMessage",
        MoveMessageRequest,
        ResultReply,
        """HRESULT ([in] handle_t hBind, [in] QUEUE_CONTEXT_HANDLE_NOSERIALIZE phContextFrom,
        [in] ULONGLONG ullContextTo, [in] ULONGLONG LookupId, [in] XACTUOW* pTransactionId)""",
    ),
    Method(
        11,
        "R_OpenQueueForMove",
        OpenQueueForMoveRequest,
        OpenQueueForMoveReply,
        """void ([in] handle_t hBind, [in] QUEUE_FORMAT* pQueueFormat, [in] DWORD dwAccess, [in] DWORD dwShareMode,
        [in] GUID* pClientId, [in] LONG fNonRoutingServer, [in] unsigned char Major, [in] unsigned char Minor,
        [in] USHORT BuildNumber, [in] LONG fWorkgroup, [out] ULONGLONG* pMoveContext,
        [out] QUEUE_CONTEXT_HANDLE_SERIALIZE* pphContext)""",
    ),
    Method(
        12,
        "R_QMEnlistRemoteTransaction",
        QMEnlistRemoteTransactionRequest,
        ResultReply,
        """HRESULT ([in] handle_t hBind, [in] XACTUOW* pTransactionId, [in, range(0,131072)] DWORD cbPropagationToken,
        [in, size_is(cbPropagationToken)] unsigned char* pbPropagationToken, [in] QUEUE_FORMAT* pQueueFormat)""",
    ),
    Method(
        13,
        "R_StartTransactionalReceive",
        StartTransactionalReceiveRequest,
        ReceiveReply,
        """HRESULT ([in] handle_t hBind, [in] QUEUE_CONTEXT_HANDLE_NOSERIALIZE phContext, [in] ULONGLONG LookupId,
        [in] DWORD hCursor, [in] DWORD ulAction, [in] DWORD ulTimeout, [in] DWORD dwRequestId, [in] DWORD dwMaxBodySize,
        [in] DWORD dwMaxCompoundMessageSize, [in] XACTUOW* pTransactionId, [out] DWORD* pdwArriveTime,
        [out] ULONGLONG* pSequenceId, [out] DWORD* pdwNumberOfSections,
        [out, size_is(,*pdwNumberOfSections)] SectionBuffer** ppPacketSections)""",
    ),
    Method(
        14,
        "R_SetUserAcknowledgementClass",
        SetUserAcknowledgementClassRequest,
        ResultReply,
        """HRESULT ([in] handle_t hBind, [in] QUEUE_CONTEXT_HANDLE_NOSERIALIZE phContext, [in] ULONGLONG LookupId,
        [in] USHORT usClass)""",
    ),
    Method(
        15,
        "R_EndTransactionalReceive",
        EndTransactionalReceiveRequest,
        ResultReply,
        """HRESULT ([in] handle_t hBind, [in] QUEUE_CONTEXT_HANDLE_NOSERIALIZE phContext, [in, range(1,2)] DWORD dwAck,
        [in] DWORD dwRequestId)""",
    ),
)
