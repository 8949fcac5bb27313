"""MS-MQMP 6: the four methods of the interface qmcomm that MS-MQQP cannot do without (MS-MQQP 1.4, readings MQQP 6)."""

from dataclasses import dataclass
from typing import Annotated, Final

from waypost.errors import DecodeError
from waypost.guid import parse_guid
from waypost.hresult import HResult
from waypost.rpc.interface import NULL_HANDLE, Guid, InPlace, Interface, Method, Nullable, Stub, StubReader, dword
from waypost.wire.ndr import ContextHandle, NdrSyntax, NdrWriter
from waypost.wire.queue_format import QueueFormat

Handle = Annotated[ContextHandle, InPlace("pphContext", ContextHandle)]
Result = Annotated[int, dword("return")]
QUEUE: Final = dword("hQueue")

# MS-MQMP 2.2.3.2: the bytes of a CACTransferBufferV1 of zeros, which is one to send whose pointers are NULL.
TRANSFER_BUFFER_SIZES: Final = {NdrSyntax.NDR20: 228, NdrSyntax.NDR64: 448}


@dataclass(slots=True)
class OpenRemoteQueueRequest(Stub):
    queue_format: Annotated[QueueFormat | None, Nullable("pQueueFormat", InPlace("pQueueFormat", QueueFormat))]
    calling_process_id: Annotated[int, dword("dwCallingProcessID")]
    desired_access: Annotated[int, dword("dwDesiredAccess")]
    share_mode: Annotated[int, dword("dwShareMode")]
    lic_guid: Annotated[bytes, Guid("pLicGuid")]
    mqs: Annotated[int, dword("dwMQS")]


@dataclass(slots=True)
class OpenRemoteQueueReply(Stub):
    context: Handle = NULL_HANDLE
    dw_context: Annotated[int, dword("pdwContext")] = 0
    dwp_queue: Annotated[int, dword("dwpQueue")] = 0
    queue: Annotated[int, dword("phQueue")] = 0
    hresult: Result = HResult.MQ_OK


@dataclass(slots=True)
class CloseRemoteQueueContextRequest(Stub):
    context: Handle


@dataclass(slots=True)
class CloseRemoteQueueContextReply(Stub):
    context: Handle = NULL_HANDLE


@dataclass(slots=True)
class CreateRemoteCursorRequest:
    """The transfer buffer is ignored (MS-MQMP 3.1.4.4), whatever is in it: hQueue is the last DWORD of the stub.

    As Windows does, `write` sends a buffer of zeros.
    """

    queue: int

    @classmethod
    def read(cls, reader: StubReader) -> "CreateRemoteCursorRequest":
        ignored = reader.left - QUEUE.layout.size
        if ignored < 0 or ignored % 4:
            raise DecodeError(
                "MS-MQMP 3.1.4.4", "ptb1", 0, f"must be followed by a DWORD, but {reader.left} bytes are left"
            )
        reader.octets(ignored, "ptb1")
        return cls(QUEUE.read(reader))

    def write(self, writer: NdrWriter) -> None:
        writer.octets(bytes(TRANSFER_BUFFER_SIZES[writer.syntax]))
        QUEUE.write(writer, self.queue)


@dataclass(slots=True)
class CreateRemoteCursorReply(Stub):
    cursor: Annotated[int, dword("phCursor")] = 0
    hresult: Result = HResult.MQ_OK


@dataclass(slots=True)
class GetServerPortRequest(Stub):
    """R_QMGetRTQMServerPort. fIP has the values of dwPortType of MS-MQQP 3.1.4.8, and no range."""

    ip: Annotated[int, dword("fIP")]


@dataclass(slots=True)
class GetServerPortReply(Stub):
    """Zero stands for an error."""

    port: Annotated[int, dword("return")] = 0


QMCOMM: Final = Interface.of(
    "qmcomm",
    parse_guid("fdb3a030-065f-11d1-bb9b-00a024ea5525"),
    (1, 0),
    Method(
        2,
        "R_QMOpenRemoteQueue",
        OpenRemoteQueueRequest,
        OpenRemoteQueueReply,
        """HRESULT ([in] handle_t hBind, [out] PCTX_OPENREMOTE_HANDLE_TYPE* pphContext, [out] DWORD* pdwContext,
        [in, unique] QUEUE_FORMAT* pQueueFormat, [in] DWORD dwCallingProcessID, [in] DWORD dwDesiredAccess,
        [in] DWORD dwShareMode, [in] GUID* pLicGuid, [in] DWORD dwMQS, [out] DWORD* dwpQueue, [out] DWORD* phQueue)""",
    ),
    Method(
        3,
        "R_QMCloseRemoteQueueContext",
        CloseRemoteQueueContextRequest,
        CloseRemoteQueueContextReply,
        "void ([in, out] PCTX_OPENREMOTE_HANDLE_TYPE* pphContext)",
    ),
    Method(
        4,
        "R_QMCreateRemoteCursor",
        CreateRemoteCursorRequest,
        CreateRemoteCursorReply,
        """HRESULT ([in] handle_t hBind, [in] struct CACTransferBufferV1* ptb1, [in] DWORD hQueue,
        [out] DWORD* phCursor)""",
    ),
    Method(
        31,
        "R_QMGetRTQMServerPort",
        GetServerPortRequest,
        GetServerPortReply,
        "DWORD ([in] handle_t hBind, [in] DWORD fIP)",
    ),
)
