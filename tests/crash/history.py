"""Reports of the killed processes: operations with what they send, take and purge, and when they began and ended.

Time is the number of a line. The lines of one process have one order (tests/crash/load.py says why), and a process is
over before the next one starts.
"""

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Outcome(Enum):
    DONE = "acknowledged"
    UNDONE = "aborted, or meant to be"
    OPEN = "in flight when the process was killed"


@dataclass(slots=True)
class Sent:
    queue: str
    name: str
    priority: int
    is_express: bool
    is_journaled: bool


@dataclass(slots=True)
class Operation:
    """All of it happens, or nothing. `most` is how many messages it may have taken from `reads` without telling."""

    name: str
    round: int
    begun: int
    ended: int | None = None
    aborts: bool = False
    sends: list[Sent] = field(default_factory=list)
    reads: str = ""
    most: int = 0
    source: str = ""
    taken: list[str] = field(default_factory=list)
    purges: str = ""

    @property
    def outcome(self) -> Outcome:
        if self.aborts:
            return Outcome.UNDONE
        return Outcome.OPEN if self.ended is None else Outcome.DONE


@dataclass(slots=True)
class Identifiers:
    """Values that a message got from the queue manager when it was sent."""

    name: str
    message_id: str
    lookup_id: int


class History:
    """The reports since the folder was last empty."""

    def __init__(self, start: int = 0) -> None:
        self.now = start
        self.operations: dict[str, Operation] = {}
        self.identifiers: list[Identifiers] = []
        self.errors: list[str] = []
        # When each process was killed.
        self.ends: dict[int, int] = {}

    def read(self, text: str, round_number: int) -> None:
        self.now += 1
        line = json.loads(text)
        if "error" in line:
            self.errors.append(line["error"])
        if "begin" in line:
            name = line["begin"]
            self.operations[name] = Operation(name, round_number, self.now)
            self._add(self.operations[name], line)
        elif "operation" in line:
            self._add(self.operations[line["operation"]], line)
        elif "end" in line:
            operation = self.operations[line["end"]]
            self._add(operation, line)
            operation.ended = self.now
            self.identifiers += [Identifiers(*each) for each in line.get("ids", ())]

    def end_of_round(self, round_number: int) -> None:
        self.now += 1
        self.ends[round_number] = self.now

    def _add(self, operation: Operation, line: dict[str, Any]) -> None:
        operation.aborts = line.get("aborts", operation.aborts)
        operation.sends += [Sent(*each) for each in line.get("sends", ())]
        if "took" in line:
            operation.source, *operation.taken = line["took"]
        if "reads" in line:
            operation.reads, operation.most = line["reads"]
        operation.purges = line.get("purges", operation.purges)
