"""One session: a connection between two queue managers, from its first byte to its last. MS-MQQB 3.1.

A session knows nothing of queues. It sends packets with a `Sent` that its owner gets back when the other side has
acknowledged it; it hands out received packets as they come, counted. It has no socket: bytes come in with
`data_received`, and `take_output` has the bytes to write after every call.

Invariants: every UserMessage counts and is acknowledged, even if it is refused (readings MQQB 3.3). A recoverable one
is acknowledged as stored only after `stored`. A closed session has no timer, no output but the refusal of a handshake,
and still knows the messages in flight. From a peer that has sent more than the window, which Windows does because it
tests its own, no more packets are processed, and nothing is sent to it, until the acknowledgment left the output.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from waypost.clock import Now
from waypost.errors import DecodeError, ProtocolError
from waypost.guid import NULL_GUID
from waypost.timers import Timers
from waypost.transfer import handshake
from waypost.transfer.handshake import Initiator, PingUse
from waypost.transfer.session_acks import ACK_FLAGS, ON_THE_WIRE, InFlight, Sent, SessionCounts, with_session_header
from waypost.transfer.session_states import TABLES, Role, SessionState
from waypost.transfer.session_timers import Expired, SessionTimer, SessionTimers
from waypost.transfer.settings import TransferSettings
from waypost.transfer.statistics import Statistics
from waypost.wire import base_header, user_header
from waypost.wire.internal_packets import (
    ESTABLISH_SIZE,
    ConnectionParameters,
    EstablishConnection,
    SessionAck,
    encode_session_ack,
    is_session_ack,
)
from waypost.wire.packets import Packet, Splitter, decode_packet
from waypost.wire.session_header import SIZE, SessionHeader
from waypost.wire.transaction_header import IllegalSequenceNumber
from waypost.wire.transactional_acks import FinalAck, OrderAck
from waypost.wire.user_message import UserMessage

__all__ = ["ALL", "Incoming", "Inlet", "Received", "Role", "Sent", "Session", "SessionState", "SessionTimer"]

# Each of them counts as a UserMessage.
MessagePacket = UserMessage | OrderAck | FinalAck

# More packets than any data have.
ALL: Final = 1 << 62

# readings MQQB 3.27: a session ends before its counters do, after whole acknowledgments of 32 messages.
LAST_NUMBER: Final = 0xFFE0

_OPEN: Final = SessionState.OPEN
_CLOSED: Final = SessionState.CLOSED
_RECOVERABLE: Final = user_header.RECOVERABLE << user_header.DM_SHIFT


class Inlet:
    """Received packets, given out in order, as many as are wanted, and none while it is held.

    It is held while the other side has sent more than the window, and unread while the owner does not read from the
    connection. During either, the silence is not the fault of the other side: the Ack Wait Timer stands still.
    """

    __slots__ = ("_splitter", "_timers", "is_held", "is_unread", "packets", "unfinished_bytes", "untaken_bytes")

    def __init__(self, timers: SessionTimers) -> None:
        self._timers: Final = timers
        self._splitter: Final = Splitter()
        # Packets that wait.
        self.packets: Final[deque[bytes]] = deque()
        self.is_held = False
        self.is_unread = False
        # Bytes of a packet that has come in part, even after `clear`, so that the owner can add them up.
        self.unfinished_bytes = 0
        # Bytes of messages that were given out and that the owner could not take yet. The owner counts them.
        self.untaken_bytes = 0

    @property
    def kept_bytes(self) -> int:
        """Bytes that are kept although nothing is decided about them yet."""
        return self.unfinished_bytes + self.untaken_bytes

    @property
    def is_shut(self) -> bool:
        return self.is_held or self.is_unread

    def hold(self, now: Now) -> None:
        self.is_held = True
        self._mind_ack_wait(now)

    def release(self, now: Now) -> bool:
        """Let packets out again. False if it was not held."""
        was_held, self.is_held = self.is_held, False
        if was_held:
            self._mind_ack_wait(now)
        return was_held

    def set_unread(self, now: Now, *, is_unread: bool) -> None:
        """Note that the owner does not read from the connection for now, or reads again."""
        self.is_unread = is_unread
        self._mind_ack_wait(now)

    def _mind_ack_wait(self, now: Now) -> None:
        if self.is_shut:
            self._timers.stop_ack_wait_clock(now)
        else:
            self._timers.start_ack_wait_clock(now)

    def feed(self, data: bytes) -> None:
        """Take bytes. A broken stream ends at the break: see `check`."""
        if data and self._splitter.error is None:
            try:
                self.packets.extend(self._splitter.feed(data))
            except DecodeError:
                # Packets before the break are processed first.
                if not self.packets:
                    raise
            finally:
                self.unfinished_bytes = self._splitter.pending

    def take(self, most: int) -> Iterator[bytes]:
        """The next packets, which wait no longer."""
        packets = self.packets
        for _ in range(0 if self.is_held else min(most, len(packets))):
            yield packets.popleft()

    def check(self) -> None:
        """Raise DecodeError if the stream is broken and everything before the break was taken."""
        if not self.packets and self._splitter.error is not None:
            raise self._splitter.error

    def clear(self) -> None:
        self.packets.clear()


class Incoming(NamedTuple):
    """A received message.

    `data` are its bytes without the SessionHeader of its session. `recoverable_number` is the number for
    `Session.stored`; it is 0 for an express message.
    """

    packet: MessagePacket
    data: bytes
    recoverable_number: int


@dataclass(slots=True)
class Received:
    """Result of some bytes: messages, in order, and the sent messages that they acknowledge.

    `packets` is the number of processed packets of any kind. `has_header`: a SessionHeader came, so that the window may
    have room.
    """

    messages: list[Incoming] = field(default_factory=list)
    acknowledged: list[Sent] = field(default_factory=list)
    packets: int = 0
    has_header: bool = False


class Session:
    """`accept_policy` gives a reason to refuse a request, or None. `error` is the reason why the session is closed.

    `just_granted` and `just_opened` are for the owner, who clears them. `was_refused`: one side refused the other.
    """

    def __init__(
        self,
        role: Role,
        connection: int,
        address: str,
        *,
        identity: Initiator,
        settings: TransferSettings,
        timers: Timers,
        on_timer: "Expired",
        statistics: Statistics,
        now: Now,
        expected_guid: bytes = NULL_GUID,
        ping: PingUse = PingUse.NOT_SENT,
        accept_policy: Callable[[EstablishConnection], str | None] = lambda _: None,
    ) -> None:
        """MS-MQQB 3.1.3.2 and 3.1.5.10. For a direct format name `expected_guid` is NULL_GUID."""
        self.role = role
        self.connection = connection
        self.remote_qm_address = address
        self.remote_qm_guid = expected_guid
        self._enter(SessionState.WAITING_EC_MSG)
        # MS-MQQB 3.1.1.3.1 DirectFormatSession
        self.is_direct = role is Role.INITIATOR and expected_guid == NULL_GUID
        self.window_size = settings.window_size
        self.received_window_size = settings.window_size
        self.ack_wait_timeout_ms = handshake.in_ack_range(settings.ack_wait_timeout_ms + settings.round_trip_delay_ms)
        self.recoverable_ack_send_timeout_ms = 0xFFFF_FFFF
        self.counts = SessionCounts()
        self.session_active = self.transport_paused = False
        self.error: str | None = None
        self.was_refused = self.just_granted = self.just_opened = False
        self.accept_policy = accept_policy
        self._identity = identity
        self._timers = SessionTimers(self, timers, on_timer, settings)
        self._statistics = statistics
        self._ping = ping
        self.inlet = Inlet(self._timers)
        self._unacknowledged = InFlight()
        self.output: list[bytes] = []
        self._received_ack, self.last_received = False, now.monotonic
        statistics.sessions += 1
        self._timers.start_initialization(now)
        self._timers.start_cleanup(now)

    @property
    def unacked_message_count(self) -> int:
        """MS-MQQB 3.1.1.3.1 UnAckedMessageCount: messages sent here and not acknowledged (readings MQQB 3.2)."""
        return self.counts.message_sent_count - self._unacknowledged.acknowledged

    @property
    def can_send(self) -> bool:
        """MS-MQQB 3.1.7.1, with the smaller of the two windows (readings MQQB 3.13)."""
        sent = self.counts.message_sent_count
        return (
            self.state is _OPEN
            and not self.transport_paused
            and not self.inlet.is_held
            and sent - self._unacknowledged.acknowledged < min(self.window_size, self.received_window_size)
            and sent < LAST_NUMBER
        )

    @property
    def wants_recycling(self) -> bool:
        """Whether the sequence numbers of this session are used up, so that another one has to follow it."""
        return self.counts.message_sent_count >= LAST_NUMBER

    def in_flight(self) -> list[Sent]:
        """Messages that were sent and not acknowledged, in order."""
        return self._unacknowledged.entries()

    def take_output(self) -> bytes:
        """The bytes to write now."""
        output = self.output
        if not output:
            return b""
        data = output[0] if len(output) == 1 else b"".join(output)
        output.clear()
        self._statistics.bytes_sent += len(data)
        return data

    def connected(self, now: Now) -> None:
        """MS-MQQB 3.1.5.2.3: note that the connection of the initiator is open."""
        request = self._identity.establish_request(self.remote_qm_guid, self._ping, handshake.uptime_ms(now))
        self.output.append(request.encode())
        self._enter(SessionState.WAITING_ECR_MSG)
        self._timers.start_initialization(now)

    def send(self, data: bytes, sent: Sent, now: Now, *, is_recoverable: bool, may_piggyback: bool = True) -> None:
        """MS-MQQB 3.1.7.1.3 and 3.1.7.1.6. Only if `can_send`.

        An OrderAck or FinalAck may not piggyback, because all its flags are 0 (readings MQQB 3.15).
        """
        counts = self.counts
        assert self.state is _OPEN, f"a message must not be sent in the state {self.state.name}"
        assert counts.message_sent_count < LAST_NUMBER, "all message numbers of the session are used"
        counts.message_sent_count = sent.sequence_number = counts.message_sent_count + 1
        if is_recoverable:
            counts.recoverable_message_sent_count += 1
            sent.recoverable_sequence_number = counts.recoverable_message_sent_count
        else:
            sent.recoverable_sequence_number = 0
        self._unacknowledged.add(sent)
        self.output.append(data)
        if may_piggyback and now.monotonic > self._timers.piggyback_from and counts.is_ack_owed:
            self._piggyback(now)
        self.session_active = True
        if not self._timers.is_ack_wait_running:
            self._timers.start_ack_wait(now)
        self._statistics.messages_sent += 1

    def _piggyback(self, now: Now) -> None:
        """MS-MQQB 3.1.7.11: add an acknowledgment to the message that is the last of the output."""
        self.output[-1] = with_session_header(self.output[-1], self._take_header(self.window_size))
        self._timers.start_ack_send(now)

    def _take_header(self, window_size: int) -> SessionHeader:
        self._statistics.session_acks_sent += 1
        return self.counts.take_header(window_size)

    def _send_ack(self, window_size: int) -> None:
        self.output.append(encode_session_ack(self._take_header(window_size)))

    def acknowledge(self) -> None:
        """Acknowledge at once what was received, before the owner closes the session."""
        if self.state is _OPEN and self.counts.is_ack_owed:
            self._timers.stop_ack_send()
            self._send_ack(self.window_size)

    def pause(self, _now: Now) -> None:
        """MS-MQQB 3.1.7.13: let the other side send one message at a time, until the next acknowledgment."""
        if self.state is _OPEN:
            self._timers.stop_ack_send()
            self._send_ack(1)
            self.session_active = False

    def resume(self, _now: Now) -> None:
        """MS-MQQB 3.1.7.14."""
        self.session_active = True

    def data_received(self, data: bytes, now: Now, most: int = ALL) -> Received:
        """Take bytes from the connection. No data raises an error; see `state` and `error`.

        At most `most` packets are processed; the others wait in `inlet` for another call, perhaps without data.
        """
        received = Received()
        if self.state is _CLOSED:
            return received
        self._statistics.bytes_received += len(data)
        self.last_received = now.monotonic
        try:
            self._packets_received(data, received, now, most)
        except DecodeError as error:
            self._statistics.packets_malformed += 1
            self.close(f"the other side sent a malformed packet: {error}")
        except ProtocolError as error:
            self._statistics.protocol_errors += 1
            self.close(str(error))
        else:
            if received.messages:
                self._messages_received(now)
        return received

    def _packets_received(self, data: bytes, received: Received, now: Now, most: int) -> None:
        inlet, counts = self.inlet, self.counts
        inlet.feed(data)
        for packet in inlet.take(most):
            # MS-MQQB 3.1.5.1
            self._received_ack = True
            received.packets += 1
            self._packet_received(packet, received, now)
            if self.state is _CLOSED:
                return
            if counts.unacked_received_msg_count > self.window_size:
                inlet.hold(now)
                break
        inlet.check()
        if inlet.unfinished_bytes > ESTABLISH_SIZE and self.state is not _OPEN:
            raise ProtocolError("the other side sent a large packet before the session was open")

    def go_on(self, now: Now) -> bool:
        """Continue after `take_output`. True if the peer was held until now."""
        return self.counts.unacked_received_msg_count <= self.window_size and self.inlet.release(now)

    def _packet_received(self, data: bytes, received: Received, now: Now) -> None:
        packet = decode_received(data)
        following = self._allowed.get(type(packet))
        if following is None:
            raise ProtocolError(f"the other side sent {type(packet).__name__} in the state {self.state.name}")
        match packet:
            case UserMessage() | OrderAck() | FinalAck():
                self._message_received(packet, data, received, now)
            case SessionAck():
                self._session_header_received(packet.session, received, now)
            case EstablishConnection() if self.role is Role.ACCEPTOR:
                self._asked(packet)
            case EstablishConnection():
                self._granted(packet, now)
            case ConnectionParameters():
                self._parameters_received(packet)
        if following is not self.state and self.state is not _CLOSED:
            self._enter(following)

    def _message_received(self, packet: MessagePacket, data: bytes, received: Received, now: Now) -> None:
        """MS-MQQB 3.1.5.8.2, 3.1.5.8.4 and the counting of 3.1.5.8.7, which comes first (readings MQQB 3.3)."""
        message = packet if isinstance(packet, UserMessage) else packet.message
        flags = message.user.flags
        number = self.counts.received(is_recoverable=flags & user_header.DM == _RECOVERABLE)
        if flags & user_header.DQ == user_header.DQ:
            self.is_direct = True
        header = message.session
        if header is None:
            received.messages.append(Incoming(packet, data, number))
        else:
            # MS-MQMQ 2.2.20.4: the message counts even if its header closes the session.
            received.messages.append(Incoming(packet, without_session_header(message, data), number))
            self._session_header_received(header, received, now)

    def _messages_received(self, now: Now) -> None:
        """MS-MQQB 3.1.5.8.2, once for all messages that came together.

        A full window is acknowledged without waiting for the timer (readings MQQB 3.14). If messages are on their
        way to the disk, that acknowledgment is left to `stored`, which can acknowledge more.
        """
        self.session_active = True
        if not self._timers.is_ack_send_running:
            self._timers.start_ack_send(now)
        window = min(self.window_size, self.received_window_size)
        if self.counts.is_much_owed(window, LAST_NUMBER) and self.counts.is_all_stored:
            self._send_ack(self.window_size)

    def set_untaken(self, count: int) -> None:
        """Note that the last `count` received messages are not taken yet: no acknowledgment says that they are.

        They may still be dropped with the session. An acknowledgment that is not written yet is changed.
        """
        counts = self.counts
        counts.untaken = count
        counts.unacked_received_msg_count = max(counts.unacked_received_msg_count, count)
        for place, packet in enumerate(self.output):
            if is_session_ack(packet):
                header, _ = SessionHeader.decode(packet, len(packet) - SIZE)
                header.ack_sequence_number = counts.taken_count & ON_THE_WIRE
                self.output[place] = encode_session_ack(header)

    def all_taken(self, now: Now) -> None:
        """Note that all received messages are taken, as if they had come now."""
        self.counts.untaken = 0
        if self.state is _OPEN:
            self._messages_received(now)

    def stored(self, numbers: Sequence[int], now: Now) -> None:
        """MS-MQQB 3.1.5.8.7: the recoverable messages with these numbers are on disk, or need not be there.

        They are reported in the order of their numbers, without a gap.
        """
        if self.state is not _OPEN or not numbers:
            return
        counts = self.counts
        for number in numbers:
            if not counts.recoverable_msg_ack_flags:
                self._timers.start_recoverable_ack_send(now)
            counts.stored(number)
            if number - counts.first_pending >= ACK_FLAGS - 1:
                self._send_ack(self.window_size)
        if counts.is_much_owed(min(self.window_size, self.received_window_size), LAST_NUMBER):
            self._send_ack(self.window_size)

    def _session_header_received(self, header: SessionHeader, received: Received, now: Now) -> None:
        """MS-MQQB 3.1.5.5."""
        self._statistics.session_acks_received += 1
        received.has_header = True
        self.counts.check_acknowledged(header)
        received.acknowledged += self._unacknowledged.acknowledge(header)
        self.counts.check_received(header)
        self.received_window_size = header.window  # readings MQQB 3.13
        if len(self._unacknowledged):
            self._timers.start_ack_wait(now)

    def _asked(self, request: EstablishConnection) -> None:
        """MS-MQQB 3.1.5.3.1."""
        own_guid = self._identity.identifier
        self.remote_qm_guid = request.client_guid
        reason = handshake.why_refuse(request, own_guid) or self.accept_policy(request)
        if reason is None:
            self.output.append(request.accepted(own_guid).encode())
        else:
            self._refused(f"the session is refused: {reason}")
            self.output.append(request.refused(own_guid).encode())

    def _granted(self, response: EstablishConnection, now: Now) -> None:
        """MS-MQQB 3.1.5.3.2."""
        expected_guid, self.remote_qm_guid = self.remote_qm_guid, response.server_guid
        reason = handshake.why_refused(response, self._identity.identifier, expected_guid)
        if reason is not None:
            self._refused(reason)
            return
        self.just_granted = True
        timeout = handshake.recoverable_ack_send_timeout(handshake.uptime_ms(now), response.time_stamp)
        self.recoverable_ack_send_timeout_ms = timeout
        packet = ConnectionParameters(
            recoverable_ack_timeout=timeout, ack_timeout=self.ack_wait_timeout_ms, window_size=self.window_size
        )
        self.output.append(packet.encode())

    def _refused(self, reason: str) -> None:
        self.was_refused = True
        self._statistics.handshakes_refused += 1
        self.close(reason)

    def _parameters_received(self, packet: ConnectionParameters) -> None:
        """MS-MQQB 3.1.5.4. Time-outs outside their range are moved into it."""
        self.received_window_size = packet.window
        if self.role is Role.ACCEPTOR:
            self.ack_wait_timeout_ms = handshake.in_ack_range(packet.ack_timeout)
            self.recoverable_ack_send_timeout_ms = handshake.in_recoverable_ack_range(packet.recoverable_ack_timeout)
            self.output.append(packet.response(self.window_size).encode())
        self._timers.stop_initialization()
        self.just_opened = True
        self._statistics.sessions_open += 1

    def _enter(self, state: SessionState) -> None:
        self.state = state
        self._allowed = TABLES[self.role][state]

    def close(self, reason: str) -> None:
        """MS-MQQB 3.1.5.9, for this reason unless it is closed already. Unwritten output is dropped."""
        if self.state is _CLOSED:
            return
        self._statistics.sessions -= 1
        self._statistics.sessions_open -= self.state is _OPEN
        self._enter(_CLOSED)
        self.error = reason
        self.output.clear()
        self.inlet.clear()
        self._timers.stop_all()

    def expired(self, timer: SessionTimer, now: Now) -> None:
        """Handle an expired timer of this session."""
        match timer:
            case SessionTimer.INITIALIZATION:
                self.close("the session did not open in time")
            case SessionTimer.CLEANUP:
                self._cleanup_expired(now)
            case SessionTimer.ACK_WAIT:
                self._ack_wait_expired(now)
            case SessionTimer.ACK_SEND:
                self._ack_send_expired(now)

    def _cleanup_expired(self, now: Now) -> None:
        """MS-MQQB 3.1.6.2."""
        if not self.session_active and not self.inlet.is_shut:
            self.close("the session was idle")
            return
        self.session_active = False
        self._timers.start_cleanup(now)

    def _ack_wait_expired(self, now: Now) -> None:
        """MS-MQQB 3.1.6.3."""
        self._timers.is_ack_wait_running = False
        if len(self._unacknowledged):
            if not self._received_ack:
                self.close("the other side does not acknowledge messages")
                return
            self._timers.start_ack_wait(now)
        self._received_ack = False

    def _ack_send_expired(self, now: Now) -> None:
        """MS-MQQB 3.1.6.4."""
        self._timers.stop_ack_send()
        if self.counts.is_ack_owed:
            self._send_ack(self.window_size)
            self._timers.start_ack_send(now)


def decode_received(data: bytes) -> Packet:
    """Decode a packet that came on a session.

    A relay that passes on a message with an illegal sequence number sends it on every session: to close each of them
    would stop the link. So the message counts and is acknowledged like any other, and discarded later.
    """
    try:
        return decode_packet(data)
    except IllegalSequenceNumber:
        return UserMessage.decode(data)


def without_session_header(message: UserMessage, data: bytes) -> bytes:
    """Take the SessionHeader off a message that has one; `data` are its bytes."""
    message.session = None
    message.base.flags &= ~base_header.SH
    return b"".join((data[:2], message.base.flags.to_bytes(2, "little"), data[4 : message.base.packet_size]))
