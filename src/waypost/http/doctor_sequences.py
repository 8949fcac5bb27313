"""Checks of transactional sequences by the doctor: refused ones, floods of them, and clocks that differ."""

from collections.abc import Iterator
from typing import Final

from waypost.api.status import Check
from waypost.clock import Now
from waypost.guid import NULL_GUID, guid_text
from waypost.limits import MAX_SEQUENCES_LOOKED_AT, MAX_TIME_STAMP_AHEAD_SECONDS
from waypost.node.explain_sequences import refused_hint, refused_sentence
from waypost.node.explain_words import at, span
from waypost.node.node import Node

_SHOWN: Final = 3
# Sources with a single message at one address: a real host has a few, an invented crowd has many.
_MANY_SINGLE: Final = 1000
# Time synchronization corrects clocks by seconds.
_CLOCK_TOLERANCE: Final = 60


def examine_sequences(node: Node, now: Now) -> Iterator[Check]:
    """The checks of a queue manager with a network."""
    if node.network is None:
        return
    refused = node.network.arrivals.admission.refused[::-1]
    for each in refused[:_SHOWN]:
        sentence = refused_sentence(node, each, now)
        if each is refused[0] and len(refused) > _SHOWN:
            sentence += f"; {len(refused) - 1} more are refused: `waypost sequence list` shows them"
        yield Check("sequences", False, sentence, refused_hint(each))
    if not refused:
        yield Check("sequences", True, "no transactional sequence was refused recently")
    yield from _forgotten(node)
    yield from _many(node)
    yield from _clock(node, now)


def _forgotten(node: Node) -> Iterator[Check]:
    """Ended sequences that are forgotten, of sources with an address that could begin them again."""
    assert node.network is not None
    for each in node.network.arrivals.admission.unguarded[: -_SHOWN - 1 : -1]:
        queue, source = node.manager.collection.by_number[each.key[1]], guid_text(each.key[0][: len(NULL_GUID)])
        ends = "record of 1 ended sequence was" if each.count == 1 else f"records of {each.count} ended sequences were"
        sentence = (
            f"the {ends} deleted (source {source}, queue {queue}, last sequence from {at(each.time_stamp)}), so "
            "duplicates of their messages would be accepted from "
            f"{each.address or 'a host that has sent no messages since the last upgrade'}"
        )
        hint = f"`waypost sequence reset --source {source}` starts the sequences of the source again"
        if each.address:
            hint = f"if the source no longer uses this address, run `waypost sequence reset --address {each.address}`"
        yield Check("ended sequences", False, sentence, hint)


def _many(node: Node) -> Iterator[Check]:
    addresses, is_whole = node.sequences.incoming.addresses(MAX_SEQUENCES_LOOKED_AT)
    single = {address: record.single for address, record in addresses.items() if record.single >= _MANY_SINGLE}
    for address in sorted(single, key=lambda each: -single[each])[:_SHOWN]:
        sentence = (
            f"{address} has sent messages from {single[address]} sources, but only one message from each of these "
            "sources; the store contains a record of each source"
        )
        hint = f"if these sources do not exist, block the address and run `waypost sequence reset --address {address}`"
        yield Check("sources", False, sentence, hint)
    if not single and not is_whole:
        yield Check("sources", True, f"only the first {MAX_SEQUENCES_LOOKED_AT} addresses with sequences were checked")


def _clock(node: Node, now: Now) -> Iterator[Check]:
    behind = node.sequences.seconds_behind(now)
    if behind > _CLOCK_TOLERANCE:
        sentence = (
            f"the clock is {span(behind)} behind the latest record of the store, so the limit "
            "transfer.max_sequence_ahead_s is not applied to new sequences"
        )
        yield Check("sequence clock", False, sentence, "set the clock of this computer")
    ahead = [each for each in node.sequences.ahead_of_clock(now) if each[1] > MAX_TIME_STAMP_AHEAD_SECONDS]
    if not ahead:
        return
    queue, seconds = max(ahead, key=lambda each: each[1])
    sentence = (
        f"the start time of the transactional sequence of {queue} is {span(seconds)} ahead of the clock of this "
        "computer"
    )
    if len(ahead) > 1:
        sentence += f", and {len(ahead) - 1} more outgoing queues are ahead"
    hint = (
        "destinations refuse sequences that are ahead by more than their transfer.max_sequence_ahead_s; set the "
        f"clock, and start the sequence again with `waypost sequence reset '{queue}'`"
    )
    yield Check("sequence clock", False, sentence, hint)
