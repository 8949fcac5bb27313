"""Senders that use their own window instead of the receiver's, as Windows does (MS-MQQB 3.1.7.1)."""

from waypost.sim.patches import Patch
from waypost.transfer import session as module
from waypost.transfer.session import Session, SessionState


def eager_windows(window: int) -> tuple[Patch, ...]:
    """Patch all queue managers of a simulation, so that both sides of a session exceed the window of the other."""

    def can_send(session: Session) -> bool:
        return (
            session.state is SessionState.OPEN
            and not session.transport_paused
            and not session.inlet.is_held
            and session.unacked_message_count < window
            and session.counts.message_sent_count < module.LAST_NUMBER
        )

    return (Patch(Session, "can_send", property(can_send)),)
