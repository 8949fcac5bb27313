"""Both implementations against a dict: random batches, reads, completions, and starting again."""

import tempfile
from pathlib import Path
from shutil import rmtree

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.store.engines import Engine, LmdbEngine, MemoryEngine
from waypost.store.port import Action, Batch, Table

M = Table.MESSAGES
KEYS = st.binary(min_size=1, max_size=2)
BOUNDS = st.one_of(st.just(b""), KEYS)
VALUES = st.one_of(st.binary(max_size=8), st.sampled_from([bytes(1500), bytes(5000)]))
TABLES = st.sampled_from([M, Table.COUNTERS])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just(Action.PUT), TABLES, KEYS, VALUES),
        st.tuples(st.just(Action.DELETE), TABLES, KEYS, st.just(b"")),
        st.tuples(st.just(Action.DELETE_RANGE), TABLES, BOUNDS, KEYS),
    ),
    max_size=12,
)

Model = dict[tuple[Table, bytes], bytes]


def applied(model: Model, batch: Batch) -> Model:
    model = dict(model)
    for action, table, first, second in batch.operations:
        if action is Action.PUT:
            model[table, first] = second
        elif action is Action.DELETE:
            model.pop((table, first), None)
        else:
            model = {at: value for at, value in model.items() if at[0] is not table or not first <= at[1] < second}
    return model


class StoreMachine(RuleBasedStateMachine):
    engine: Engine

    def __init__(self) -> None:
        super().__init__()
        self.model: Model = {}
        self.submitted: list[tuple[int, Batch]] = []
        self.next_token = 0

    @rule(operations=OPERATIONS)
    def submit(self, operations: list[tuple[Action, Table, bytes, bytes]]) -> None:
        batch = Batch()
        batch.operations = operations
        self.engine.store.submit(batch, self.next_token)
        self.submitted.append((self.next_token, batch))
        self.next_token += 1

    @rule(count=st.integers(0, 3))
    def finish(self, count: int) -> None:
        self.reported(self.engine.finish(min(count, len(self.submitted))))

    def reported(self, tokens: list[int]) -> None:
        assert tokens == [token for token, _ in self.submitted[: len(tokens)]]
        for _, batch in self.submitted[: len(tokens)]:
            self.model = applied(self.model, batch)
        del self.submitted[: len(tokens)]

    @rule()
    def restart(self) -> None:
        self.engine.restart()
        for _, batch in self.submitted:
            self.model = applied(self.model, batch)
        self.submitted.clear()

    @rule(table=TABLES, start=BOUNDS, stop=st.one_of(st.none(), KEYS), limit=st.integers(1, 5))
    def read(self, table: Table, start: bytes, stop: bytes | None, limit: int) -> None:
        store = self.engine.store
        inside = [item for item in self.items(table) if start <= item[0] and (stop is None or item[0] < stop)]
        assert list(store.scan(table, start, stop, limit)) == inside[:limit]
        assert list(store.scan_back(table, start, stop, limit)) == inside[::-1][:limit]
        assert list(store.keys(table, start, stop, limit)) == [key for key, _ in inside[:limit]]
        assert store.first(table, start, stop) == (inside[0] if inside else None)
        assert store.last(table, start, stop) == (inside[-1] if inside else None)

    @rule(table=TABLES, key=KEYS)
    def get(self, table: Table, key: bytes) -> None:
        assert self.engine.store.get(table, key) == self.model.get((table, key))

    @invariant()
    def reads_show_what_was_reported(self) -> None:
        for table in (M, Table.COUNTERS):
            assert list(self.engine.store.scan(table, limit=10_000)) == self.items(table)

    def items(self, table: Table) -> list[tuple[bytes, bytes]]:
        return sorted((key, value) for (at, key), value in self.model.items() if at is table)


class MemoryMachine(StoreMachine):
    def __init__(self) -> None:
        super().__init__()
        self.engine: MemoryEngine = MemoryEngine()

    @rule(completed=st.integers(0, 3))
    def crash(self, completed: int) -> None:
        """Batches that the disk has written are there, whether or not they were reported; the rest never was."""
        for _, batch in self.submitted[: self.engine.memory.complete(completed)]:
            self.model = applied(self.model, batch)
        self.engine.memory.crash()
        self.submitted.clear()

    @rule()
    def a_full_disk(self) -> None:
        self.engine.memory.full = True
        assert self.engine.finish(len(self.submitted)) == []
        assert (self.engine.memory.trouble is not None) == bool(self.submitted)
        self.engine.memory.full = False


class LmdbMachine(StoreMachine):
    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.engine = LmdbEngine(self.folder)

    def teardown(self) -> None:
        self.engine.stop()
        rmtree(self.folder)


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(max_examples=60, stateful_step_count=30)
TestLmdb = LmdbMachine.TestCase
TestLmdb.settings = settings(max_examples=40, stateful_step_count=25)
