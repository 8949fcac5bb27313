"""Interfaces as tables: which methods they have, and what the stub of each request and reply holds, in NDR and NDR64.

The parameters of one direction are a record derived from Stub: its fields stand in the order of the IDL, and the
annotation of each has the Parameter that carries it, with the IDL's word for it.

    @dataclass(slots=True)
    class CloseCursorRequest(Stub):
        context: Annotated[ContextHandle, InPlace("phContext", ContextHandle)]
        cursor: Annotated[int, dword("hCursor")]

A record whose fields do not go one by one, such as a structure with pointers, has its own `read` and `write`. The
binding handle of a method is never in a stub. Any bytes of a stub decode to a record or a DecodeError,
which a server answers with the fault RPC_X_BAD_STUB_DATA (0x6F7).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache, partial
from struct import Struct
from typing import Annotated, Any, Final, Protocol, Self, get_type_hints

from waypost.errors import DecodeError, EncodeError
from waypost.hresult import HResult
from waypost.rpc.binds import SyntaxId
from waypost.wire.ndr import I32, STREAM, U8, U16, U32, U64, ContextHandle, NdrReader, NdrSyntax, NdrWriter

RANGE: Final = "MS-RPCE 3.1.1.5.3.2.2.4"

NULL_HANDLE: Final = ContextHandle()

# MS-RPCE 2.2.2.13: a verification trailer starts at a multiple of 4, and what fills the gap before it stays behind.
STUB_ALIGNMENT: Final = 4


class StubReader(NdrReader):
    """Reads one whole stub."""

    __slots__ = ()

    @property
    def left(self) -> int:
        """Number of bytes that are not read yet."""
        return len(self._data) - self._at

    def finish(self) -> None:
        self.flush()
        if self.left >= STUB_ALIGNMENT:
            raise DecodeError(STREAM, "stub", self.offset, f"{self.left} extra bytes follow")


class Parameters(Protocol):
    """Parameters of one direction of a call."""

    @classmethod
    def read(cls, reader: StubReader) -> Self: ...

    def write(self, writer: NdrWriter) -> None: ...


class Structure(Protocol):
    """A structure of the wire: ContextHandle, QueueFormat and their like."""

    @classmethod
    def read(cls, reader: NdrReader) -> Self: ...

    def write(self, writer: NdrWriter) -> None: ...


@dataclass(frozen=True, slots=True)
class Parameter(ABC):
    """Codec of one parameter. `name` is the IDL's. Deferred parts are flushed after it."""

    name: str

    @abstractmethod
    def read(self, reader: NdrReader) -> Any: ...

    @abstractmethod
    def write(self, writer: NdrWriter, value: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Integer(Parameter):
    """A number. `within` is its [range] attribute, both ends included."""

    layout: Struct
    within: tuple[int, int] | None = None

    def read(self, reader: NdrReader) -> int:
        value = reader.integer(self.layout, self.name)
        if fault := self._fault_of(value):
            raise DecodeError(RANGE, self.name, reader.offset - self.layout.size, fault)
        return value

    def write(self, writer: NdrWriter, value: int) -> None:
        if fault := self._fault_of(value):
            raise EncodeError(RANGE, self.name, fault)
        writer.integer(self.layout, value, self.name)

    def _fault_of(self, value: int) -> str:
        if self.within is None or self.within[0] <= value <= self.within[1]:
            return ""
        return f"must be {self.within[0]} to {self.within[1]}, not {value}"


def byte(name: str) -> Integer:
    return Integer(name, U8)


def ushort(name: str) -> Integer:
    return Integer(name, U16)


def dword(name: str, *within: int) -> Integer:
    """DWORD, ULONG and HRESULT, with the two ends of the range if there is one."""
    return Integer(name, U32, (within[0], within[1]) if within else None)


def long(name: str) -> Integer:
    return Integer(name, I32)


def ulonglong(name: str) -> Integer:
    return Integer(name, U64)


class Guid(Parameter):
    """A GUID, or an XACTUOW of the same form, behind a reference pointer, which takes no room."""

    __slots__ = ()

    def read(self, reader: NdrReader) -> bytes:
        return reader.guid(self.name)

    def write(self, writer: NdrWriter, value: bytes) -> None:
        writer.guid(value, self.name)


@dataclass(frozen=True, slots=True)
class InPlace(Parameter):
    """A structure, or one behind a reference pointer."""

    structure: type[Structure]

    def read(self, reader: NdrReader) -> Structure:
        value = self.structure.read(reader)
        reader.flush()
        return value

    def write(self, writer: NdrWriter, value: Structure) -> None:
        value.write(writer)
        writer.flush()


@dataclass(frozen=True, slots=True)
class Nullable(Parameter):
    """The referent of a unique or full pointer; None for NULL. Full pointers to one thing do not share it."""

    pointee: Parameter

    def read(self, reader: NdrReader) -> Any:
        if reader.integer(reader.syntax.width, self.name) == 0:
            return None
        return self.pointee.read(reader)

    def write(self, writer: NdrWriter, value: Any) -> None:
        writer.pointer(None if value is None else partial(self.pointee.write, writer, value))
        writer.flush()


@dataclass(frozen=True, slots=True)
class SizedBytes(Parameter):
    """A DWORD with a range from 0, and an array of as many bytes behind a reference pointer, as one value."""

    array_name: str
    most: int

    def read(self, reader: NdrReader) -> bytes:
        size = dword(self.name, 0, self.most).read(reader)
        reader.max_count(size, 1, self.array_name)
        return reader.octets(size, self.array_name)

    def write(self, writer: NdrWriter, value: bytes) -> None:
        dword(self.name, 0, self.most).write(writer, len(value))
        writer.max_count(len(value), self.array_name)
        writer.octets(value)


class Stub:
    """The base of the records whose fields are parameters, one by one."""

    __slots__ = ()

    @classmethod
    def parameters(cls) -> tuple[tuple[str, Parameter], ...]:
        """The names of the fields and what carries them."""
        record: type = cls
        return _parameters_of(record)

    @classmethod
    def read(cls, reader: NdrReader) -> Self:
        construct: Callable[..., Self] = cls
        return construct(*(parameter.read(reader) for _, parameter in cls.parameters()))

    def write(self, writer: NdrWriter) -> None:
        for name, parameter in self.parameters():
            parameter.write(writer, getattr(self, name))


@cache
def _parameters_of(record: type) -> tuple[tuple[str, Parameter], ...]:
    hints = get_type_hints(record, include_extras=True)
    return tuple((field.name, hints[field.name].__metadata__[0]) for field in fields(record))


@dataclass(slots=True)
class Empty(Stub):
    """No parameters."""


@dataclass(slots=True)
class ResultReply(Stub):
    """The reply of each method that returns an HRESULT and nothing else."""

    hresult: Annotated[int, dword("return")] = HResult.MQ_OK


@dataclass(frozen=True, slots=True)
class Method:
    """`idl` is its signature, without its name."""

    opnum: int
    name: str
    request: type[Parameters]
    reply: type[Parameters]
    idl: str


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface to bind to. `version` is major and minor; an opnum without a method is not used on the wire."""

    name: str
    uuid: bytes
    version: tuple[int, int]
    methods: Mapping[int, Method]

    @classmethod
    def of(cls, name: str, uuid: bytes, version: tuple[int, int], *methods: Method) -> "Interface":
        return cls(name, uuid, version, {method.opnum: method for method in methods})

    @property
    def syntax(self) -> SyntaxId:
        major, minor = self.version
        return SyntaxId(self.uuid, minor << 16 | major)


def decode_request(method: Method, stub: bytes, syntax: NdrSyntax) -> Any:
    """The record `method.request`, or DecodeError."""
    return _decode(method.request, stub, syntax)


def encode_request(method: Method, request: Parameters, syntax: NdrSyntax) -> bytes:
    assert isinstance(request, method.request)
    return _encode(request, syntax)


def decode_reply(method: Method, stub: bytes, syntax: NdrSyntax) -> Any:
    """The record `method.reply`, or DecodeError."""
    return _decode(method.reply, stub, syntax)


def encode_reply(method: Method, reply: Parameters, syntax: NdrSyntax) -> bytes:
    assert isinstance(reply, method.reply)
    return _encode(reply, syntax)


def _decode(record: type[Parameters], stub: bytes, syntax: NdrSyntax) -> Any:
    reader = StubReader(stub, syntax)
    value = record.read(reader)
    reader.finish()
    return value


def _encode(record: Parameters, syntax: NdrSyntax) -> bytes:
    writer = NdrWriter(syntax)
    record.write(writer)
    return writer.finish()
