"""Reports of consumers about their remote reads, and checks of them. Each violation is a sentence.

The daemon gives a message out at some moment between the beginning of a read and its answer. From the answer until the
receive is ended, no other reader has the message; from then on, if it was received, it is gone.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any


@dataclass(slots=True)
class Read:
    """`ending_at` is when its end was sent, if it was; `is_ended` says that the daemon has confirmed it."""

    name: str
    begun: int
    at: int
    ending_at: int | None = None
    is_received: bool = False
    is_ended: bool = False


@dataclass(slots=True)
class Stay:
    """An exclusive reader had its queue from here to there, at least."""

    name: str
    since: int
    until: int


@dataclass(slots=True)
class RemoteHistory:
    """`sent` has the names of all messages, by their queue. `counts` is for the report."""

    sent: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    reads: dict[tuple[str, str], list[Read]] = field(default_factory=lambda: defaultdict(list))
    stays: dict[str, Stay] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def read(self, lines: Iterable[str]) -> None:
        """Those of one consumer, in their order."""
        reads: dict[str, Read] = {}
        for text in lines:
            line: dict[str, Any] = json.loads(text)
            if "error" in line:
                self.errors.append(line["error"])
            elif "took" in line:
                read = reads[line["took"]] = Read(line["took"], line["begun"], line["at"])
                self.reads[line["queue"], line["message"]].append(read)
            elif "ending" in line:
                read = reads[line["ending"]]
                read.ending_at, read.is_received = line["at"], line["received"]
            elif "ended" in line:
                reads[line["ended"]].is_ended = True
            elif "alone" in line:
                self.stays[line["alone"]] = Stay(line["alone"], line["at"], line["at"])
            elif "still" in line:
                self.stays[line["still"]].until = line["at"]

    def problems(self) -> Iterator[str]:
        """When all consumers have ended and the last one has emptied the queues."""
        for error in self.errors:
            yield f"a consumer failed:\n{error}"
        for queue, names in self.sent.items():
            self.counts["sent"] += len(names)
            for name in names:
                yield from self._fate(f"{queue}: {name}", self.reads.get((queue, name), []))
        for queue, name in self.reads:
            if name not in self.sent[queue]:
                yield f"{queue}: {name} was never sent there"
        stays = sorted(self.stays.values(), key=lambda stay: stay.since)
        self.counts["alone"] += len(stays)
        for stay, other in combinations(stays, 2):
            if other.since < stay.until:
                yield f"{stay.name} and {other.name} had a queue for themselves at the same time"

    def _fate(self, message: str, reads: list[Read]) -> Iterator[str]:
        received = [read for read in reads if read.is_received and read.is_ended]
        doubtful = [read for read in reads if read.is_received and not read.is_ended]
        self.counts["reads"] += len(reads)
        self.counts["received"] += len(received)
        self.counts["given back"] += sum(read.is_ended and not read.is_received for read in reads)
        self.counts["cut off"] += sum(not read.is_ended for read in reads)
        self.counts["in doubt"] += not received and bool(doubtful)
        if len(received) > 1:
            yield f"{message} was received by {[read.name for read in received]}"
        if not received and not doubtful:
            yield f"{message} is lost; it was read by {[read.name for read in reads]}"
        for read in received:
            for other in reads:
                if other.begun > read.at:
                    yield f"{message} was received by {read.name} and came again to {other.name}"
        for read in reads:
            if not read.is_ended or read.ending_at is None:
                continue
            for other in reads:
                if other.begun > read.at and other.at < read.ending_at:
                    yield f"{message} was with {read.name} and with {other.name} at the same time"
