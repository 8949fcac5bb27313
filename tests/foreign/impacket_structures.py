"""The interfaces in the words of impacket's NDR, field by field from the IDL; ept_lookup and ept_map it has itself.

A reference pointer takes no room, so its parameter is what it points to. An enum has 16 bits in NDR. The result of a
method is called ErrorCode, as impacket does.
"""

# The names are those of the IDL and of impacket.
# ruff: noqa: N801, N802, N815
# mypy: allow-subclassing-any

from typing import Any

from impacket.dcerpc.v5.dtypes import DWORD, GUID, LONG, LPWSTR, UCHAR, ULONG, ULONGLONG, USHORT
from impacket.dcerpc.v5.epm import ept_lookup, ept_lookup_handle_t, ept_lookupResponse, ept_map, ept_mapResponse
from impacket.dcerpc.v5.ndr import (
    NDRCALL,
    NDRPOINTER,
    NDRSTRUCT,
    NDRUNION,
    NDRUniConformantArray,
    NDRUniConformantVaryingArray,
)


class Bytes(NDRUniConformantArray):
    """impacket takes an array of bytes apart into bytes: minutes for a message of 4 MB."""

    def unpack(self, field: str, kind: Any, data: bytes, offset: int = 0) -> int:
        if field != "Data":
            size: int = super().unpack(field, kind, data, offset)
            return size
        length: int = self.getArraySize()
        assert len(data) - offset >= length
        self.fields[field] = data[offset : offset + length]
        return length


class PBytes(NDRPOINTER):
    referent = (("Data", Bytes),)


class VaryingBytes(NDRUniConformantVaryingArray):
    pass


class PVaryingBytes(NDRPOINTER):
    referent = (("Data", VaryingBytes),)


class CONTEXT_HANDLE(NDRSTRUCT):
    structure = (("attributes", ULONG), ("uuid", GUID))


class XACTUOW(NDRSTRUCT):
    structure = (("rgb", "16s=b''"),)

    def getAlignment(self) -> int:
        return 1


class OBJECTID(NDRSTRUCT):
    structure = (("Lineage", GUID), ("Uniquifier", DWORD))


class QUEUE_FORMAT_ARM(NDRUNION):
    commonHdr = (("tag", UCHAR),)
    union = {
        1: ("m_gPublicID", GUID),
        2: ("m_oPrivateID", OBJECTID),
        3: ("m_pDirectID", LPWSTR),
        4: ("m_gMachineID", GUID),
        8: ("m_pDirectSubqueueID", LPWSTR),
    }


class QUEUE_FORMAT(NDRSTRUCT):
    structure = (("m_qft", UCHAR), ("m_SuffixAndFlags", UCHAR), ("m_reserved", USHORT), ("arm", QUEUE_FORMAT_ARM))

    def getAlignment(self) -> int:
        """impacket does not count the arms of a union (C706 14.3.2)."""
        return 4


class PQUEUE_FORMAT(NDRPOINTER):
    referent = (("Data", QUEUE_FORMAT),)


class SECTION_BUFFER(NDRSTRUCT):
    structure = (
        ("SectionBufferType", USHORT),
        ("SectionSizeAlloc", DWORD),
        ("SectionSize", DWORD),
        ("pSectionBuffer", PBytes),
    )


class SECTION_BUFFERS(NDRUniConformantArray):
    item = SECTION_BUFFER


class PSECTION_BUFFERS(NDRPOINTER):
    referent = (("Data", SECTION_BUFFERS),)


class REMOTEREADDESC(NDRSTRUCT):
    structure = (
        ("hRemoteQueue", DWORD),
        ("hCursor", DWORD),
        ("ulAction", DWORD),
        ("ulTimeout", DWORD),
        ("dwSize", DWORD),
        ("dwQueue", DWORD),
        ("dwRequestID", DWORD),
        ("Reserved", DWORD),
        ("dwArriveTime", DWORD),
        ("eAckNack", USHORT),
        ("lpBuffer", PVaryingBytes),
    )


class PREMOTEREADDESC(NDRPOINTER):
    referent = (("Data", REMOTEREADDESC),)


class REMOTEREADDESC2(NDRSTRUCT):
    structure = (("pRemoteReadDesc", PREMOTEREADDESC), ("SequentialId", ULONGLONG))


_HANDLE = ("phContext", CONTEXT_HANDLE)
_HANDLE_POINTER = ("pphContext", CONTEXT_HANDLE)
_RESULT = ("ErrorCode", DWORD)
_OPEN = (
    ("pQueueFormat", QUEUE_FORMAT),
    ("dwAccess", DWORD),
    ("dwShareMode", DWORD),
    ("pClientId", GUID),
    ("fNonRoutingServer", LONG),
    ("Major", UCHAR),
    ("Minor", UCHAR),
    ("BuildNumber", USHORT),
    ("fWorkgroup", LONG),
)
_START = (
    _HANDLE,
    ("LookupId", ULONGLONG),
    ("hCursor", DWORD),
    ("ulAction", DWORD),
    ("ulTimeout", DWORD),
    ("dwRequestId", DWORD),
    ("dwMaxBodySize", DWORD),
    ("dwMaxCompoundMessageSize", DWORD),
)
_STARTED = (
    ("pdwArriveTime", DWORD),
    ("pSequenceId", ULONGLONG),
    ("pdwNumberOfSections", DWORD),
    ("ppPacketSections", PSECTION_BUFFERS),
    _RESULT,
)
_END = (_HANDLE, ("dwAck", DWORD), ("dwRequestId", DWORD))
_DESC = ("lpRemoteReadDesc", REMOTEREADDESC)
_DESC2 = ("lpRemoteReadDesc2", REMOTEREADDESC2)

# All DWORDs of a CACTransferBufferV1 that is one to send, with NULL for each pointer.
_TRANSFER_BUFFER = ("ptb1", f"{57 * 4}s=b''")

_Fields = tuple[tuple[str, Any], ...]

# By interface and opnum: the parameters that go in and that come out.
_SIGNATURES: dict[tuple[str, int], tuple[_Fields, _Fields]] = {
    ("RemoteRead", 0): ((), (_RESULT,)),
    ("RemoteRead", 2): (_OPEN, (_HANDLE_POINTER,)),
    ("RemoteRead", 3): ((_HANDLE_POINTER,), (_HANDLE_POINTER, _RESULT)),
    ("RemoteRead", 4): ((_HANDLE,), (("phCursor", DWORD), _RESULT)),
    ("RemoteRead", 5): ((_HANDLE, ("hCursor", DWORD)), (_RESULT,)),
    ("RemoteRead", 6): ((_HANDLE,), (_RESULT,)),
    ("RemoteRead", 7): (_START, _STARTED),
    ("RemoteRead", 8): ((_HANDLE, ("dwRequestId", DWORD)), (_RESULT,)),
    ("RemoteRead", 9): (_END, (_RESULT,)),
    ("RemoteRead", 10): (
        (
            ("phContextFrom", CONTEXT_HANDLE),
            ("ullContextTo", ULONGLONG),
            ("LookupId", ULONGLONG),
            ("pTransactionId", XACTUOW),
        ),
        (_RESULT,),
    ),
    ("RemoteRead", 11): (_OPEN, (("pMoveContext", ULONGLONG), _HANDLE_POINTER)),
    ("RemoteRead", 12): (
        (
            ("pTransactionId", XACTUOW),
            ("cbPropagationToken", DWORD),
            ("pbPropagationToken", NDRUniConformantArray),
            ("pQueueFormat", QUEUE_FORMAT),
        ),
        (_RESULT,),
    ),
    ("RemoteRead", 13): ((*_START, ("pTransactionId", XACTUOW)), _STARTED),
    ("RemoteRead", 14): ((_HANDLE, ("LookupId", ULONGLONG), ("usClass", USHORT)), (_RESULT,)),
    ("RemoteRead", 15): (_END, (_RESULT,)),
    ("qm2qm", 0): ((_DESC,), (_HANDLE_POINTER, _DESC, _RESULT)),
    ("qm2qm", 1): ((_HANDLE_POINTER, ("dwAck", DWORD)), (_HANDLE_POINTER, _RESULT)),
    ("qm2qm", 2): (
        (("pLicGuid", GUID), ("dwMQS", DWORD), ("hQueue", DWORD), ("pQueue", DWORD), ("dwpContext", DWORD)),
        (_HANDLE, _RESULT),
    ),
    ("qm2qm", 3): ((_HANDLE_POINTER,), (_HANDLE_POINTER, _RESULT)),
    ("qm2qm", 4): ((("hQueue", DWORD), ("hCursor", DWORD)), (_RESULT,)),
    ("qm2qm", 5): ((("hQueue", DWORD), ("pQueue", DWORD), ("dwRequestID", DWORD)), (_RESULT,)),
    ("qm2qm", 6): ((("hQueue", DWORD),), (_RESULT,)),
    ("qm2qm", 7): ((("dwPortType", DWORD),), (_RESULT,)),
    ("qm2qm", 8): ((), (("pMajor", UCHAR), ("pMinor", UCHAR), ("pBuildNumber", USHORT))),
    ("qm2qm", 9): ((_DESC2,), (_HANDLE_POINTER, _DESC2, _RESULT)),
    ("qm2qm", 10): ((("LookupId", ULONGLONG), _DESC2), (_HANDLE_POINTER, _DESC2, _RESULT)),
    ("qmcomm", 2): (
        (
            ("pQueueFormat", PQUEUE_FORMAT),
            ("dwCallingProcessID", DWORD),
            ("dwDesiredAccess", DWORD),
            ("dwShareMode", DWORD),
            ("pLicGuid", GUID),
            ("dwMQS", DWORD),
        ),
        (_HANDLE_POINTER, ("pdwContext", DWORD), ("dwpQueue", DWORD), ("phQueue", DWORD), _RESULT),
    ),
    ("qmcomm", 3): ((_HANDLE_POINTER,), (_HANDLE_POINTER,)),
    ("qmcomm", 4): ((_TRANSFER_BUFFER, ("hQueue", DWORD)), (("phCursor", DWORD), _RESULT)),
    ("qmcomm", 31): ((("fIP", DWORD),), (_RESULT,)),
    ("epmapper", 2): (ept_lookup.structure, ept_lookupResponse.structure),
    ("epmapper", 3): (ept_map.structure, ept_mapResponse.structure),
    ("epmapper", 4): (
        (("entry_handle", ept_lookup_handle_t),),
        (("entry_handle", ept_lookup_handle_t), ("status", DWORD)),
    ),
}


def request_class(interface: str, opnum: int) -> Any:
    return _call_class(_SIGNATURES[interface, opnum][0])


def response_class(interface: str, opnum: int) -> Any:
    return _call_class(_SIGNATURES[interface, opnum][1])


def _call_class(fields: _Fields) -> Any:
    return type("Call", (NDRCALL,), {"structure": fields})
