"""Contents of a queue manager with four queues and a journal, as plain lists: the oracle of the crash tests."""

from dataclasses import dataclass, field, replace
from itertools import count

ORDERS = "orders"  # journaled
LEDGER = "ledger"  # transactional
DONE = "DIRECT=OS:host\\private$\\orders;done"
PAID = "DIRECT=OS:host\\private$\\ledger;paid"
JOURNAL = "DIRECT=OS:host\\private$\\orders;journal"
QUEUES = (ORDERS, LEDGER, DONE, PAID, JOURNAL)
_SUBQUEUES = {ORDERS: DONE, LEDGER: PAID}


@dataclass
class Entry:
    """A message in a queue. `holder` is the transaction or two-phase read that locks it."""

    body: bytes
    place: tuple[int, int]
    is_recoverable: bool
    holder: bytes | None = None
    is_sent: bool = True
    is_purged: bool = False
    aborts: int = 0
    moves: int = 0
    written: int = 0

    @property
    def is_durable(self) -> bool:
        """Whether a start that follows now finds it."""
        return self.is_recoverable and self.is_sent and not self.is_purged


# Of each queue the body, abort count and move count of its messages, in list order.
View = dict[str, list[tuple[bytes, int, int]]]


@dataclass
class Model:
    """The operations do what the specification says. `batch` is the number of the batch that is being made."""

    queues: dict[str, list[Entry]] = field(default_factory=lambda: {name: [] for name in QUEUES})
    transactions: dict[bytes, list[tuple[str, Entry]]] = field(default_factory=dict)
    batch: int = 1
    arrivals: "count[int]" = field(default_factory=lambda: count(1))

    def view(self) -> View:
        return {
            name: [(entry.body, entry.aborts, entry.moves) for entry in entries if entry.is_durable]
            for name, entries in self.queues.items()
        }

    def after_a_crash(self) -> "Model":
        """The contents if every batch so far is durable, and nothing else."""
        queues = {
            name: [replace(entry, holder=None, written=0) for entry in entries if entry.is_durable]
            for name, entries in self.queues.items()
        }
        return Model(queues, arrivals=self.arrivals)

    def available(self, name: str) -> list[Entry]:
        return [entry for entry in self.queues[name] if entry.holder is None]

    def first(self, name: str) -> Entry | None:
        return next(iter(self.available(name)), None)

    def send(self, name: str, body: bytes, priority: int, *, recoverable: bool) -> Entry:
        return self._put(name, Entry(body, (7 - priority, next(self.arrivals)), recoverable))

    def send_in(self, tx: bytes, name: str, body: bytes) -> None:
        entry = Entry(body, (7, next(self.arrivals)), is_recoverable=True, holder=tx, is_sent=False)
        self._put(name, entry)
        self.transactions[tx].append(("send", entry))

    def receive(self, name: str, entry: Entry) -> None:
        self.queues[name].remove(entry)
        if name == ORDERS:
            self._put(JOURNAL, Entry(entry.body, (entry.place[0], next(self.arrivals)), entry.is_recoverable))

    def lock(self, entry: Entry, holder: bytes, operation: str = "") -> None:
        entry.holder = holder
        if operation:
            self.transactions[holder].append((operation, entry))

    def end_receive(self, entry: Entry, *, delete: bool) -> None:
        entry.holder = None
        if entry.is_purged:
            self.queues[ORDERS].remove(entry)
        elif delete:
            self.receive(ORDERS, entry)

    def move(self, entry: Entry) -> None:
        """To the subqueue of its queue."""
        queue = self._queue_of(entry)
        self.queues[queue].remove(entry)
        self._put(_SUBQUEUES[queue], replace(entry, holder=None, is_purged=False, aborts=0, moves=entry.moves + 1))

    def purge(self, name: str) -> None:
        for entry in tuple(self.queues[name]):
            if entry.holder is None:
                self.queues[name].remove(entry)
            else:
                entry.is_purged = True

    def commit(self, tx: bytes) -> None:
        for operation, entry in self.transactions.pop(tx):
            match operation:
                case "send":
                    entry.holder, entry.is_sent, entry.is_purged, entry.written = None, True, False, self.batch
                case "receive":
                    self.receive(self._queue_of(entry), entry)
                case "move":
                    self.move(entry)

    def abort(self, tx: bytes) -> None:
        for operation, entry in self.transactions.pop(tx):
            entry.holder = None
            if operation == "send" or entry.is_purged:
                self.queues[self._queue_of(entry)].remove(entry)
            else:
                entry.aborts += 1
                if entry.is_recoverable:
                    entry.written = self.batch

    def _put(self, name: str, entry: Entry) -> Entry:
        entry.written = self.batch if entry.is_recoverable else 0
        self.queues[name].append(entry)
        self.queues[name].sort(key=lambda each: each.place)
        return entry

    def _queue_of(self, entry: Entry) -> str:
        return next(name for name, entries in self.queues.items() if any(each is entry for each in entries))
