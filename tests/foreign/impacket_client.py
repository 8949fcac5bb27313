"""impacket as a client of RPC, with its own NTLM. It has NDR alone, and SPNEGO only for Kerberos."""

# mypy: allow-subclassing-any

import struct
from typing import Any, Final, Self

from impacket.dcerpc.v5.ndr import NULL
from impacket.dcerpc.v5.rpcrt import MSRPC_BIND, MSRPC_FAULT, DCERPC_v5, DCERPCException
from impacket.dcerpc.v5.transport import TCPTransport

from tests.foreign.every_call import DESC_FIELDS
from tests.foreign.impacket_structures import request_class, response_class
from tests.foreign.site import DOMAIN, PASSWORD, SECONDS, USER, Faulted
from waypost.remote.interfaces.qm2qm import RemoteReadDesc, RemoteReadDesc2
from waypost.remote.interfaces.qmcomm import CreateRemoteCursorRequest
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.endpoint_mapper_interface import EndpointEntry, EptLookupReply, EptMapReply, InterfaceId, Tower
from waypost.rpc.interface import Guid, InPlace, Integer, Interface, Nullable, Parameter, Parameters, SizedBytes, Stub
from waypost.wire.ndr import ContextHandle
from waypost.wire.queue_format import QueueFormat, QueueFormatType
from waypost.wire.receive_reply import ReceiveReply
from waypost.wire.section_buffer import SectionBuffer, SectionType

# In a fragment, in a bind or its answer, and in a fault.
_SIZE_AT: Final = slice(8, 10)
_GROUP_AT: Final = 20
_STATUS_AT: Final = 24


class _Line(TCPTransport):
    """impacket cannot name an association group, and forgets the status of a fault."""

    def __init__(self, endpoint: tuple[str, int], group: int) -> None:
        super().__init__(*endpoint)
        self.set_connect_timeout(SECONDS)
        self._group = group
        # The last fragment that came, or its beginning.
        self.last = b""

    def send(self, data: bytes, forceWriteAndx: int = 0, forceRecv: int = 0) -> None:  # noqa: N803, impacket's names
        if data[2] == MSRPC_BIND:
            data = data[:_GROUP_AT] + struct.pack("<I", self._group) + data[_GROUP_AT + 4 :]
        super().send(data, forceWriteAndx, forceRecv)

    def recv(self, forceRecv: int = 0, count: int = 0) -> Any:  # noqa: N803
        data = super().recv(forceRecv, count)
        is_whole = len(self.last) == int.from_bytes(self.last[_SIZE_AT], "little")
        self.last = data if is_whole else self.last + data
        return data


class ImpacketClient:
    """A connection with one interface bound to it; `unknown` more that do not exist are offered in the same bind."""

    def __init__(
        self,
        endpoint: tuple[str, int],
        interface: Interface,
        level: AuthLevel = AuthLevel.NONE,
        *,
        group: int = 0,
        unknown: int = 0,
        password: str = PASSWORD,
    ) -> None:
        self._line: Final = _Line(endpoint, group)
        dce = DCERPC_v5(self._line)
        if level is not AuthLevel.NONE:
            dce.set_credentials(USER, password, DOMAIN)
            dce.set_auth_level(int(level))
        dce.connect()
        dce.bind(_syntax(interface), bogus_binds=unknown)
        (self.group,) = struct.unpack_from("<I", self._line.last, _GROUP_AT)
        self._contexts: dict[bytes, Any] = {interface.uuid: dce}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.disconnect()

    def add(self, interface: Interface) -> None:
        """Alters the context, so that another interface is there too."""
        last = list(self._contexts.values())[-1]
        self._contexts[interface.uuid] = last.alter_ctx(_syntax(interface))

    def ask(self, interface: Interface, opnum: int, request: Parameters) -> Any:
        """The reply, or Faulted."""
        self.begin(interface, opnum, request)
        return self.finish(interface, opnum, request)

    def begin(self, interface: Interface, opnum: int, request: Parameters) -> None:
        call = request_class(interface.name, opnum)()
        _fill(call, request)
        self._contexts[interface.uuid].call(opnum, call)

    def finish(self, interface: Interface, opnum: int, request: Parameters) -> Any:
        try:
            answer = self._contexts[interface.uuid].recv()
        except DCERPCException:
            if self._line.last[2] != MSRPC_FAULT:
                raise
            return Faulted(struct.unpack_from("<I", self._line.last, _STATUS_AT)[0])
        response = response_class(interface.name, opnum)()
        assert response.fromString(answer) == len(answer), "impacket has not understood all of the answer"
        return _record(interface.methods[opnum].reply, response, request)


def _syntax(interface: Interface) -> bytes:
    return interface.uuid + struct.pack("<HH", *interface.version)


# --- What is sent


def _fill(call: Any, request: Parameters) -> None:
    if isinstance(request, CreateRemoteCursorRequest):
        call["ptb1"], call["hQueue"] = bytes(57 * 4), request.queue
        return
    assert isinstance(request, Stub)
    for name, parameter in request.parameters():
        _set(call, parameter, getattr(request, name))


def _set(call: Any, parameter: Parameter, value: Any) -> None:
    name = parameter.name
    match parameter:
        case Nullable():
            if value is None:
                call[name] = NULL
            else:
                _set(call, parameter.pointee, value)
        case Integer():
            call[name] = value
        case Guid(name="pTransactionId"):
            call[name]["rgb"] = value
        case Guid():
            call[name] = value
        case SizedBytes():
            call[name], call[parameter.array_name] = len(value), value
        case InPlace():
            _set_structure(call, name, value)


def _set_structure(call: Any, name: str, value: Any) -> None:
    structure = call[name]
    match value:
        case ContextHandle() if name == "entry_handle":
            structure["context_handle_attributes"], structure["context_handle_uuid"] = value.attributes, value.uuid
        case ContextHandle():
            structure["attributes"], structure["uuid"] = value.attributes, value.uuid
        case QueueFormat():
            _set_queue_format(structure, value)
        case RemoteReadDesc():
            _set_desc(structure, value)
        case RemoteReadDesc2():
            structure["SequentialId"] = value.sequential_id
            if value.remote_read_desc is None:
                structure["pRemoteReadDesc"] = NULL
            else:
                _set_desc(structure["pRemoteReadDesc"], value.remote_read_desc)
        case Tower():
            tower = value.encode()
            structure["tower_length"], structure["tower_octet_string"] = len(tower), tower
        case InterfaceId():
            structure["Uuid"] = value.uuid
            structure["VersMajor"], structure["VersMinor"] = value.vers_major, value.vers_minor
        case _:
            raise AssertionError(name)


def _set_queue_format(structure: Any, value: QueueFormat) -> None:
    structure["m_qft"] = value.m_qft
    structure["m_SuffixAndFlags"], structure["m_reserved"] = value.m_suffix_and_flags, value.m_reserved
    arm: Any = value.arm
    union = structure["arm"]
    if value.m_qft is not QueueFormatType.UNKNOWN:
        union["tag"] = int(value.m_qft)
    match value.m_qft:
        case QueueFormatType.DIRECT:
            union["m_pDirectID"] = arm + "\0"
        case QueueFormatType.SUBQUEUE:
            union["m_pDirectSubqueueID"] = arm + "\0"
        case QueueFormatType.PRIVATE:
            union["m_oPrivateID"]["Lineage"], union["m_oPrivateID"]["Uniquifier"] = arm.lineage, arm.uniquifier


def _set_desc(structure: Any, value: RemoteReadDesc) -> None:
    assert value.buffer is None
    for field, ours in DESC_FIELDS.items():
        structure[field] = getattr(value, ours)
    structure["dwSize"], structure["lpBuffer"] = 0, NULL


# --- What came


def _record(reply: type[Parameters], response: Any, request: Any) -> Any:
    """impacket does not keep the maximum count of a varying array, which is the number that was asked for."""
    if reply is ReceiveReply:
        sections = [_section(each) for each in response["ppPacketSections"]]
        assert len(sections) == response["pdwNumberOfSections"]
        return ReceiveReply(response["pdwArriveTime"], response["pSequenceId"], sections, response["ErrorCode"])
    if reply is EptMapReply:
        towers = [_tower(each) for each in response["ITowers"]]
        assert len(towers) == response["num_towers"]
        return EptMapReply(_handle(response["entry_handle"]), towers, request.max_towers, response["status"])
    if reply is EptLookupReply:
        entries = [_entry(each) for each in response["entries"]]
        assert len(entries) == response["num_ents"]
        return EptLookupReply(_handle(response["entry_handle"]), entries, request.max_ents, response["status"])
    assert issubclass(reply, Stub)
    return reply(*(_get(response, parameter) for _, parameter in reply.parameters()))


def _get(response: Any, parameter: Parameter) -> Any:
    if isinstance(parameter, Integer):
        return response["ErrorCode" if parameter.name == "return" else parameter.name]
    assert isinstance(parameter, InPlace)
    value = response[parameter.name]
    if parameter.structure is ContextHandle:
        return _handle(value)
    if parameter.structure is RemoteReadDesc:
        return _desc(value)
    assert parameter.structure is RemoteReadDesc2
    desc = value.fields["pRemoteReadDesc"]
    return RemoteReadDesc2(None if desc["ReferentID"] == 0 else _desc(value["pRemoteReadDesc"]), value["SequentialId"])


def _handle(structure: Any) -> ContextHandle:
    if "uuid" in structure.fields:
        return ContextHandle(structure["attributes"], structure["uuid"])
    return ContextHandle(structure["context_handle_attributes"], structure["context_handle_uuid"])


def _section(structure: Any) -> SectionBuffer:
    return SectionBuffer(
        SectionType(structure["SectionBufferType"]),
        structure["SectionSizeAlloc"],
        structure["SectionSize"],
        structure["pSectionBuffer"],
    )


def _desc(structure: Any) -> RemoteReadDesc:
    is_null = structure.fields["lpBuffer"]["ReferentID"] == 0
    buffer = None if is_null else b"".join(structure["lpBuffer"])
    assert structure["dwSize"] == len(buffer or b"")
    return RemoteReadDesc(**{ours: structure[field] for field, ours in DESC_FIELDS.items()}, buffer=buffer)


def _tower(structure: Any) -> Tower:
    return Tower.decode(b"".join(structure["tower_octet_string"]))


def _entry(structure: Any) -> EndpointEntry:
    annotation = b"".join(structure["annotation"]).removesuffix(b"\0")
    return EndpointEntry(structure["object"], _tower(structure["tower"]), annotation)
