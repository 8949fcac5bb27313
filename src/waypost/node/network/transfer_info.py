"""OutgoingTransferInfo of an outgoing queue: MS-MQDMPR 3.1.1.4, as MS-MQQB 3.1.5.6 and 3.1.5.8.8 require it."""

from waypost.core.queues import OutgoingQueue
from waypost.transfer.sequences import OutgoingSequence, TxOutgoingSequence
from waypost.wire.identifiers import SequenceInfo


def tell(queue: OutgoingQueue, outgoing: OutgoingSequence, sent: TxOutgoingSequence, unread: int) -> None:
    """Set the OutgoingTransferInfo. `unread` messages have arrived, with an unknown outcome."""
    info, sequence_id = queue.outgoing_transfer_info, sent.sequence_id

    def numbered(number: int) -> SequenceInfo | None:
        return SequenceInfo.of(sequence_id, number, number - 1) if number else None

    first, last = sent.unacked_ends
    if sent.last_ack_number:
        info.last_ack = numbered(sent.last_ack_number)
        info.last_ack_time = int(sent.time_of_last_ack)
        # readings MQQB 3.16: of this acknowledgment, where LastAckCount counts them all.
        info.last_ack_count = sent.last_ack_repeats
    info.first_non_ack = numbered(first)
    info.last_non_ack = numbered(last)
    info.no_ack_count = sent.unacked_count
    info.next_seq = SequenceInfo.of(outgoing.sequence_id, outgoing.next_number, outgoing.next_number - 1)
    info.no_read_count = unread
    info.resend_interval = int(sent.resend_interval)
    info.resend_time = int(sent.resend_time)
    # MS-MQDMPR 3.1.1.4: the number of times they were sent.
    info.resend_count = sent.resend_count + 1 if sent.unacked_count else 0
