"""The states of a session as tables: MS-MQQB 3.1.1.1.1.1 and 3.1.1.1.1.2."""

from enum import Enum, auto
from typing import Final

from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from waypost.wire.packets import Packet
from waypost.wire.transactional_acks import FinalAck, OrderAck
from waypost.wire.user_message import UserMessage


class Role(Enum):
    """The side that opened the connection, or the other: MS-MQQB 3.1.1.1.1."""

    INITIATOR = auto()
    ACCEPTOR = auto()


class SessionState(Enum):
    """MS-MQQB 3.1.1.3.1 SessionState, but for WAITING_RECONNECT: that is the state of a link which has no session."""

    WAITING_EC_MSG = auto()
    WAITING_ECR_MSG = auto()
    WAITING_CP_MSG = auto()
    WAITING_CPR_MSG = auto()
    OPEN = auto()
    CLOSED = auto()


_OPEN: Final = SessionState.OPEN

# The packets that a state allows, and the state that follows each. Any other packet closes the session.
Row = dict[type[Packet], SessionState]
_NOTHING: Final[Row] = {}
_WHEN_OPEN: Final[Row] = dict.fromkeys((UserMessage, OrderAck, FinalAck, SessionAck), _OPEN)

# MS-MQQB 3.1.1.1.1.1 and 3.1.1.1.1.2.
TABLES: Final[dict[Role, dict[SessionState, Row]]] = {
    Role.INITIATOR: {
        SessionState.WAITING_EC_MSG: _NOTHING,
        SessionState.WAITING_ECR_MSG: {EstablishConnection: SessionState.WAITING_CPR_MSG},
        SessionState.WAITING_CPR_MSG: {ConnectionParameters: _OPEN},
        _OPEN: _WHEN_OPEN,
        SessionState.CLOSED: _NOTHING,
    },
    Role.ACCEPTOR: {
        SessionState.WAITING_EC_MSG: {EstablishConnection: SessionState.WAITING_CP_MSG},
        SessionState.WAITING_CP_MSG: {ConnectionParameters: _OPEN},
        _OPEN: _WHEN_OPEN,
        SessionState.CLOSED: _NOTHING,
    },
}
