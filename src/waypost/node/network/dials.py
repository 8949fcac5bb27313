"""Causes of sessions: others can have one opened to any address, where anybody answers with any GUID.

Acknowledgments and reports go where the sender of a message wants them. Only a session that was opened for a message of
a program on this computer, or along a route of ours, shows where a queue manager is (ADR 22).
"""

from typing import Final

from waypost.clock import Now
from waypost.core.positions import END, START
from waypost.core.queue_manager import QueueManager
from waypost.guid import NULL_GUID
from waypost.node.effects import Connect
from waypost.node.kernel import Kernel
from waypost.node.network.sessions import Sessions
from waypost.transfer.links import Link
from waypost.transfer.session import Session
from waypost.wire.message_class import MessageClass


class Dials:
    """The sessions that this queue manager opens."""

    __slots__ = ("_kernel", "_manager", "_own", "_sessions")

    def __init__(self, kernel: Kernel, manager: QueueManager, sessions: Sessions) -> None:
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._sessions: Final = sessions
        # The sessions that were opened for messages of programs on this computer, or along routes. True for a
        # route: then a route or the directory says which queue manager answers.
        self._own: dict[Session, bool] = {}

    def begun(self, link: Link, session: Session) -> None:
        """Note that a session is being opened for the messages of this link."""
        is_routed = self._is_routed(link)
        if is_routed or self._is_own(link):
            self._own[session] = is_routed

    def ended(self, session: Session) -> None:
        self._own.pop(session, None)

    def is_own(self, session: Session) -> bool:
        """Whether the GUID that answered is one that this queue manager looked for."""
        return session in self._own

    def is_routed(self, session: Session) -> bool:
        """Whether a route or the directory says where the queue manager is."""
        return self._own.get(session, False)

    def leads_to(self, link: Link, session: Session) -> bool:
        """Whether the session leads to a hop of the queue, or was opened for us."""
        address = session.remote_qm_address
        return session in self._own or any(hop.address == address for hop in link.next_hops)

    def inquire(self, address: str, now: Now) -> None:
        """Open a session only to learn which queue manager is there. Once open, it is closed."""
        session = self._sessions.connect(address, NULL_GUID, now, was_pinged=False)
        self._kernel.emit(Connect(session.connection, address, self._sessions.settings.port))

    def _is_routed(self, link: Link) -> bool:
        """Whether a route or the directory says who has to answer. For acknowledgments, others say it."""
        hop = link.next_hop
        return not link.is_for_acks and hop is not None and hop.qm_guid != NULL_GUID

    def _is_own(self, link: Link) -> bool:
        """Whether a program on this computer has sent the first message of the queue."""
        first = link.queue.positions.next_any(START)
        if link.is_for_acks or first == END:
            return False
        message = self._manager.positions.find(link.queue, first)
        if message is None:
            return False
        is_ours = message.identifier.queue_manager_guid == self._manager.identity.identifier
        return is_ours and message.message_class == MessageClass.MQMSG_CLASS_NORMAL
