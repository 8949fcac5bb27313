"""The message of a remote read, as a message of the core."""

from contextlib import suppress
from dataclasses import replace

from waypost.core.message import Message
from waypost.core.serialization import message_from_packet, verified_authentication_level
from waypost.errors import EncodeError
from waypost.remote.client.reads import Received


def message_of(received: Received) -> Message:
    packet = replace(received.message, session=None)
    message = message_from_packet(packet)
    # MS-MQQP 3.1.4.1: the oldest servers do not send it.
    message.lookup_identifier = received.lookup_id if received.sequence_id else 0
    message.arrival_time = received.arrive_time
    message.authentication_level = verified_authentication_level(packet)
    placement = received.packet.placement
    if placement is not None:
        message.abort_count = placement.abort_counter
        message.move_count = placement.move_counter
        message.last_move_time = placement.last_move_time
    if received.packet.dead_letter is not None:
        message.application_deadletter_queue = received.packet.dead_letter.dead_letter_path_name
    with suppress(EncodeError):
        message.packet = packet.encode()
    return message
