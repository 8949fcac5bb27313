"""The open handles of a reader at a host, and the connections for them.

A session carries conversations (waypost.remote.client) to the host. It has an association for each binding that they
name, and closes those without open handles. When one of the others is lost, its handles are gone, and so the session
ends: the reader begins another one.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Final, TypeAlias, TypeVar

from waypost.client.transports.msmq.access import Access, NoCredentials
from waypost.client.transports.msmq.address import HostAddress, reason_of
from waypost.client.transports.msmq.rpc_connection import Association, ReaderConnection, RpcConnection
from waypost.core.queues import AccessType, ShareMode
from waypost.drive.new_guid import new_guid
from waypost.errors import AuthenticationFailed, HostUnreachable, WaypostError
from waypost.remote.client.choosing import open_remote_queue
from waypost.remote.client.conversations import Ask, Binding, Conversation
from waypost.remote.client.qm2qm import Qm2QmClient
from waypost.remote.client.reads import ClientIdentity, Opening, RemoteQueue
from waypost.remote.client.remote_read import RemoteReadClient
from waypost.remote.context import QM2QM_PORT, REMOTE_READ_PORT
from waypost.remote.interfaces.qm2qm import QM2QM
from waypost.rpc.authentication import AuthLevel, AuthType, SecurityContext
from waypost.rpc.client_binding import ClientSecurity
from waypost.rpc.client_errors import ConnectionFailed
from waypost.rpc.endpoint_lookup import EPT_MAP, EPT_S_NOT_REGISTERED, map_request, mapped_port
from waypost.rpc.endpoint_mapper_interface import EPMAPPER, EptMapReply
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Interface
from waypost.wire.format_names import FormatName

R = TypeVar("R")

# Seconds for an answer of the endpoint mapper, which a firewall may block; then the default ports are tried.
_MAPPER_S: Final = 3.0

# A call as it is sent, and the number of seconds for its answer; None without a limit.
Prepare: TypeAlias = Callable[[Ask], tuple[Ask, float | None]]


class ReadingSession:
    """The session of one reader, for tasks of one event loop."""

    __slots__ = ("_access", "_address", "_associations", "_epm_port", "_ports", "is_lost", "qm2qm", "remote_read")

    def __init__(self, address: HostAddress, access: Access) -> None:
        self._address: Final = address
        self._access: Final = access
        self._associations: dict[Binding, Association] = {}
        # The ports from the endpoint mapper; None if it did not answer.
        self._epm_port = access.epm_port
        self._ports: dict[bytes, int] = {}
        identity = ClientIdentity(address.identifier)
        self.remote_read: Final = RemoteReadClient(identity, new_guid)
        self.qm2qm: Final = Qm2QmClient(identity)
        self.is_lost = False

    async def open(self, name: FormatName, access: AccessType, share: ShareMode) -> RemoteQueue:
        conversation = open_remote_queue(self.remote_read, self.qm2qm, Opening(name, access, share))
        try:
            return await self.carry(conversation)
        finally:
            self.tidy()

    async def carry(self, conversation: Conversation[R], prepare: Prepare | None = None) -> R:
        """Carry a conversation to its end. Raises its error."""
        prepare = prepare or self.usual
        reply: object = None
        error: WaypostError | None = None
        while True:
            try:
                ask = conversation.send(reply) if error is None else conversation.throw(error)
            except StopIteration as stop:
                result: R = stop.value
                return result
            reply = error = None
            try:
                reply = await self._call(*prepare(ask))
            except WaypostError as failure:
                error = failure

    def usual(self, ask: Ask) -> tuple[Ask, float | None]:
        """A call that does not wait for a message, with the time limit for answers of the host."""
        return ask, min(ask.timeout_s or self._address.timeout, self._address.timeout)

    def tidy(self) -> None:
        """Close the connections without open handles."""
        held = self._held()
        for binding, association in list(self._associations.items()):
            if binding not in held and not association.is_used:
                del self._associations[binding]
                association.close()

    async def close(self) -> None:
        """Close all connections. The host closes the handles when the last connection ends."""
        associations = self._give_up()
        await asyncio.gather(*(association.wait_closed() for association in associations))

    async def _call(self, ask: Ask, limit_s: float | None) -> object:
        if self.is_lost:
            raise ConnectionFailed("the connection was closed")
        association = self._associations.get(ask.binding)
        if association is None:
            connect = partial(self._connect, ask.interface, ask.port)
            association = Association(connect, partial(self._lost, ask.binding))
            self._associations[ask.binding] = association
        return await association.call(ask, limit_s)

    def _held(self) -> frozenset[Binding]:
        return self.remote_read.bindings() | self.qm2qm.bindings()

    def _lost(self, binding: Binding) -> None:
        self._associations.pop(binding, None)
        if binding in self._held():
            self._give_up()

    def _give_up(self) -> list[Association]:
        self.is_lost = True
        associations = list(self._associations.values())
        self._associations.clear()
        for association in associations:
            association.close()
        return associations

    async def _connect(self, interface: Interface, port: int, group_id: int) -> RpcConnection:
        """A bound connection, or one on which every call fails with the reason why it is not. Raises NotAccepted."""
        address = self._address
        try:
            async with asyncio.timeout(address.timeout):
                port = port or await self._port_of(interface)
                connection = await self._opened(interface, port, await self._security(), group_id)
                try:
                    await connection.bound
                except asyncio.CancelledError:
                    connection.close()
                    raise
                connection.rpc.check_accepted(address.host, port)
                return connection
        except TimeoutError:
            limit = f"{address.timeout:g} s"
            raise HostUnreachable(f"{address.host} did not answer on port {port} within {limit}") from None
        except AuthenticationFailed as error:
            # An error of this side: those of the host come as results of calls.
            raise error if self._access.password else NoCredentials(str(error)) from None
        except HostUnreachable:
            self._ports.clear()
            raise

    async def _security(self) -> ClientSecurity | None:
        access = self._access
        if access.level is AuthLevel.NONE:
            return None
        return ClientSecurity(await asyncio.to_thread(_initiator, access, self._address.host), access.level)

    async def _opened(
        self, interface: Interface, port: int, security: ClientSecurity | None, group_id: int = 0
    ) -> RpcConnection:
        address = self._address
        rpc = ReaderConnection([interface], security, group_id)
        await (asyncio.to_thread(rpc.start) if security else _started(rpc))
        connection = RpcConnection(rpc)
        local = (address.bind, 0) if address.bind else None
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: connection, address.host, port, local_addr=local)
        except (OSError, UnicodeError, ValueError) as error:
            where = "" if isinstance(error, socket.gaierror) else f" (port {port})"
            raise HostUnreachable(f"{address.host} {reason_of(error)}{where}") from None
        return connection

    async def _port_of(self, interface: Interface) -> int:
        """The port of an interface: the configured one, or that from the endpoint mapper, or the default one."""
        given, usual = self._access.rpc_port, REMOTE_READ_PORT
        if interface.uuid == QM2QM.uuid:
            given, usual = self._access.qm2qm_port, QM2QM_PORT
        if given is not None:
            return given
        if interface.uuid not in self._ports and self._epm_port is not None:
            await self._ask_mapper(interface, self._epm_port)
        return self._ports.get(interface.uuid, usual)

    async def _ask_mapper(self, interface: Interface, epm_port: int) -> None:
        """Get the port from the endpoint mapper. Raises RpcFault if the mapper does not know the interface."""
        try:
            async with asyncio.timeout(_MAPPER_S):
                connection = await self._opened(EPMAPPER, epm_port, None)
                try:
                    reply = await connection.call(Ask(EPMAPPER, EPT_MAP, map_request(interface)), None)
                finally:
                    connection.close()
            assert isinstance(reply, EptMapReply)
            self._ports[interface.uuid] = mapped_port(interface, reply)
        except (WaypostError, TimeoutError) as error:
            if isinstance(error, RpcFault) and error.status == EPT_S_NOT_REGISTERED:
                raise
            self._epm_port = None


def _initiator(access: Access, host: str) -> SecurityContext:
    """The client side of an authentication. It may take a while: Kerberos waits for the server of its realm."""
    # pyspnego takes longest to import, and most programs do not need it.
    security = import_module("waypost.drive.rpc_security")
    credentials = security.Credentials(access.user, access.password)
    context: SecurityContext = security.initiator(AuthType.SPNEGO, access.level, host, credentials)
    return context


async def _started(rpc: ReaderConnection) -> None:
    rpc.start()
