"""Checks of the reported operations and the messages that are left. Each violation is a sentence.

Of an operation in flight at a kill nobody knows whether it happened, but it happened whole or not at all. It did if
anything that it sends was seen. One that only takes did if none of what it took came back.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.crash.history import History, Operation, Outcome, Sent
from tests.crash.inventory import JOURNAL, SOURCE_JOURNAL
from tests.crash.load import PLAIN
from tests.crash.order import Passage, passed_over

# A name, the one it was moved from, the message id, the lookup id and the priority.
Entry = list[Any]

_SEQUENTIAL_ID = (1 << 56) - 1


@dataclass(slots=True)
class Sighting:
    """Somebody had the message in hand: an operation, or the inventory at the end."""

    queue: str
    begun: int
    ended: int
    operation: Operation | None

    @property
    def is_final(self) -> bool:
        return self.operation is None or self.operation.outcome is Outcome.DONE


class Register:
    """Every identifier that was ever given out, with what it was given to."""

    def __init__(self) -> None:
        self._message_ids: dict[str, str] = {}
        self._sequential_ids: dict[int, tuple[str, str]] = {}

    def problems(self, history: History, queues: dict[str, list[Entry]]) -> Iterator[str]:
        sent_to = {sent.name: sent.queue for each in history.operations.values() for sent in each.sends}
        for given in history.identifiers:
            yield from self._note(given.name, sent_to[given.name], given.message_id, given.lookup_id)
        for queue, entries in queues.items():
            for name, _, message_id, lookup_id, _ in entries:
                yield from self._note(name, queue, message_id, lookup_id)

    def _note(self, name: str, queue: str, message_id: str, lookup_id: int) -> Iterator[str]:
        other = self._message_ids.setdefault(message_id, name)
        if other != name:
            yield f"the message id {message_id} was given to {other} and to {name}"
        place = self._sequential_ids.setdefault(lookup_id & _SEQUENTIAL_ID, (name, queue))
        if place != (name, queue):
            yield f"the lookup id {lookup_id:#x} was given to {place} and to {(name, queue)}"


class Checks:
    """The rules, on what was told since the folder was last empty and what was found in it now."""

    def __init__(self, history: History, queues: dict[str, list[Entry]]) -> None:
        self.history = history
        self.queues = queues
        self.operations = list(history.operations.values())
        self.sent = {sent.name: (sent, each) for each in self.operations for sent in each.sends}
        self.copies = {name: Counter(entry[0] for entry in queues[name]) for name in (JOURNAL, SOURCE_JOURNAL)}
        self.sightings = self._sightings()
        self.happened = {each.name: self._happened(each) for each in self.operations}
        self.purges = [each for each in self.operations if each.purges]

    def problems(self) -> Iterator[str]:
        for error in self.history.errors:
            yield f"a thread failed:\n{error}"
        if unknown := [name for name in [*self.sightings, *self._copied()] if name not in self.sent]:
            # They came back from before the folder was last empty; nothing else can be said then.
            yield f"messages that were received long ago: {unknown}"
            return
        for name, sightings in self.sightings.items():
            yield from self._at_most_once(name, sightings)
        for operation in self.operations:
            yield from self._all_or_nothing(operation)
        yield from self._nothing_lost()
        yield from self._journal()
        yield from self._source_journal()
        yield from self._purged()
        yield from self._order()

    def _sightings(self) -> dict[str, list[Sighting]]:
        found: dict[str, list[Sighting]] = defaultdict(list)
        for operation in self.operations:
            ended = self._end(operation)
            for name in operation.taken:
                found[name].append(Sighting(operation.source, operation.begun, ended, operation))
        for queue, entries in self.queues.items():
            if queue not in self.copies:
                for place, entry in enumerate(entries):
                    time = self.history.now + 1 + place
                    found[entry[0]].append(Sighting(queue, time, time, None))
        return found

    def _copied(self) -> list[str]:
        return [name for copies in self.copies.values() for name in copies]

    def _end(self, operation: Operation) -> int:
        """When it was over: acknowledged or killed."""
        return self.history.ends[operation.round] if operation.ended is None else operation.ended

    def _happened(self, operation: Operation) -> bool:
        if operation.outcome is not Outcome.OPEN:
            return operation.outcome is Outcome.DONE
        if operation.sends:
            return any(self._was_seen(sent.name) for sent in operation.sends)
        return bool(operation.taken) and not all(self._came_back(name, operation) for name in operation.taken)

    def _was_seen(self, name: str) -> bool:
        return bool(self.sightings.get(name)) or any(copies[name] for copies in self.copies.values())

    def _came_back(self, name: str, operation: Operation) -> bool:
        end = self._end(operation)
        return any(sighting.begun > end for sighting in self.sightings[name])

    def _at_most_once(self, name: str, sightings: list[Sighting]) -> Iterator[str]:
        sent, sender = self.sent[name]
        finals = [sighting for sighting in sightings if sighting.is_final]
        if len(finals) > 1:
            yield f"{name} was received {len(finals)} times"
        for sighting in sightings:
            if sighting.queue != sent.queue:
                yield f"{name} was sent to {sent.queue} and seen in {sighting.queue}"
            if sighting.ended < sender.begun:
                yield f"{name} was seen before it was sent"
            if sent.is_express and (sighting.operation is None or sighting.operation.round != sender.round):
                yield f"{name} is an express message and survived its process"

    def _all_or_nothing(self, operation: Operation) -> Iterator[str]:
        if self.happened[operation.name]:
            if back := [name for name in operation.taken if self._came_back(name, operation)]:
                yield f"{operation.name} happened, and what it had taken came back: {back}"
            return
        if seen := [sent.name for sent in operation.sends if self._was_seen(sent.name)]:
            yield f"{operation.name} did not happen, and what it sent was seen: {seen}"
        gone = [name for name in operation.taken if not self._came_back(name, operation)]
        if gone and operation.outcome is Outcome.OPEN:
            yield f"{operation.name} did not happen, and what it had taken is gone: {gone}"

    def _nothing_lost(self) -> Iterator[str]:
        missing: dict[str, list[str]] = defaultdict(list)
        for sent, sender in self.sent.values():
            if self.happened[sender.name] and not sent.is_express and not self._is_accounted_for(sent, sender):
                missing[sent.queue].append(sent.name)
        for queue, names in missing.items():
            # A receive in flight may have taken its messages without telling which. A journal knows them.
            if queue == "plain" or len(names) > self._unknown_takes(queue):
                yield f"{queue} has lost messages: {names}"

    def _is_accounted_for(self, sent: Sent, sender: Operation) -> bool:
        for sighting in self.sightings.get(sent.name, ()):
            if sighting.operation is None or self.happened[sighting.operation.name]:
                return True
        if sent.queue == "plain" and self.copies[JOURNAL][sent.name]:
            return True
        return any(each.purges == sent.queue and self._end(each) > sender.begun for each in self.purges)

    def _unknown_takes(self, queue: str) -> int:
        return sum(
            each.most for each in self.operations if each.reads == queue and each.outcome is Outcome.OPEN
        )  # fmt: skip

    def _journal(self) -> Iterator[str]:
        """The journal of plain has what was received, and that only."""
        copies = self.copies[JOURNAL]
        untold = 0
        for name, amount in copies.items():
            sent, _ = self.sent[name]
            finals = [sighting for sighting in self.sightings.get(name, ()) if sighting.is_final]
            untold += not finals
            if amount > 1:
                yield f"the journal has {amount} copies of {name}"
            if sent.is_express:
                yield f"the journal has {name}, an express message of a process that is gone"
            if any(sighting.operation is None for sighting in finals):
                yield f"{name} is in its queue, and yet in the journal"
        if untold > self._unknown_takes("plain"):
            yield f"the journal has {untold} messages that nobody has received"
        for name, sightings in self.sightings.items():
            sent, _ = self.sent[name]
            is_received = any(sighting.is_final and sighting.operation for sighting in sightings)
            if sent.queue == "plain" and is_received and not sent.is_express and not copies[name]:
                yield f"{name} was received, and the journal has no copy"

    def _source_journal(self) -> Iterator[str]:
        """The journal of the sender has what was sent with a wish for it, and that only."""
        copies = self.copies[SOURCE_JOURNAL]
        for sent, sender in self.sent.values():
            expected = int(sent.is_journaled and not sent.is_express and self.happened[sender.name])
            if copies[sent.name] != expected:
                yield f"system$;journal has {copies[sent.name]} copies of {sent.name} instead of {expected}"

    def _purged(self) -> Iterator[str]:
        for purge in self.purges:
            if purge.outcome is not Outcome.DONE:
                continue
            for name, *_ in self.queues[purge.purges]:
                _, sender = self.sent[name]
                if self._end(sender) < purge.begun:
                    yield f"{name} was sent before {purge.name} purged its queue, and is still there"

    def _order(self) -> Iterator[str]:
        for queue in self.queues:
            if queue in self.copies:
                continue
            for ahead, taken in passed_over(self._passages(queue)):
                yield f"{queue}: {taken} was received before {ahead}, which is ahead of it"
        for operation in self.operations:
            places = [self._place(sent) for sent in operation.sends]
            for queue in {queue for queue, _ in places}:
                own = [place for where, place in places if where == queue and place is not None]
                if own != sorted(own):
                    yield f"{queue}: the messages of {operation.name} are not in the order in which they were sent"

    def _place(self, sent: Sent) -> tuple[str, int | None]:
        left = [sighting.begun for sighting in self.sightings.get(sent.name, ()) if sighting.operation is None]
        return sent.queue, left[0] if left else None

    def _passages(self, queue: str) -> list[Passage]:
        """Messages taken by transactions may have been held by others before, and say nothing about order."""
        passages = []
        for name, sightings in self.sightings.items():
            sent, sender = self.sent[name]
            finals = [
                each for each in sightings if each.is_final and (each.operation is None or sent.queue in PLAIN)
            ]  # fmt: skip
            if sent.queue == queue and finals:
                final = finals[0]
                passages.append(
                    Passage(name, sent.priority, sender.begun, self._end(sender), final.begun, final.ended)
                )  # fmt: skip
        return passages
