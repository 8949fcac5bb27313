"""A connection of a remote reader: its real client, and the calls made over it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waypost.remote.client.conversations import Ask
from waypost.remote.context import REMOTE_READ_PORT
from waypost.remote.interfaces.qm2qm import QM2QM
from waypost.remote.interfaces.qmcomm import QMCOMM
from waypost.remote.interfaces.remote_read import REMOTE_READ
from waypost.rpc.client import ClientConnection
from waypost.rpc.client_binding import SYNTAXES
from waypost.rpc.interface import Interface
from waypost.wire.ndr import NdrSyntax

if TYPE_CHECKING:
    from waypost.sim.remote.tasks import Task


@dataclass(slots=True, eq=False)
class Link:
    """The connection `lane` of a reader to a port. `asked` are all calls ever made over it."""

    name: str
    number: int
    port: int
    lane: int
    connection: ClientConnection
    is_over: bool = False
    asked: dict[int, Ask] = field(default_factory=dict)
    tasks: "dict[int, Task]" = field(default_factory=dict)

    def syntax_of(self, interface: Interface) -> NdrSyntax:
        """The transfer syntax that client and server have agreed on."""
        return SYNTAXES[self.connection._binding.agreed(interface).transfer]  # noqa: SLF001, to read what it reads


def interfaces_of(port: int) -> Sequence[Interface]:
    return (REMOTE_READ, QMCOMM) if port == REMOTE_READ_PORT else (QM2QM,)
