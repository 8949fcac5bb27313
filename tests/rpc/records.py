"""The content of a table, as a test sees it: the records that a Stub can hold, and the parameters in the IDL."""

import re
from typing import Any

from hypothesis import strategies as st

from tests.wire.strategies import guids, texts, u8, u16, u32
from waypost.rpc.interface import (
    Guid,
    InPlace,
    Integer,
    Interface,
    Method,
    Nullable,
    Parameter,
    SizedBytes,
    Stub,
)
from waypost.wire.identifiers import ObjectId
from waypost.wire.ndr import I32, U8, U16, U32, U64, ContextHandle
from waypost.wire.queue_format import QueueFormat, QueueFormatType

handles = st.builds(ContextHandle, u32, guids)
queue_formats = st.one_of(
    st.builds(QueueFormat, st.just(QueueFormatType.PUBLIC), u8, u16, guids),
    st.builds(QueueFormat, st.just(QueueFormatType.PRIVATE), u8, u16, st.builds(ObjectId, guids, u32)),
    st.builds(QueueFormat, st.just(QueueFormatType.DIRECT), u8, u16, st.none() | texts),
    st.builds(QueueFormat, st.just(QueueFormatType.UNKNOWN), u8, u16, st.none()),
)
STRUCTURES: dict[type, st.SearchStrategy[Any]] = {ContextHandle: handles, QueueFormat: queue_formats}

# The type of the IDL, without its asterisk, and the layout.
INTEGERS = {
    "unsigned char": U8,
    "unsigned short": U16,
    "USHORT": U16,
    "DWORD": U32,
    "HRESULT": U32,
    "unsigned long": U32,
    "error_status": U32,
    "LONG": I32,
    "ULONGLONG": U64,
}
IDL_PARAMETER = re.compile(r"\[([^\]]+)\]\s+([\w ]+?\**)\s+(\w+)(?:\[\])?(?=,|\)$)")
RANGE = re.compile(r"range\((\d+),(\d+)\)")


def stubs(record: type[Stub], structures: dict[type, st.SearchStrategy[Any]] = STRUCTURES) -> st.SearchStrategy[Any]:
    """Any value that the annotations allow."""
    return st.builds(record, *(_values(parameter, structures) for _, parameter in record.parameters()))


def _values(parameter: Parameter, structures: dict[type, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    match parameter:
        case Integer(within=(low, high)):
            return st.integers(low, high)
        case Integer(layout=layout):
            bits = 8 * layout.size
            return st.integers(-(1 << 31), (1 << 31) - 1) if layout is I32 else st.integers(0, (1 << bits) - 1)
        case Guid():
            return guids
        case SizedBytes():
            return st.binary(max_size=9)
        case InPlace(structure=structure):
            return structures[structure]
        case Nullable(pointee=pointee):
            return st.none() | _values(pointee, structures)
    raise AssertionError(parameter)


def stub_directions(interface: Interface) -> list[tuple[Method, type[Stub]]]:
    """Each method with its request, and each with its reply, of those that are Stubs."""
    pairs = [(method, record) for method in interface.methods.values() for record in (method.request, method.reply)]
    return [(method, record) for method, record in pairs if issubclass(record, Stub)]


def check_against_idl(interface: Interface) -> None:
    """Each field of each Stub is the parameter that the IDL has in its place: name, type and range."""
    for method in interface.methods.values():
        returned, _, signature = method.idl.partition(" (")
        parameters = [match.groups() for match in IDL_PARAMETER.finditer(signature)]
        assert len(parameters) == signature.count("[in") + signature.count("[out"), method.name
        marshalled = [parameter for parameter in parameters if parameter[1] != "handle_t"]
        inward = [parameter for parameter in marshalled if parameter[0].startswith("in")]
        outward = [parameter for parameter in marshalled if "out" in parameter[0].split(", ")]
        if returned != "void":
            outward.append(("out", returned, "return"))
        for record, declared in ((method.request, inward), (method.reply, outward)):
            if issubclass(record, Stub):
                _check_record(record, declared)


def _check_record(record: type[Stub], declared: list[tuple[str, ...]]) -> None:
    found = [part for _, parameter in record.parameters() for part in _parts(parameter)]
    assert [parameter.name for parameter in found] == [name for _, _, name in declared], record
    for parameter, (attributes, idl_type, _) in zip(found, declared, strict=True):
        base = idl_type.rstrip("*")
        match = RANGE.search(attributes)
        within = (int(match[1]), int(match[2])) if match else None
        if isinstance(parameter, Integer):
            assert (parameter.layout, parameter.within) == (INTEGERS[base], within), parameter
        elif isinstance(parameter, Nullable):
            assert {"unique", "ptr"} & set(attributes.split(", ")), parameter
        elif isinstance(parameter, Guid):
            assert base in ("GUID", "XACTUOW"), parameter
        elif isinstance(parameter, InPlace) and parameter.structure is ContextHandle:
            assert "HANDLE" in base or base == "ept_lookup_handle_t", parameter
        elif isinstance(parameter, InPlace):
            assert parameter.structure.__name__.lower() == base.lower().replace("_", ""), parameter


def _parts(parameter: Parameter) -> list[Parameter]:
    if isinstance(parameter, SizedBytes):
        return [Integer(parameter.name, U32, (0, parameter.most)), SizedBytes(parameter.array_name, "", 0)]
    return [parameter]
