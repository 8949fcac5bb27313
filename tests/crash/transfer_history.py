"""Reports of the applications of several daemons, and checks of them. Each violation is a sentence.

A queue has one reader, so its transactions come one after the other. One whose commit got no answer has happened if
nothing that it took came again. A sender numbers its messages, and the numbers of each queue come in order.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

# The way in which messages of a queue are sent. Its label begins with it.
TRANSACTIONAL: Final = "transactional"
RECOVERABLE: Final = "recoverable"
EXPRESS: Final = "express"


@dataclass(slots=True)
class Operation:
    """`outcome` is done, undone, or open if nobody knows."""

    name: str
    sends: list[tuple[str, str]] = field(default_factory=list)
    reads: str = ""
    took: list[tuple[str, int]] = field(default_factory=list)
    outcome: str = "open"


class TransferHistory:
    """All that was told. `counts` is for the report."""

    def __init__(self) -> None:
        self.operations: dict[str, Operation] = {}
        self.errors: list[str] = []
        self.counts: Counter[str] = Counter()

    def read(self, lines: Iterable[str]) -> None:
        """Those of one application, in their order."""
        for text in lines:
            line: dict[str, Any] = json.loads(text)
            if "error" in line:
                self.errors.append(line["error"])
            elif "begin" in line:
                name = line["begin"]
                sends = [tuple(each) for each in line.get("sends", ())]
                took = [tuple(each) for each in line.get("took", ())]
                self.operations[name] = Operation(name, sends, line.get("reads", ""), took)
            elif "end" in line:
                self.operations[line["end"]].outcome = line["outcome"]

    def problems(self) -> Iterator[str]:
        for error in self.errors:
            yield f"an application failed:\n{error}"
        arrived: dict[str, list[str]] = {}
        readers: dict[str, list[Operation]] = defaultdict(list)
        for operation in self.operations.values():
            if operation.reads:
                readers[operation.reads].append(operation)
        for label, reads in readers.items():
            arrived[label] = yield from self._received(label, reads)
        yield from self._sends(arrived)
        for label, names in arrived.items():
            yield from self._order(label, names)

    def _received(self, label: str, reads: list[Operation]) -> Generator[str, None, list[str]]:
        """The messages that left the queue, in their order. The same place in a queue is given to one message, once."""
        last = {place: index for index, read in enumerate(reads) for _, place in read.took}
        names: list[str] = []
        for index, read in enumerate(reads):
            again = [name for name, place in read.took if last[place] > index]
            if read.outcome == "done" and again:
                yield f"{label}: {read.name} was committed, and messages that it took came again: {again}"
            if read.outcome == "undone" and len(again) < len(read.took) and not label.startswith(EXPRESS):
                yield f"{label}: {read.name} was aborted, and only {again} of {read.took} came again"
            if read.outcome == "open":
                self.counts["reads in doubt"] += 1
                if again and len(again) < len(read.took):
                    yield f"{label}: {read.name} is in doubt, and only a part of it came again: {again}"
            if read.outcome != "undone" and not again:
                names += [name for name, _ in read.took]
        return names

    def _sends(self, arrived: dict[str, list[str]]) -> Iterator[str]:
        amounts = {label: Counter(names) for label, names in arrived.items()}
        known = set()
        for operation in self.operations.values():
            found = [amounts.get(label, Counter())[name] for label, name in operation.sends]
            for (label, name), amount in zip(operation.sends, found, strict=True):
                known.add((label, name))
                kind = label.partition(" ")[0]
                self.counts[f"{kind} {operation.outcome}"] += 1
                self.counts[f"{kind} arrived"] += amount > 0
                self.counts[f"{kind} again"] += max(amount - 1, 0)
                if amount > 1 and kind == TRANSACTIONAL:
                    yield f"{label}: {name} came {amount} times"
                if amount and operation.outcome == "undone":
                    yield f"{label}: {name} came, but {operation.name} was aborted or never reached the daemon"
                if not amount and operation.outcome == "done":
                    self.counts[f"{kind} lost"] += 1
                    if kind != EXPRESS:
                        yield f"{label}: {name} of {operation.name} is lost"
            if operation.outcome == "open" and any(found) and not all(found):
                kinds = {label.partition(" ")[0] for label, _ in operation.sends}
                if kinds != {EXPRESS}:
                    yield f"{operation.name} is in doubt, and only a part of it came: {operation.sends} {found}"
        for label, names in arrived.items():
            if strangers := [name for name in names if (label, name) not in known]:
                yield f"{label}: messages that nobody sent there: {strangers[:5]}"

    def _order(self, label: str, names: list[str]) -> Iterator[str]:
        kind = label.partition(" ")[0]
        before: dict[str, int] = {}
        for name in names:
            sender, _, number = name.partition("/")
            if int(number) < before.get(sender, 0):
                self.counts[f"{kind} late"] += 1
                if kind == TRANSACTIONAL:
                    yield f"{label}: {name} came after {sender}/{before[sender]}"
            before[sender] = int(number)
