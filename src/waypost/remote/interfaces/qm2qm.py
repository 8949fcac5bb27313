"""MS-MQQP 6: the interface qm2qm with REMOTEREADDESC and REMOTEREADDESC2.

hQueue and its kin are three names for one number, the handle that R_QMOpenRemoteQueue gave, and are compared with each
other; they keep the names of the IDL. The descriptor of a request has no buffer. A NULL context handle is 20 zeros.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from waypost.errors import DecodeError
from waypost.guid import parse_guid
from waypost.hresult import HResult
from waypost.limits import MAX_REMOTE_PACKET_SIZE
from waypost.rpc.interface import (
    NULL_HANDLE,
    Empty,
    Guid,
    InPlace,
    Interface,
    Method,
    ResultReply,
    Stub,
    byte,
    dword,
    ulonglong,
    ushort,
)
from waypost.wire.ndr import ContextHandle, NdrReader, NdrWriter

SECTION: Final = "MS-MQQP 2.2.2.1"

Handle = Annotated[ContextHandle, InPlace("pphContext", ContextHandle)]
Queue = Annotated[int, dword("hQueue")]
Result = Annotated[int, dword("return")]

SIZE: Final = dword("dwSize", 0, MAX_REMOTE_PACKET_SIZE)


@dataclass(slots=True)
class RemoteReadDesc:
    """REMOTEREADDESC, MS-MQQP 2.2.2.1. dwSize is the length of `buffer`, which is None for the NULL pointer.

    Nobody looks at `reserved` and `ack_nack`.
    """

    remote_queue: int = 0
    cursor: int = 0
    action: int = 0
    timeout: int = 0
    queue: int = 0
    request_id: int = 0
    reserved: int = 0
    arrive_time: int = 0
    ack_nack: int = 0
    buffer: bytes | None = None

    @classmethod
    def read(cls, reader: NdrReader) -> "RemoteReadDesc":
        """The buffer is there after the reader's flush."""
        with reader.structure(reader.syntax):
            record = cls(
                remote_queue=reader.u32("hRemoteQueue"),
                cursor=reader.u32("hCursor"),
                action=reader.u32("ulAction"),
                timeout=reader.u32("ulTimeout"),
            )
            size = SIZE.read(reader)
            record.queue = reader.u32("dwQueue")
            record.request_id = reader.u32("dwRequestID")
            record.reserved = reader.u32("Reserved")
            record.arrive_time = reader.u32("dwArriveTime")
            record.ack_nack = reader.enum("eAckNack")
            at = reader.offset
            if not reader.pointer("lpBuffer", partial(record._read_buffer, reader, size)) and size:
                raise DecodeError(SECTION, "lpBuffer", at, f"must not be NULL if dwSize is {size}")
        return record

    def write(self, writer: NdrWriter) -> None:
        buffer = self.buffer
        with writer.structure(writer.syntax):
            writer.u32(self.remote_queue, "hRemoteQueue")
            writer.u32(self.cursor, "hCursor")
            writer.u32(self.action, "ulAction")
            writer.u32(self.timeout, "ulTimeout")
            SIZE.write(writer, len(buffer or b""))
            writer.u32(self.queue, "dwQueue")
            writer.u32(self.request_id, "dwRequestID")
            writer.u32(self.reserved, "Reserved")
            writer.u32(self.arrive_time, "dwArriveTime")
            writer.enum(self.ack_nack, "eAckNack")
            writer.pointer(None if buffer is None else partial(_write_buffer, writer, buffer))

    def _read_buffer(self, reader: NdrReader, size: int) -> None:
        """size_is and length_is are both dwSize, so that all of the array is there."""
        at = reader.offset
        counts = [reader.integer(reader.syntax.width, "lpBuffer") for _ in range(3)]
        if counts != [size, 0, size]:
            raise DecodeError(SECTION, "lpBuffer", at, f"the counts are {counts}, but dwSize is {size}")
        self.buffer = reader.octets(size, "lpBuffer")


def _write_buffer(writer: NdrWriter, buffer: bytes) -> None:
    for count in (len(buffer), 0, len(buffer)):
        writer.integer(writer.syntax.width, count, "lpBuffer")
    writer.octets(buffer)


@dataclass(slots=True)
class RemoteReadDesc2:
    """REMOTEREADDESC2, MS-MQQP 2.2.2.2. A peer can send the NULL pointer."""

    remote_read_desc: RemoteReadDesc | None = None
    sequential_id: int = 0

    @classmethod
    def read(cls, reader: NdrReader) -> "RemoteReadDesc2":
        """The record is whole after the reader's flush."""
        record = cls()
        with reader.structure(8):
            reader.pointer("pRemoteReadDesc", partial(record._read_desc, reader))
            record.sequential_id = reader.u64("SequentialId")
        return record

    def write(self, writer: NdrWriter) -> None:
        desc = self.remote_read_desc
        with writer.structure(8):
            writer.pointer(None if desc is None else partial(desc.write, writer))
            writer.u64(self.sequential_id, "SequentialId")

    def _read_desc(self, reader: NdrReader) -> None:
        self.remote_read_desc = RemoteReadDesc.read(reader)


Desc = Annotated[RemoteReadDesc, InPlace("lpRemoteReadDesc", RemoteReadDesc)]
Desc2 = Annotated[RemoteReadDesc2, InPlace("lpRemoteReadDesc2", RemoteReadDesc2)]


@dataclass(slots=True)
class StartReceiveRequest(Stub):
    remote_read_desc: Desc


@dataclass(slots=True)
class StartReceiveReply(Stub):
    context: Handle
    remote_read_desc: Desc
    hresult: Result = HResult.MQ_OK


@dataclass(slots=True)
class EndReceiveRequest(Stub):
    context: Handle
    ack: Annotated[int, dword("dwAck", 1, 2)]


@dataclass(slots=True)
class EndReceiveReply(Stub):
    context: Handle = NULL_HANDLE
    hresult: Result = HResult.MQ_OK


@dataclass(slots=True)
class OpenQueueRequest(Stub):
    lic_guid: Annotated[bytes, Guid("pLicGuid")]
    mqs: Annotated[int, dword("dwMQS", 0, 16)]
    queue: Queue
    p_queue: Annotated[int, dword("pQueue")]
    dwp_context: Annotated[int, dword("dwpContext")]


@dataclass(slots=True)
class OpenQueueReply(Stub):
    context: Annotated[ContextHandle, InPlace("phContext", ContextHandle)] = NULL_HANDLE
    hresult: Result = HResult.MQ_OK


@dataclass(slots=True)
class CloseQueueRequest(Stub):
    context: Handle


@dataclass(slots=True)
class CloseQueueReply(Stub):
    context: Handle = NULL_HANDLE
    hresult: Result = HResult.MQ_OK


@dataclass(slots=True)
class CloseCursorRequest(Stub):
    queue: Queue
    cursor: Annotated[int, dword("hCursor")]


@dataclass(slots=True)
class CancelReceiveRequest(Stub):
    queue: Queue
    p_queue: Annotated[int, dword("pQueue")]
    request_id: Annotated[int, dword("dwRequestID")]


@dataclass(slots=True)
class PurgeQueueRequest(Stub):
    queue: Queue


@dataclass(slots=True)
class GetServerPortRequest(Stub):
    """RemoteQMGetQMQMServerPort."""

    port_type: Annotated[int, dword("dwPortType", 0, 3)]


@dataclass(slots=True)
class GetServerPortReply(Stub):
    """Zero stands for an error."""

    port: Annotated[int, dword("return")] = 0


@dataclass(slots=True)
class GetVersionReply(Stub):
    major: Annotated[int, byte("pMajor")]
    minor: Annotated[int, byte("pMinor")]
    build_number: Annotated[int, ushort("pBuildNumber")]


@dataclass(slots=True)
class StartReceive2Request(Stub):
    remote_read_desc2: Desc2


@dataclass(slots=True)
class StartReceive2Reply(Stub):
    """RemoteQMStartReceive2 and RemoteQMStartReceiveByLookupId."""

    context: Handle
    remote_read_desc2: Desc2
    hresult: Result = HResult.MQ_OK


@dataclass(slots=True)
class StartReceiveByLookupIdRequest(Stub):
    lookup_id: Annotated[int, ulonglong("LookupId")]
    remote_read_desc2: Desc2


QM2QM: Final = Interface.of(
    "qm2qm",
    parse_guid("1088a980-eae5-11d0-8d9b-00a02453c337"),
    (1, 0),
    Method(
        0,
        "RemoteQMStartReceive",
        StartReceiveRequest,
        StartReceiveReply,
        """HRESULT ([in] handle_t hBind, [out] PCTX_REMOTEREAD_HANDLE_TYPE* pphContext,
        [in, out] REMOTEREADDESC* lpRemoteReadDesc)""",
    ),
    Method(
        1,
        "RemoteQMEndReceive",
        EndReceiveRequest,
        EndReceiveReply,
        """HRESULT ([in] handle_t hBind, [in, out] PCTX_REMOTEREAD_HANDLE_TYPE* pphContext,
        [in, range(1,2)] DWORD dwAck)""",
    ),
    Method(
        2,
        "RemoteQMOpenQueue",
        OpenQueueRequest,
        OpenQueueReply,
        """HRESULT ([in] handle_t hBind, [out] PCTX_RRSESSION_HANDLE_TYPE* phContext, [in] GUID* pLicGuid,
        [in, range(0,16)] DWORD dwMQS, [in] DWORD hQueue, [in] DWORD pQueue, [in] DWORD dwpContext)""",
    ),
    Method(
        3,
        "RemoteQMCloseQueue",
        CloseQueueRequest,
        CloseQueueReply,
        "HRESULT ([in] handle_t hBind, [in, out] PCTX_RRSESSION_HANDLE_TYPE* pphContext)",
    ),
    Method(
        4,
        "RemoteQMCloseCursor",
        CloseCursorRequest,
        ResultReply,
        "HRESULT ([in] handle_t hBind, [in] DWORD hQueue, [in] DWORD hCursor)",
    ),
    Method(
        5,
        "RemoteQMCancelReceive",
        CancelReceiveRequest,
        ResultReply,
        "HRESULT ([in] handle_t hBind, [in] DWORD hQueue, [in] DWORD pQueue, [in] DWORD dwRequestID)",
    ),
    Method(6, "RemoteQMPurgeQueue", PurgeQueueRequest, ResultReply, "HRESULT ([in] handle_t hBind, [in] DWORD hQueue)"),
    Method(
        7,
        "RemoteQMGetQMQMServerPort",
        GetServerPortRequest,
        GetServerPortReply,
        "DWORD ([in] handle_t hBind, [in, range(0,3)] DWORD dwPortType)",
    ),
    Method(
        8,
        "RemoteQmGetVersion",
        Empty,
        GetVersionReply,
        """void ([in] handle_t hBind, [out] unsigned char* pMajor, [out] unsigned char* pMinor,
        [out] unsigned short* pBuildNumber)""",
    ),
    Method(
        9,
        "RemoteQMStartReceive2",
        StartReceive2Request,
        StartReceive2Reply,
        """HRESULT ([in] handle_t hBind, [out] PCTX_REMOTEREAD_HANDLE_TYPE* pphContext,
        [in, out] REMOTEREADDESC2* lpRemoteReadDesc2)""",
    ),
    Method(
        10,
        "RemoteQMStartReceiveByLookupId",
        StartReceiveByLookupIdRequest,
        StartReceive2Reply,
        """HRESULT ([in] handle_t hBind, [in] ULONGLONG LookupId, [out] PCTX_REMOTEREAD_HANDLE_TYPE* pphContext,
        [in, out] REMOTEREADDESC2* lpRemoteReadDesc2)""",
    ),
)
