"""Both implementations of the store behind one way to make things durable and to start again."""

from pathlib import Path
from typing import Protocol

from waypost.store.lmdb import LmdbStore
from waypost.store.memory import MemoryStore
from waypost.store.port import Batch, Store, Table


class Engine(Protocol):
    store: Store

    @property
    def pending(self) -> int:
        """The number of submitted batches that are not reported yet."""

    def finish(self, count: int) -> list[int]:
        """Let `count` submitted batches become durable, and poll until they are reported."""

    def restart(self) -> None:
        """Stop cleanly and start again on what is durable."""

    def stop(self) -> None: ...


class MemoryEngine:
    def __init__(self) -> None:
        self.memory = MemoryStore()
        self.store: Store = self.memory

    @property
    def pending(self) -> int:
        return self.memory.pending

    def finish(self, count: int) -> list[int]:
        self.memory.complete(count)
        return self.memory.poll()

    def restart(self) -> None:
        self.memory.close()

    def stop(self) -> None:
        pass


class LmdbEngine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lmdb = LmdbStore(folder)
        self.store: Store = self.lmdb

    @property
    def pending(self) -> int:
        return self.lmdb._unreported

    def finish(self, count: int) -> list[int]:
        tokens: list[int] = []
        while len(tokens) < count:
            assert self.lmdb.wait(60)
            tokens += self.lmdb.poll()
        return tokens

    def restart(self) -> None:
        self.lmdb.close()
        self.store = self.lmdb = LmdbStore(self.folder)

    def stop(self) -> None:
        self.lmdb.close()


def put(*items: tuple[bytes, bytes], table: Table = Table.MESSAGES) -> Batch:
    batch = Batch()
    for key, value in items:
        batch.put(table, key, value)
    return batch
