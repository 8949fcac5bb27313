"""Counters of transfer since the start of the queue manager, for metrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class Statistics:
    """Each number only grows, except for the two that count the current sessions."""

    sessions: int = 0
    sessions_open: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0
    connections_failed: int = 0
    handshakes_refused: int = 0
    packets_malformed: int = 0
    protocol_errors: int = 0
    messages_sent: int = 0
    messages_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    session_acks_sent: int = 0
    session_acks_received: int = 0
    order_acks_sent: int = 0
    order_acks_received: int = 0
    final_acks_sent: int = 0
    final_acks_received: int = 0
    transactional_acks_refused: int = 0
    transactional_acks_unmatched: int = 0
    duplicates_discarded: int = 0
    messages_rejected: int = 0
    messages_unverified: int = 0
    messages_not_encrypted: int = 0
    messages_refused_for_acks: int = 0
    sequences_refused: int = 0
    sequence_ends_forgotten: int = 0
    messages_resent: int = 0
    messages_forwarded: int = 0
    messages_returned: int = 0
    pings_received: int = 0
    dials_for_strangers: int = 0
    acks_refused: int = 0
