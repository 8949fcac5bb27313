"""Our records as scapy's packets and back: the packets of scapy-rpc, with IDL names, which the records know too.

Some definitions of scapy-rpc 0.0.8 are wrong and are replaced: it gives a status to the methods that return void,
and takes `SectionBuffer** ppPacketSections` with size_is(,n) for an array of pointers, not for a pointer to an array.
"""

# mypy: allow-untyped-calls

import struct
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from scapy.layers.dcerpc import (
    DceRpcOp,
    NDRByteField,
    NDRConfPacketListField,
    NDRContextHandle,
    NDRFullPointerField,
    NDRIntField,
    NDRLongField,
    NDRPacket,
    NDRPacketField,
    NDRPointer,
    NDRShortField,
    NDRUnion,
    find_dcerpc_interface,
)
from scapy.layers.msrpce.raw import ept

from tests.foreign.every_call import DESC_FIELDS
from waypost.remote.interfaces.qm2qm import RemoteReadDesc, RemoteReadDesc2
from waypost.remote.interfaces.qmcomm import CreateRemoteCursorRequest
from waypost.rpc.endpoint_mapper_interface import EndpointEntry, EptLookupReply, EptMapReply, InterfaceId, Tower
from waypost.rpc.interface import Guid, InPlace, Integer, Method, Nullable, Parameter, Parameters, SizedBytes, Stub
from waypost.wire.ndr import ContextHandle
from waypost.wire.queue_format import QueueFormat, QueueFormatType
from waypost.wire.receive_reply import ReceiveReply
from waypost.wire.section_buffer import SectionBuffer, SectionType

# scapy-rpc.
ms_mqrr: Final[Any] = import_module("msrpcs.ms_mqrr")
ms_mqqp: Final[Any] = import_module("msrpcs.ms_mqqp")
ms_mqmp: Final[Any] = import_module("msrpcs.ms_mqmp")

_GUID: Final = struct.Struct("<IHH8s")


class OpenQueueResponse(NDRPacket):
    fields_desc = [NDRPacketField("pphContext", NDRContextHandle(), NDRContextHandle)]


class OpenQueueForMoveResponse(NDRPacket):
    fields_desc = [
        NDRLongField("pMoveContext", 0),
        NDRPacketField("pphContext", NDRContextHandle(), NDRContextHandle),
    ]


class StartReceiveResponse(NDRPacket):
    fields_desc = [
        NDRIntField("pdwArriveTime", 0),
        NDRLongField("pSequenceId", 0),
        NDRIntField("pdwNumberOfSections", 0),
        NDRFullPointerField(
            NDRConfPacketListField(
                "ppPacketSections", [], ms_mqrr.SectionBuffer, size_is=lambda packet: packet.pdwNumberOfSections
            )
        ),
        NDRIntField("status", 0),
    ]


class GetVersionResponse(NDRPacket):
    fields_desc = [NDRByteField("pMajor", 0), NDRByteField("pMinor", 0), NDRShortField("pBuildNumber", 0)]


class CloseRemoteQueueContextResponse(NDRPacket):
    fields_desc = [NDRPacketField("pphContext", NDRContextHandle(), NDRContextHandle)]


def correct_definitions() -> None:
    for name, opnum, response in (
        ("RemoteRead", 2, OpenQueueResponse),
        ("RemoteRead", 7, StartReceiveResponse),
        ("RemoteRead", 11, OpenQueueForMoveResponse),
        ("RemoteRead", 13, StartReceiveResponse),
        ("qm2qm", 8, GetVersionResponse),
        ("qmcomm", 3, CloseRemoteQueueContextResponse),
    ):
        opnums = find_dcerpc_interface(name).opnums
        opnums[opnum] = DceRpcOp(opnums[opnum].request, response)


# --- What is sent


def request_packet(packet: type, request: Parameters) -> Any:
    """A request as a packet of the class that scapy has for it."""
    module: Any = sys.modules[packet.__module__]
    if isinstance(request, CreateRemoteCursorRequest):
        cursor = ms_mqmp.TRANSFER_TYPE.CACTB_CREATECURSOR
        union = NDRUnion(tag=cursor, value=ms_mqmp.CACCreateRemoteCursor())
        buffer = ms_mqmp.CACTransferBufferV1(uTransferType=cursor, value=union)
        return packet(ptb1=buffer, hQueue=request.queue)
    assert isinstance(request, Stub)
    values = {}
    for name, parameter in request.parameters():
        field = parameter.array_name if isinstance(parameter, SizedBytes) else parameter.name
        values[field] = _packed(module, parameter, getattr(request, name))
    return packet(**values)


def _packed(module: Any, parameter: Parameter, value: Any) -> Any:
    match parameter:
        case Integer() | SizedBytes():
            return value
        case Guid(name="pTransactionId"):
            return module.XACTUOW(rgb=value)
        case Guid():
            return _guid(module, value)
        case Nullable():
            return (
                None
                if value is None
                else NDRPointer(referent_id=0x20000, value=_packed(module, parameter.pointee, value))
            )
    assert isinstance(parameter, InPlace)
    return _STRUCTURES[parameter.structure](module, value)


def _guid(module: Any, value: bytes) -> Any:
    data1, data2, data3, data4 = _GUID.unpack(value)
    kind = module.UUID if module is ept else module.GUID
    return kind(Data1=data1, Data2=data2, Data3=data3, Data4=data4)


def _queue_format(module: Any, value: QueueFormat) -> Any:
    arm: Any = value.arm
    match value.m_qft:
        case QueueFormatType.PRIVATE:
            arm = module.OBJECTID(Lineage=_guid(module, arm.lineage), Uniquifier=arm.uniquifier)
        case QueueFormatType.UNKNOWN:
            arm = b""
    return module.QUEUE_FORMAT(
        m_qft=value.m_qft,
        m_SuffixAndFlags=value.m_suffix_and_flags,
        m_reserved=value.m_reserved,
        value=NDRUnion(tag=value.m_qft, value=arm),
    )


def context_handle(value: ContextHandle) -> Any:
    return NDRContextHandle(attributes=value.attributes, uuid=value.uuid)


def _desc(value: RemoteReadDesc) -> Any:
    assert value.buffer is None
    names = {field: getattr(value, ours) for field, ours in DESC_FIELDS.items()}
    return ms_mqqp.REMOTEREADDESC(**names, lpBuffer=None)


def _desc2(value: RemoteReadDesc2) -> Any:
    desc = value.remote_read_desc
    pointer = None if desc is None else NDRPointer(referent_id=0x20000, value=_desc(desc))
    return ms_mqqp.REMOTEREADDESC2(pRemoteReadDesc=pointer, SequentialId=value.sequential_id)


_STRUCTURES: Final[dict[Any, Callable[[Any, Any], Any]]] = {
    ContextHandle: lambda _, value: context_handle(value),
    QueueFormat: _queue_format,
    RemoteReadDesc: lambda _, value: _desc(value),
    RemoteReadDesc2: lambda _, value: _desc2(value),
    Tower: lambda _, value: ept.twr_p_t(tower_octet_string=value.encode()),
    InterfaceId: lambda module, value: ept.RPC_IF_ID(
        Uuid=_guid(module, value.uuid), VersMajor=value.vers_major, VersMinor=value.vers_minor
    ),
}


# --- What came


def reply_record(method: Method, packet: Any) -> Any:
    """The reply of a method from a packet of scapy."""
    if method.reply is ReceiveReply:
        sections = packet.ppPacketSections
        found = [] if sections is None else [_section(each) for each in sections.value.value]
        assert len(found) == packet.pdwNumberOfSections
        return ReceiveReply(packet.pdwArriveTime, packet.pSequenceId, found, packet.status)
    if method.reply is EptMapReply:
        array = packet.ITowers
        towers = [_tower(each.value) for each in array.value[0].value]
        assert len(towers) == packet.num_towers
        return EptMapReply(_handle(packet.entry_handle), towers, array.max_count, packet.status)
    if method.reply is EptLookupReply:
        array = packet.entries
        entries = [_entry(each) for each in array.value[0].value]
        assert len(entries) == packet.num_ents
        return EptLookupReply(_handle(packet.entry_handle), entries, array.max_count, packet.status)
    assert issubclass(method.reply, Stub)
    values = [_unpacked(parameter, packet) for _, parameter in method.reply.parameters()]
    return method.reply(*values)


def _unpacked(parameter: Parameter, packet: Any) -> Any:
    value = getattr(packet, "status" if parameter.name == "return" else parameter.name)
    if isinstance(parameter, Integer):
        return value
    assert isinstance(parameter, InPlace)
    return _RECORDS[parameter.structure](value)


def _handle(packet: Any) -> ContextHandle:
    return ContextHandle(packet.attributes, packet.uuid)


def _section(packet: Any) -> SectionBuffer:
    data = packet.valueof("pSectionBuffer")
    return SectionBuffer(SectionType(packet.SectionBufferType), packet.SectionSizeAlloc, packet.SectionSize, data)


def _desc_record(packet: Any) -> RemoteReadDesc:
    buffer = packet.valueof("lpBuffer")
    assert packet.dwSize == len(buffer or b"")
    return RemoteReadDesc(**{ours: getattr(packet, field) for field, ours in DESC_FIELDS.items()}, buffer=buffer)


def _desc2_record(packet: Any) -> RemoteReadDesc2:
    pointer = packet.pRemoteReadDesc
    return RemoteReadDesc2(None if pointer is None else _desc_record(pointer.value), packet.SequentialId)


def _tower(packet: Any) -> Tower:
    return Tower.decode(packet.tower_octet_string)


def _entry(packet: Any) -> EndpointEntry:
    identifier = packet.object
    guid = _GUID.pack(identifier.Data1, identifier.Data2, identifier.Data3, identifier.Data4)
    return EndpointEntry(guid, _tower(packet.tower.value), packet.annotation.value.removesuffix(b"\0"))


_RECORDS: Final[dict[Any, Callable[[Any], Any]]] = {
    ContextHandle: _handle,
    RemoteReadDesc: _desc_record,
    RemoteReadDesc2: _desc2_record,
}
