"""Steps in the script of a remote reader, and the conversations that are under way for it."""

from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from waypost.errors import WaypostError
from waypost.remote.client.conversations import Ask, CallFailed, Conversation
from waypost.remote.client.reads import Transaction
from waypost.remote.interfaces.qm2qm import QM2QM
from waypost.remote.interfaces.remote_read import REMOTE_READ
from waypost.rpc.faults import RpcFault
from waypost.sim import client
from waypost.sim.client import Pause
from waypost.sim.remote.links import Link


@dataclass(slots=True, eq=False)
class Task:
    """A conversation that is carried on connection `lane` of its port, or is over.

    `uid` is the message that it brought, `key` the queue, `transaction` that in which it reads. `ending` is the fate
    of the message, if that is not left to chance.
    """

    conversation: Conversation[Any]
    lane: int = 0
    key: str = ""
    transaction: Transaction | None = None
    uid: int | None = None
    ending: "Ending | None" = None
    is_over: bool = False
    value: Any = None
    error: WaypostError | None = None
    link: Link | None = None
    call_id: int = 0

    @property
    def is_ok(self) -> bool:
        return self.is_over and self.error is None

    @property
    def is_cut_off(self) -> bool:
        """Whether the outcome is unknown: the connection is gone, or the call took too long."""
        return self.error is not None and not isinstance(self.error, CallFailed | RpcFault)


@dataclass(slots=True)
class Do:
    """Carry a conversation, and go on with its Task when it is over."""

    task: Task


@dataclass(slots=True)
class Begin:
    """Carry a conversation, and go on at once."""

    task: Task


@dataclass(slots=True)
class Await:
    """Go on when a conversation is over."""

    task: Task


@dataclass(slots=True)
class GiveUp:
    """Ask the server to end the call of a task (C706 co_cancel), and go on at once."""

    task: Task


@dataclass(slots=True)
class Local:
    """Ask the node as an application on its own host does. The result is a Result of waypost.sim.client."""

    ask: client.Ask


@dataclass(slots=True)
class Die:
    """End the process of the reader without cleaning up."""


Step = Do | Begin | Await | GiveUp | Local | Die | Pause
Script = Generator[Step, Any, None]


class Ending(Enum):
    """The action of a reader on a message that it got."""

    ACK = auto()
    NACK = auto()
    NEGLECT = auto()
    DIE = auto()


# Interface and opnum of the methods that begin a read and that end it.
STARTS = {(REMOTE_READ.uuid, 7), (REMOTE_READ.uuid, 13), (QM2QM.uuid, 0), (QM2QM.uuid, 9), (QM2QM.uuid, 10)}
ENDS = {(REMOTE_READ.uuid, 9), (REMOTE_READ.uuid, 15), (QM2QM.uuid, 1)}


def is_start(ask: Ask) -> bool:
    return (ask.interface.uuid, ask.opnum) in STARTS


def is_end(ask: Ask) -> bool:
    return (ask.interface.uuid, ask.opnum) in ENDS
