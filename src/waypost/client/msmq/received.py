"""What a remote read brings, as a Message."""

from contextlib import suppress
from dataclasses import replace

from waypost.client.message import Message
from waypost.core.serialization import message_from_packet, verified_authentication_level
from waypost.errors import EncodeError
from waypost.remote.client.reads import Received


def message_of(received: Received) -> Message:
    packet = replace(received.message, session=None)
    core = message_from_packet(packet)
    # MS-MQQP 3.1.4.1: the oldest servers do not tell it.
    core.lookup_identifier = received.lookup_id if received.sequence_id else 0
    core.arrival_time = received.arrive_time
    core.authentication_level = verified_authentication_level(packet)
    placement = received.packet.placement
    if placement is not None:
        core.abort_count = placement.abort_counter
        core.move_count = placement.move_counter
        core.last_move_time = placement.last_move_time
    if received.packet.dead_letter is not None:
        core.application_deadletter_queue = received.packet.dead_letter.dead_letter_path_name
    with suppress(EncodeError):
        core.packet = packet.encode()
    return Message(core)
