"""scapy as a server of RemoteRead: a queue manager with one queue of messages that a test gave it."""

# mypy: allow-untyped-calls, allow-untyped-decorators

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Final

from scapy.layers.dcerpc import RPC_C_AUTHN_LEVEL, DCERPC_Transport, NDRContextHandle
from scapy.layers.msrpce.rpcserver import DCERPC_Fault, DCERPC_Server
from scapy.layers.ntlm import NTLMSSP, MD4le
from scapy.layers.spnego import SPNEGOSSP

from tests.foreign.scapy_records import (
    OpenQueueForMoveResponse,
    OpenQueueResponse,
    StartReceiveResponse,
    correct_definitions,
    ms_mqrr,
)
from tests.foreign.site import DOMAIN, PASSWORD, SECONDS, USER
from waypost.hresult import HResult
from waypost.rpc.authentication import AuthLevel, AuthType
from waypost.wire.ndr import NdrSyntax

# mypy takes it for an abstract class.
_spnego: Final[Any] = SPNEGOSSP

ARRIVED: Final = 1_000_007
CURSOR: Final = 77
MOVE_CONTEXT: Final = 0x1122_3344_5566_7788
HANDLE: Final = b"a queue's handle"
TARGET: Final = b"a target's handl"
NO_HANDLE: Final = bytes(16)

_RECEIVE, _PEEK_CURRENT, _PEEK_NEXT = 0, 0x8000_0000, 0x8000_0001
_LOOKUP_PEEK, _LOOKUP_RECEIVE = 0x4000_0010, 0x4000_0020
_ACK: Final = 2


@dataclass
class Shelf:
    """The queue: packets by lookup identifier. `called` are the names of the methods that were called."""

    name: str
    packets: dict[int, bytes]
    at: int = 0
    given: dict[int, int] = field(default_factory=dict)
    enlisted: dict[bytes, bytes] = field(default_factory=dict)
    rejected: list[int] = field(default_factory=list)
    moved: list[tuple[int, bytes]] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    levels: set[AuthLevel] = field(default_factory=set)

    def find(self, request: Any) -> int | None:
        """The message that a start call asks for."""
        free = [number for number in self.packets if number not in self.given.values()]
        if request.ulAction in (_LOOKUP_PEEK, _LOOKUP_RECEIVE):
            return request.LookupId if request.LookupId in free else None
        self.at += request.ulAction == _PEEK_NEXT
        at = self.at if request.hCursor == CURSOR else 0
        return free[at] if at < len(free) else None


class RemoteReadServer(DCERPC_Server):
    """One connection of a reader."""

    shelf: Shelf

    def make_reply(self, req: Any) -> Any:
        self.shelf.called.append(type(req.payload.payload).__name__.removesuffix("_Request"))
        self.shelf.levels.add(AuthLevel(self.session.auth_level))
        reply = super().make_reply(req)
        reply.ndr64 = self.ndr64
        return reply

    @DCERPC_Server.answer(ms_mqrr.R_GetServerPort_Request)
    def get_server_port(self, _: Any) -> Any:
        return ms_mqrr.R_GetServerPort_Response(status=self.port)

    @DCERPC_Server.answer(ms_mqrr.R_OpenQueue_Request)
    def open(self, req: Any) -> Any:
        self._check_name(req.pQueueFormat, self.shelf.name)
        return OpenQueueResponse(pphContext=NDRContextHandle(uuid=HANDLE))

    @DCERPC_Server.answer(ms_mqrr.R_OpenQueueForMove_Request)
    def open_for_move(self, req: Any) -> Any:
        self._check_name(req.pQueueFormat, f"{self.shelf.name};late")
        return OpenQueueForMoveResponse(pMoveContext=MOVE_CONTEXT, pphContext=NDRContextHandle(uuid=TARGET))

    @DCERPC_Server.answer(ms_mqrr.R_CloseQueue_Request)
    def close(self, req: Any) -> Any:
        is_open = req.pphContext.uuid in (HANDLE, TARGET)
        status = HResult.MQ_OK if is_open else HResult.MQ_ERROR_INVALID_HANDLE
        return ms_mqrr.R_CloseQueue_Response(pphContext=NDRContextHandle(uuid=NO_HANDLE), status=status)

    @DCERPC_Server.answer(ms_mqrr.R_CreateCursor_Request)
    def create_cursor(self, req: Any) -> Any:
        self._check_handle(req)
        return ms_mqrr.R_CreateCursor_Response(phCursor=CURSOR)

    @DCERPC_Server.answer(ms_mqrr.R_CloseCursor_Request)
    def close_cursor(self, req: Any) -> Any:
        self._check_handle(req)
        return ms_mqrr.R_CloseCursor_Response(status=0 if req.hCursor == CURSOR else HResult.STATUS_INVALID_HANDLE)

    @DCERPC_Server.answer(ms_mqrr.R_PurgeQueue_Request)
    def purge(self, req: Any) -> Any:
        self._check_handle(req)
        self.shelf.packets.clear()
        return ms_mqrr.R_PurgeQueue_Response()

    @DCERPC_Server.answer(ms_mqrr.R_StartReceive_Request)
    def start(self, req: Any) -> Any:
        return self._start(req)

    @DCERPC_Server.answer(ms_mqrr.R_StartTransactionalReceive_Request)
    def start_in_transaction(self, req: Any) -> Any:
        assert req.pTransactionId.rgb in self.shelf.enlisted
        return self._start(req)

    @DCERPC_Server.answer(ms_mqrr.R_EndReceive_Request)
    def end(self, req: Any) -> Any:
        return ms_mqrr.R_EndReceive_Response(status=self._end(req))

    @DCERPC_Server.answer(ms_mqrr.R_EndTransactionalReceive_Request)
    def end_in_transaction(self, req: Any) -> Any:
        return ms_mqrr.R_EndTransactionalReceive_Response(status=self._end(req))

    @DCERPC_Server.answer(ms_mqrr.R_CancelReceive_Request)
    def cancel(self, req: Any) -> Any:
        self._check_handle(req)
        return ms_mqrr.R_CancelReceive_Response(status=HResult.STATUS_NOT_FOUND)

    @DCERPC_Server.answer(ms_mqrr.R_MoveMessage_Request)
    def move(self, req: Any) -> Any:
        assert (req.phContextFrom.uuid, req.ullContextTo) == (HANDLE, MOVE_CONTEXT)
        del self.shelf.packets[req.LookupId]
        self.shelf.moved.append((req.LookupId, req.pTransactionId.rgb))
        return ms_mqrr.R_MoveMessage_Response()

    @DCERPC_Server.answer(ms_mqrr.R_QMEnlistRemoteTransaction_Request)
    def enlist(self, req: Any) -> Any:
        self._check_name(req.pQueueFormat, self.shelf.name)
        self.shelf.enlisted[req.pTransactionId.rgb] = req.pbPropagationToken.value
        return ms_mqrr.R_QMEnlistRemoteTransaction_Response()

    @DCERPC_Server.answer(ms_mqrr.R_SetUserAcknowledgementClass_Request)
    def reject(self, req: Any) -> Any:
        self._check_handle(req)
        self.shelf.rejected.append(req.LookupId)
        return ms_mqrr.R_SetUserAcknowledgementClass_Response()

    def _start(self, req: Any) -> Any:
        self._check_handle(req)
        number = self.shelf.find(req)
        if number is None:
            return StartReceiveResponse(ppPacketSections=None, status=HResult.MQ_ERROR_IO_TIMEOUT)
        if req.ulAction in (_RECEIVE, _LOOKUP_RECEIVE):
            self.shelf.given[req.dwRequestId] = number
        data = self.shelf.packets[number]
        section = ms_mqrr.SectionBuffer(SectionSizeAlloc=len(data), pSectionBuffer=data)
        return StartReceiveResponse(
            pdwArriveTime=ARRIVED, pSequenceId=number & (1 << 56) - 1, pdwNumberOfSections=1, ppPacketSections=[section]
        )

    def _end(self, req: Any) -> int:
        self._check_handle(req)
        number = self.shelf.given.pop(req.dwRequestId)
        if req.dwAck == _ACK:
            del self.shelf.packets[number]
        return HResult.MQ_OK

    def _check_handle(self, req: Any) -> None:
        if req.phContext.uuid != HANDLE:
            raise DCERPC_Fault(0x1C00001A)

    def _check_name(self, queue_format: Any, name: str) -> None:
        if queue_format.valueof("value") != name.encode():
            raise DCERPC_Fault(HResult.MQ_ERROR_QUEUE_NOT_FOUND)


@contextmanager
def serving(shelf: Shelf, address: str, level: AuthLevel, syntax: NdrSyntax, auth_type: AuthType) -> Iterator[int]:
    """The port on which the shelf is read, at least at a level and in one syntax."""
    correct_definitions()
    with socket.create_server((address, 0)) as listener:
        port: int = listener.getsockname()[1]
        threads: list[Thread] = []

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                package: Any = NTLMSSP(IDENTITIES={USER: MD4le(PASSWORD)}, DOMAIN_NB_NAME=DOMAIN)
                server = RemoteReadServer(
                    DCERPC_Transport.NCACN_IP_TCP,
                    ndr64=syntax is NdrSyntax.NDR64,
                    verb=False,
                    min_auth_level=RPC_C_AUTHN_LEVEL(level),
                    port=port,
                    ssp=_spnego([package]) if auth_type is AuthType.SPNEGO else package,
                )
                server.shelf = shelf
                threads.append(Thread(target=_serve, args=(server, connection), daemon=True))
                threads[-1].start()

        accepting = Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield port
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(SECONDS)
            for thread in threads:
                thread.join(SECONDS)
            assert not any(thread.is_alive() for thread in (accepting, *threads))


def _serve(server: RemoteReadServer, connection: socket.socket) -> None:
    with connection:
        server.loop(connection)
