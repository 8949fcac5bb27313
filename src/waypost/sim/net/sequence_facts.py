"""What a record of the table SEQUENCES says about transactional sequences."""

from waypost.store import keys
from waypost.store.records import SequenceRecord
from waypost.store.sequence_records import IncomingRecord


def sequence_facts(key: bytes, value: bytes) -> list[tuple[bytes, SequenceRecord]]:
    """How far the sequences in a record of SEQUENCES are, each under a key that begins with that of the record."""
    if keys.is_sequence_address(key):
        return []
    if keys.sequence_of(key)[1] is None:
        return [(key, SequenceRecord.decode(value))]
    lines = IncomingRecord.decode(value).lines
    return [(key + (line.sequence_identifier >> 32).to_bytes(4, "big"), line) for line in lines]
