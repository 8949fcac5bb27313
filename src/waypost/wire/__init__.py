"""Bytes and names of the five specifications, exact and stateless: MS-MQMQ 2, MS-MQQB 2, MS-MQRR 2.2.5 to 2.2.7.

    decode_packet(data)         one whole packet -> the record that it is; record.encode() gives the same bytes
    Splitter().feed(data)       a byte stream -> whole packets
    FormatName.parse(text)      a format name of any kind; str(name) prints it

Any bytes give a record or a DecodeError that names section, field, offset and reason.
"""

from waypost.wire.format_names import FormatName
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from waypost.wire.packets import Packet, Splitter, decode_packet
from waypost.wire.path_names import PathName
from waypost.wire.ping import Ping
from waypost.wire.transactional_acks import FinalAck, OrderAck
from waypost.wire.user_message import UserMessage

__all__ = [
    "ConnectionParameters",
    "EstablishConnection",
    "FinalAck",
    "FormatName",
    "OrderAck",
    "Packet",
    "PathName",
    "Ping",
    "SessionAck",
    "Splitter",
    "UserMessage",
    "decode_packet",
]
