"""The LMDB engine: the one module of the pure layers that does I/O and has a thread.

The commit thread owns the write transaction: it takes everything that is pending, writes it, flushes it and opens a
read transaction on the result. `poll` hands over that snapshot with the tokens, so that reads move exactly with what
is reported. All else runs in the owner's thread. One condition guards what the two share.

LMDB can only change its map while no transaction of the process is active. When the map is full, the commit thread
therefore asks, and the owner's next `poll` closes the snapshots, grows the map and opens them again.

A small batch can be written in the owner's thread instead, while nothing else is pending and the disk is quick: to hand
it to another thread and hear of it again takes longer than to flush it (ADR 17).
"""

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Condition, Lock, Thread
from typing import Final, Self

import lmdb

from waypost.errors import OutcomeUnknown, StoreError, StoreFull
from waypost.limits import MAX_COMMIT_BYTES, MAX_STORE_SIZE
from waypost.store import sealed_tables
from waypost.store.folder import DATA, NEW_DATA, READERS, flush_folder, lock_folder, write_holder
from waypost.store.lmdb_reading import FORMAT, MARK, LmdbReader, format_of, name_of, not_a_store, store_error
from waypost.store.port import Batch, Operation, Store, Table
from waypost.store.progress import Progress, unheard
from waypost.store.space import Space
from waypost.store.start_check import check_before_opening, leave_clean
from waypost.store.upgrade import needs_upgrade, remove_leftovers, upgrade

_FIRST_MAP: Final = 1 << 26
_READERS_SIZE: Final = 1 << 13
_RETRY_SECONDS: Final = 0.25
# Interval of checks of the disk without writes.
_LOOK_SECONDS: Final = 1.0
# A key that no record has: it is written and deleted to have a transaction.
_NOBODY: Final = b"\0nobody"
# The owner does not wait longer than this for a flush, if it can be known, and not for more bytes. A flush may have
# been slow for want of the processor, so that the owner tries again when so many times as long has passed.
_QUICK_SECONDS: Final = 0.002
_PATIENCE: Final = 50
_SMALL: Final = 1 << 16


class LmdbStore(LmdbReader, Store):
    """See waypost.store.port.Store. A context manager that closes."""

    def __init__(
        self,
        folder: str | Path,
        notify: Callable[[], None] = lambda: None,
        *,
        max_size: int = MAX_STORE_SIZE,
        reserve: int | None = None,
        on_walk: Progress = unheard,
        on_upgrade: Progress = unheard,
        finishes: bool = False,
    ) -> None:
        """Open the store in `folder`, which is created if it is missing, and upgraded if it has an older format.

        `finishes` if the folder is not finished yet, and this is to finish it.

        The commit thread calls `notify` when `poll` has something to say, and not again before the poll; it shall
        only pass the word on, as `lambda: loop.call_soon_threadsafe(...)` does. The file grows to `max_size` bytes, and
        `reserve` bytes of it are kept for removals; None for a part of the disk.

        After an unclean end the pages of the file are looked at first. `on_walk` hears how many, and of how many.
        """
        self._folder = Path(folder)
        self._notify = notify
        self._max_size = max_size
        self.trouble: StoreError | None = None
        try:
            with ExitStack() as undo:
                self._lock = lock_folder(self._folder, finishes=finishes)
                undo.callback(os.close, self._lock)
                write_holder(self._lock)
                check_before_opening(self._folder, self._lock, on_walk)
                _make_data(self._folder, max_size)
                self._env = _open_upgraded(self._folder, max_size, on_upgrade)
                undo.callback(self._env.close)
                self._tables = _open_tables(self._env, self._folder)
                self._space = Space(self._folder, self._env, max_size, reserve)
                undo.callback(self._space.close)
                self._read_from(self._env.begin())
                undo.pop_all()
        except (OSError, lmdb.Error) as error:
            raise store_error(error, self._folder) from error
        self._unreported = 0
        # Duration of the last small flush, and its time.
        self._flush_seconds = inf
        self._flushed_at = 0.0
        self._pending: SimpleQueue[tuple[Batch, int] | None] = SimpleQueue()
        # Of the two threads, the one that has it writes, and measures what is left.
        self._writing = Lock()
        self.room = self._space.room

        self._changed = Condition()
        # Guarded by _changed: what the commit thread has to say, and what it is told.
        self._ready = False
        self._tokens: list[int] = []
        self._next_snapshot: lmdb.Transaction[bytes] | None = None
        self._next_trouble: StoreError | None = None
        self._troubles: list[StoreError] = []
        self._next_room = self.room
        self._failure: StoreError | None = None
        self._wanted_map = 0
        self._closing = False
        self._stopped = False
        self.is_closed = False

        Thread(target=self._run, name="waypost-commit", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The owner's side.

    def submit(self, batch: Batch, token: int) -> None:
        self._unreported += 1
        self._pending.put((batch, token))

    def commit_if_quick(self, batch: Batch) -> bool:
        """Make a batch durable here and now, and let reads see it, if that does not take long.

        False if it would take long, or something else is pending: then submit it.
        """
        if self._unreported or batch.size > _SMALL or self.trouble is not None:
            return False
        seconds = self._flush_seconds
        if seconds > _QUICK_SECONDS and time.monotonic() < self._flushed_at + _PATIENCE * seconds:
            return False
        if not self._writing.acquire(blocking=False):
            return False
        try:
            if self._space.room.is_low:
                return False
            self._apply(batch.operations, batch.size)
            snapshot = self._env.begin()
            room = self._space.measure(batch.size)
        except lmdb.MapFullError:
            return False
        except lmdb.Error as error:
            with self._changed:
                self._troubles.append(store_error(error, self._folder))
            return False
        finally:
            self._writing.release()
        with self._changed:
            self._show(None)
            self.room = self._next_room = room
        self._snapshot.abort()
        self._read_from(snapshot)
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Block until `poll` has something to say, for at most `timeout` seconds. False if it has not."""
        with self._changed:
            return self._changed.wait_for(lambda: self._ready or self._stopped, timeout)

    def poll(self) -> list[int]:
        with self._changed:
            self._ready = False
            if self._wanted_map:
                self._grow()
            if self._next_snapshot is not None:
                self._snapshot.abort()
                self._read_from(self._next_snapshot)
                self._next_snapshot = None
                if self._next_room.is_low:
                    self._changed.notify_all()
            self.trouble = self._next_trouble
            self.room = self._next_room
            tokens, self._tokens = self._tokens, []
            self._unreported -= len(tokens)
            if self._failure is not None and not tokens:
                raise self._failure
        return tokens

    def take_troubles(self) -> list[StoreError]:
        with self._changed:
            troubles, self._troubles = self._troubles, []
        return troubles

    def commit(self, batch: Batch, token: int) -> list[int]:
        self.submit(batch, token)
        self._serve(lambda: self._next_trouble or len(self._tokens) == self._unreported)
        if self._next_trouble is not None:
            raise OutcomeUnknown(
                f"{self._next_trouble}; the change is kept in memory, and is written when the disk has room again"
            )
        return self.poll()

    def forget_lost_readers(self) -> None:
        """Let what a reader in another process held be used again, if that process was killed.

        Any thread can call it.
        """
        self._env.reader_check()

    def close(self) -> list[int]:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._pending.put(None)
        # An interruption up to here leaves the rest to the next call.
        self._serve(lambda: False)
        if self.is_closed:
            return []
        self._space.close()
        self._env.close()
        self.is_closed = True
        if self._failure is None and not self._is_damaged:
            leave_clean(self._folder, self._lock)
        os.close(self._lock)
        failure, self._failure = self._failure, StoreError(f"{self._folder} is closed")
        tokens, self._tokens = self._tokens, []
        if failure is not None:
            raise failure
        return tokens

    def _serve(self, is_over: Callable[[], object]) -> None:
        """Wait until `is_over` or the commit thread has stopped, and grow the map meanwhile."""
        with self._changed:
            while not (is_over() or self._stopped):
                if self._wanted_map:
                    self._grow()
                else:
                    self._changed.wait()

    def _grow(self) -> None:
        """Give the map the size that the commit thread asks and waits for. Reads then see all that is written."""
        self._snapshot.abort()
        if self._next_snapshot is not None:
            self._next_snapshot.abort()
            self._next_snapshot = None
        try:
            self._env.set_mapsize(self._wanted_map)
            self._read_from(self._env.begin())
        except lmdb.Error as error:
            self._failure = store_error(error, self._folder)
        self._wanted_map = 0
        self._changed.notify_all()

    # The commit thread's side.

    def _run(self) -> None:
        failure: StoreError | None = StoreError(f"{self._folder}: the commit thread has stopped")
        try:
            while group := self._next_group():
                self._write(group)
            failure = None
        except lmdb.Error as error:
            failure = store_error(error, self._folder)
        except StoreError as error:
            failure = error
        finally:
            with self._saying():
                self._failure = failure
                self._stopped = True

    def _next_group(self) -> list[tuple[Batch, int]]:
        """Everything that is pending, up to MAX_COMMIT_BYTES; nothing when the store is to close.

        On a disk that is nearly full, so little that the reserve has pages for it.
        """
        group: list[tuple[Batch, int]] = []
        size = operations = 0
        most = inf
        while size < MAX_COMMIT_BYTES and operations < most and not (group and self._pending.empty()):
            entry = self._wait_for_entry()
            if entry is None:
                self._pending.put(None)
                break
            group.append(entry)
            size += entry[0].size
            operations += len(entry[0])
            most = self._space.most_operations if self._space.room.is_low else inf
        return group

    def _wait_for_entry(self) -> tuple[Batch, int] | None:
        """The next of what is pending. As long as nothing is, look at the disk, which others fill and clear."""
        while True:
            if self._space.has_much:
                # To wait without an end takes less time.
                return self._pending.get()
            try:
                return self._pending.get(timeout=_RETRY_SECONDS if self._space.room.is_low else _LOOK_SECONDS)
            except Empty:
                self._look_at_room()

    def _look_at_room(self) -> None:
        with self._writing:
            before, room = self._space.room, self._space.measure()
            snapshot = self._turn_over() if room.is_low and self._space.awaits_transaction else None
            if snapshot is None and room.is_low is before.is_low and abs(room.free - before.free) < room.reserve:
                return
            # Before the owner can write, which would have a later snapshot.
            with self._saying():
                self._next_room = room
                if snapshot is not None:
                    self._show(snapshot)

    def _wait_for_poll(self) -> None:
        """Let the owner have the last snapshot, for a while: what it reads from keeps pages from being used again."""
        with self._changed:
            self._changed.wait_for(lambda: self._next_snapshot is None or self._closing, _LOOK_SECONDS)

    def _turn_over(self) -> "lmdb.Transaction[bytes] | None":
        """Have a transaction that changes nothing: what the last one freed can be used again after the next poll."""
        with suppress(lmdb.Error):
            with self._env.begin(write=True) as transaction:
                transaction.put(_NOBODY, b"", db=self._tables[Table.COUNTERS])
                transaction.delete(_NOBODY, db=self._tables[Table.COUNTERS])
            return self._env.begin()
        return None

    def _show(self, snapshot: "lmdb.Transaction[bytes] | None") -> None:
        """Let the next poll hand over this snapshot, in place of one that it has not handed over yet."""
        if self._next_snapshot is not None:
            self._next_snapshot.abort()
        self._next_snapshot = snapshot

    def _write(self, group: list[tuple[Batch, int]]) -> None:
        """Make the group durable, however long it takes."""
        if self._space.room.is_low:
            self._wait_for_poll()
        size = 0
        operations: list[Operation] = []
        for batch, _ in group:
            size += batch.size
            operations += batch.operations
        while True:
            try:
                with self._writing:
                    self._apply(operations, size)
                break
            except lmdb.MapFullError as error:
                if self._ask_for_map():
                    continue
                trouble = store_error(error, self._folder)
            except lmdb.Error as error:
                trouble = store_error(error, self._folder)
                if not isinstance(trouble, StoreFull) and error.code != errno.EIO:
                    raise
            if len(group) > 1 and isinstance(trouble, StoreFull):
                # There may be room for some of them.
                for entry in group:
                    self._write([entry])
                return
            self._wait_for_room(trouble)
            self._look_at_room()
        snapshot = self._env.begin()
        with self._writing:
            room = self._space.measure(size)
        with self._saying():
            self._show(snapshot)
            self._next_room = room
            self._next_trouble = None
            self._tokens += [token for _, token in group]

    def _apply(self, operations: list[Operation], size: int) -> None:
        """In whichever of the two threads it is called, the other one does not write. `size` is that of the values."""
        with self._env.begin(write=True) as transaction:
            sealed_tables.apply(transaction, self._tables, operations)
            begun = time.monotonic()
            transaction.commit()
        if size <= _SMALL:
            self._flushed_at = time.monotonic()
            self._flush_seconds = self._flushed_at - begun

    def _ask_for_map(self) -> bool:
        """Have the owner grow the map. False if it is as large as it may be."""
        if self._env.reader_check():
            # The pages of a lost reader may be room enough.
            return True
        size = self._env.info()["map_size"]
        if size >= self._max_size:
            return False
        with self._saying():
            self._wanted_map = min(2 * size, self._max_size)
        with self._changed:
            self._changed.wait_for(lambda: not self._wanted_map)
            if self._failure is not None:
                raise self._failure
        return True

    def _wait_for_room(self, trouble: StoreError) -> None:
        """Say that the disk is full, and come back when another try is due. A store that closes has had its last."""
        with self._saying():
            if str(trouble) != str(self._next_trouble):
                self._troubles.append(trouble)
            self._next_trouble = trouble
            if self._closing:
                raise trouble
        with self._changed:
            self._changed.wait_for(lambda: self._closing, _RETRY_SECONDS)

    @contextmanager
    def _saying(self) -> Iterator[None]:
        """Change what `poll` has to say, and let the owner know that it has."""
        with self._changed:
            yield
            is_news = not self._ready
            self._ready = True
            self._changed.notify_all()
        if is_news and not self._closing:
            self._notify()


def _make_data(folder: Path, max_size: int) -> None:
    """Create the data file if it is missing or empty. It gets its name when it is whole and durable.

    LMDB flushes a file only with its first transaction. After a power failure before that, the file is damaged for all
    that can be told.
    """
    data, new = folder / DATA, folder / NEW_DATA
    if data.exists() and data.stat().st_size:
        return
    new.unlink(missing_ok=True)
    map_size = min(_FIRST_MAP, max_size)
    with lmdb.open(str(new), map_size, subdir=False, lock=False, mode=0o600, max_dbs=len(Table) + 1) as env:
        _open_tables(env, folder)
    os.replace(new, data)
    if sys.platform != "win32":
        flush_folder(folder)


def _open_upgraded(folder: Path, max_size: int, on_upgrade: Progress) -> lmdb.Environment:
    remove_leftovers(folder)
    env = _open_environment(folder, max_size)
    try:
        if needs_upgrade(env, folder):
            upgrade(env, folder, on_upgrade)
            env = _open_environment(folder, max_size)
    except BaseException:
        env.close()
        raise
    return env


def _open_environment(folder: Path, max_size: int) -> lmdb.Environment:
    data, readers = folder / DATA, folder / READERS
    size = data.stat().st_size if data.exists() else 0
    # LMDB maps its table of readers for writing; on a full disk a hole in that file would kill the process.
    if not readers.exists() or readers.stat().st_size < _READERS_SIZE:
        readers.touch(mode=0o600)
        readers.write_bytes(bytes(_READERS_SIZE))
    map_size = min(max(2 * size, _FIRST_MAP), max_size)
    return lmdb.open(str(folder), map_size, mode=0o600, max_dbs=len(Table) + 1, max_spare_txns=4)


def _open_tables(env: lmdb.Environment, folder: Path) -> "list[lmdb._Database]":
    """The tables in the order of Table. Their creation and the mark that the store is ours are one transaction."""
    with env.begin(write=True) as transaction:
        is_new = transaction.stat()["entries"] == 0
        try:
            mark = env.open_db(MARK, transaction, create=is_new)
        except lmdb.NotFoundError:
            raise not_a_store(folder) from None
        if is_new:
            transaction.put(b"format", FORMAT, db=mark)
        format_of(transaction.get(b"format", db=mark), folder)
        tables = [env.open_db(name_of(table), transaction) for table in Table]
    if is_new and sys.platform != "win32":
        for each in (folder, folder.parent):
            flush_folder(each)
    return tables
