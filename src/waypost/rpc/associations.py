"""Associations, which C706 9.3.3 calls association groups: MS-RPCE 3.3.1.1.1 and 3.3.1.5.7.

An association is a set of connections of one client to one endpoint. It owns the context handles: a call on any of its
connections can use them, and when its last connection goes they run down.
"""

from collections.abc import Callable
from functools import reduce
from operator import xor
from struct import Struct

from waypost.clock import Now
from waypost.rpc.context_handles import ContextHandles, run_down_all


class Association:
    """The connections of one client to one listener, and the context handles made over them."""

    __slots__ = ("_handles", "_new_guid", "address", "connections", "group_id", "listener")

    def __init__(self, group_id: int, listener: str, address: str, new_guid: Callable[[], bytes]) -> None:
        self.group_id = group_id
        self.listener = listener
        self.address = address
        self.connections: set[int] = set()
        self._new_guid = new_guid
        self._handles: dict[tuple[bytes, str | None], ContextHandles] = {}

    def handles(self, interface: bytes, caller: str | None) -> ContextHandles:
        """The handles that this caller has on the interface with this UUID; the same object each time."""
        handles = self._handles.get((interface, caller))
        if handles is None:
            handles = self._handles[interface, caller] = ContextHandles(self._new_guid)
        return handles

    def run_down(self, now: Now) -> int:
        return run_down_all(list(self._handles.values()), now)


class Associations:
    """MS-RPCE 3.3.1.1.5: all associations of a server, by their assoc_group_id."""

    __slots__ = ("_by_id", "_new_guid")

    def __init__(self, new_guid: Callable[[], bytes]) -> None:
        self._new_guid = new_guid
        self._by_id: dict[int, Association] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def join(self, group_id: int, connection: int, listener: str, address: str) -> Association | None:
        """The association that a bind asks for, with the connection in it: 0 makes one, None refuses.

        MS-RPCE 3.3.1.5.7: only a client with the address of the first connection may join.
        """
        association = self._by_id.get(group_id) if group_id else self._make(listener, address)
        if association is None or (association.listener, association.address) != (listener, address):
            return None
        association.connections.add(connection)
        return association

    def leave(self, association: Association, connection: int, now: Now) -> int:
        """MS-RPCE 3.3.3.7.1: with its last connection an association ends, and its context handles run down.

        Returns how many did.
        """
        association.connections.discard(connection)
        if association.connections:
            return 0
        del self._by_id[association.group_id]
        return association.run_down(now)

    def _make(self, listener: str, address: str) -> Association:
        # Drawn at random, so that nobody joins who was not told.
        words = Struct("<4I").unpack(self._new_guid())
        group_id = reduce(xor, words)
        while not group_id or group_id in self._by_id:
            group_id = group_id + 1 & 0xFFFF_FFFF
        association = Association(group_id, listener, address, self._new_guid)
        self._by_id[group_id] = association
        return association
