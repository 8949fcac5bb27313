"""Replies of a server to a remote reader, compared with those of the model."""

from typing import Any

from waypost.core.positions import SEQUENCE_MASK
from waypost.remote.interfaces.qm2qm import RemoteReadDesc2, StartReceive2Reply, StartReceiveReply
from waypost.sim.model.records import Answer, ModelMessage
from waypost.sim.model.remote import RemoteCall
from waypost.sim.violation import Violation
from waypost.wire.receive_reply import ReceiveReply
from waypost.wire.remote_packet import RemotePacket
from waypost.wire.section_buffer import join_sections


def packet_of(reply: object) -> bytes:
    """The message in the reply to a read, if there is one."""
    match reply:
        case ReceiveReply(sections=sections) if sections:
            return join_sections(sections)
        case StartReceiveReply(remote_read_desc=desc) if desc.buffer is not None:
            return desc.buffer
        case StartReceive2Reply(remote_read_desc2=RemoteReadDesc2(desc)) if (
            desc is not None and desc.buffer is not None
        ):
            return desc.buffer
    return b""


def check_reply(call: RemoteCall, answer: Answer, reply: Any) -> None:
    """Check that the message is the one that was due, or that none came if none was due."""
    packet = packet_of(reply)
    if not answer.messages:
        if packet:
            raise Violation(f"{call}: expected no message, but found a message")
        return
    message = answer.messages[0]
    if not packet:
        raise Violation(f"{call}: expected {message}, but found no message")
    if not message.is_acknowledgment and message.draft.mark not in packet:
        raise Violation(f"{call}: expected {message}, but found another message")
    sequence_id = _sequence_id(reply)
    if sequence_id is not None and sequence_id != message.lookup_id & SEQUENCE_MASK:
        raise Violation(f"{call}: {message} has the wrong number {sequence_id:#x}")
    if isinstance(reply, ReceiveReply):
        _check_counts(message, answer.counts[0], packet)


def _sequence_id(reply: Any) -> int | None:
    match reply:
        case ReceiveReply(sequence_id=sequence_id):
            return sequence_id
        case StartReceive2Reply(remote_read_desc2=RemoteReadDesc2(sequential_id=sequential_id)):
            return sequential_id
    return None


def _check_counts(message: ModelMessage, counts: tuple[int, int], packet: bytes) -> None:
    header = RemotePacket.decode(packet).subqueue
    found = None if header is None else (header.abort_counter, header.move_counter)
    if found != counts:
        raise Violation(f"{message}: expected the abort and move counts {counts}, but a remote reader found {found}")
