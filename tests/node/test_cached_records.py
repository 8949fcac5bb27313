"""Records that are in memory only in part are always what was put last."""

from collections import deque

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from waypost.node.cached_records import CachedRecords
from waypost.store.port import Action, Batch, Table

KEYS = st.integers(0, 5)


def stored(key: int) -> bytes:
    return bytes([key])


class Model(RuleBasedStateMachine):
    """`disk` is what reads see: the batches that were said to be durable."""

    def __init__(self) -> None:
        super().__init__()
        self.disk: dict[bytes, bytes] = {}
        self.expected: dict[int, bytes] = {}
        self.batch, self.token = Batch(), 1
        self.submitted: deque[tuple[int, Batch]] = deque()
        self.kept: CachedRecords[int, bytes] = CachedRecords(
            lambda key: self.disk.get(stored(key)),
            lambda batch, key, value: batch.put(Table.SEQUENCES, stored(key), value),
            lambda batch, key: batch.delete(Table.SEQUENCES, stored(key)),
            size=2,
        )

    @rule(key=KEYS, value=st.binary(min_size=1, max_size=2))
    def change(self, key: int, value: bytes) -> None:
        self.kept.changed(key, value)
        self.expected[key] = value

    @rule(key=KEYS)
    def delete(self, key: int) -> None:
        self.kept.delete(key)
        self.expected.pop(key, None)

    @rule()
    def end_operation(self) -> None:
        size, has_changed = len(self.batch), bool(self.kept.unwritten)
        self.kept.write(self.batch, self.token)
        assert has_changed is (len(self.batch) > size)

    @rule()
    def end_batch(self) -> None:
        self.end_operation()
        self.submitted.append((self.token, self.batch))
        self.batch, self.token = Batch(), self.token + 1

    @rule()
    def become_durable(self) -> None:
        if self.submitted:
            token, batch = self.submitted.popleft()
            for action, _, key, value in batch.operations:
                if action is Action.PUT:
                    self.disk[key] = value
                else:
                    self.disk.pop(key, None)
            self.kept.persisted(token)

    @rule(key=KEYS)
    def look(self, key: int) -> None:
        assert self.kept.get(key) == self.expected.get(key)

    @invariant()
    def what_is_durable_is_not_all_in_memory(self) -> None:
        if not self.submitted and not self.batch.operations:
            self.kept.write(self.batch, self.token)
            if not self.batch.operations:
                assert len(self.kept) <= 2


TestModel = Model.TestCase
