"""Run programs one after the other and record what they do to the files below a folder.

    python -m tests.power.recorder ROOT TOLD LOG < PROGRAMS

PROGRAMS is a JSON object: rounds by their number, each a program with its arguments. TOLD is their standard output:
what they say there has its place among the writes. The log is pickled into LOG. It runs as a separate process,
because it waits for all children.
"""

import json
import os
import pickle
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.power import ptrace
from tests.power.log import Finished, Flush, Log, Mapped, Named, Over, Resize, Told, Write
from tests.power.ptrace import Call, Tracer

PROJECT: Final = Path(__file__).resolve().parents[2]

_AT_FDCWD: Final = -100
_MAP_SHARED: Final = 1  # also in MAP_SHARED_VALIDATE
_PROT_WRITE: Final = 2
_KEEP_SIZE: Final = 1
_PUNCH_HOLE: Final = 2
_ZERO_RANGE: Final = 0x10
_EXCHANGE: Final = 2
_DATA_SYNC: Final = os.O_DSYNC if sys.platform != "win32" else 0

# A path as the log knows it: the folder that it is in, and its name there.
Place = tuple[int, str]
# The action to take when a call has returned.
After = Callable[[Call], None]


class Recorder:
    """Makes a log of the calls that reach below `root`."""

    def __init__(self, root: Path, told: Path) -> None:
        self.log: Final = Log()
        self._root: Final = os.path.realpath(root)
        self._told: Final = os.path.realpath(told)
        self._last = 0
        self._round = 0
        # By device and inode.
        self._numbers: dict[tuple[int, int], int] = {_identity(os.stat(root)): 0}
        self._after: dict[int, After] = {}
        # Writes that have not returned, each by its position in the log, with the path of its file.
        self._unfinished: dict[int, tuple[Write, str]] = {}
        self._begin: Final[dict[str, Callable[[Call], After | None]]] = {
            "write": lambda call: self._write(call, ptrace.memory(call.thread, *call.args[1:3])),
            "writev": lambda call: self._write(call, _vector(call)),
            "pwrite64": lambda call: self._write(call, ptrace.memory(call.thread, *call.args[1:3]), call.offset(3)),
            "pwritev": lambda call: self._write(call, _vector(call), call.offset(3)),
            "pwritev2": lambda call: self._write(call, _vector(call), call.offset(3)),
            "sendfile": lambda call: self._copied(call, call.signed(0)),
            "copy_file_range": lambda call: self._copied(call, call.signed(2)),
            "open": lambda call: self._open(call, self._path(call, 0), call.signed(1)),
            "openat": lambda call: self._open(call, self._path(call, 1, 0), call.signed(2)),
            "creat": lambda call: self._open(call, self._path(call, 0), os.O_CREAT | os.O_TRUNC),
            "truncate": lambda call: self._truncate(self._path(call, 0), call.offset(1)),
            "ftruncate": lambda call: self._truncate(_link(call.thread, call.signed(0)), call.offset(1)),
            "fallocate": self._allocate,
            "fsync": self._flush,
            "fdatasync": self._flush,
            "rename": lambda call: self._rename(self._path(call, 0), self._path(call, 1)),
            "renameat": lambda call: self._rename(self._path(call, 1, 0), self._path(call, 3, 2)),
            "renameat2": self._rename_with_flags,
            "mkdir": lambda call: self._make(self._path(call, 0)),
            "mkdirat": lambda call: self._make(self._path(call, 1, 0)),
            "rmdir": lambda call: self._unlink(self._path(call, 0)),
            "unlink": lambda call: self._unlink(self._path(call, 0)),
            "unlinkat": lambda call: self._unlink(self._path(call, 1, 0)),
            "link": lambda call: self._link(self._path(call, 0), self._path(call, 1)),
            "linkat": lambda call: self._link(self._path(call, 1, 0), self._path(call, 3, 2)),
            "mmap": self._map,
            # They promise more than is needed here; to leave them out allows more states, not fewer.
            "msync": _nothing,
            "sync": _nothing,
            "syncfs": _nothing,
        }
        self._look()

    def run(self, round_number: int, command: list[str]) -> None:
        """The program, and every process that it starts."""
        self._round = round_number
        tracer = Tracer()
        # The event loop would write files through a ring otherwise, unseen.
        environment = {**os.environ, "UV_USE_IO_URING": "0"}
        with open(self._told, "ab") as told:
            # Not waited for here: the tracer does.
            process = subprocess.Popen(ptrace.command_to_trace(command), stdout=told, cwd=PROJECT, env=environment)
        for call in tracer.follow(process.pid):
            if call.result is None:
                # A thread that is killed in the meantime does not come to what it was about to do.
                self._after.pop(call.thread, None)
                with suppress(ProcessLookupError, FileNotFoundError):
                    after = self._begin[call.name](call)
                    if after is not None:
                        self._after[call.thread] = after
            elif (after := self._after.pop(call.thread, None)) is not None:
                after(call)
        process.returncode = tracer.code
        self._settle()
        self.log.entries.append(Over(self._round, tracer.code))

    def _settle(self) -> None:
        """Look at what the writes of killed threads have done: nothing more comes of them."""
        for position, (write, path) in self._unfinished.items():
            with open(path, "rb") as file:
                there = os.pread(file.fileno(), len(write.data), write.offset)
            same = next(
                (at for at, (is_, was) in enumerate(zip(there, write.data, strict=False)) if is_ != was), len(there)
            )
            write.data = write.data[:same]
            self.log.entries.append(Finished(position))
        self._unfinished.clear()

    # Files that were there

    def _look(self) -> None:
        before = self.log.before
        for folder, folders, files in os.walk(self._root):
            number = self._numbers[_identity(os.stat(folder))]
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                before.names[number, name] = known = self._new(path)
                if name in files:
                    before.files[known] = Path(path).read_bytes()

    # Bytes

    def _write(self, call: Call, data: bytes, offset: int = -1) -> After | None:
        path = _link(call.thread, call.signed(0))
        if path == self._told:
            self.log.entries.append(Told(self._round, data.decode()))
            return None
        file = self._number_of(call.thread, call.signed(0), path)
        if file is None:
            return None
        flags, position = _position(call.thread, call.signed(0))
        if flags & os.O_APPEND:
            offset = _status(call.thread, call.signed(0)).st_size
        elif offset < 0:
            offset = position
        write = Write(file, offset, data, bool(flags & _DATA_SYNC))
        at = len(self.log.entries)
        self.log.entries.append(write)
        self._unfinished[at] = write, path

        def after(done: Call) -> None:
            assert done.result is not None
            del self._unfinished[at]
            write.data = data[: max(done.result, 0)]
            self.log.entries.append(Finished(at))

        return after

    def _copied(self, call: Call, descriptor: int) -> After | None:
        """The bytes are read out of the file when they are there."""
        file = self._number_of(call.thread, descriptor, _link(call.thread, descriptor))
        if file is None:
            return None
        if call.name == "copy_file_range" and call.args[3]:
            raise NotImplementedError("copy_file_range with an explicit offset")
        flags, position = _position(call.thread, descriptor)

        def after(done: Call) -> None:
            assert done.result is not None
            with open(f"/proc/{done.thread}/fd/{descriptor}", "rb") as copy:
                data = os.pread(copy.fileno(), max(done.result, 0), position)
            self.log.entries.append(Write(file, position, data, bool(flags & _DATA_SYNC)))
            self.log.entries.append(Finished(len(self.log.entries) - 1))

        return after

    def _truncate(self, path: str, size: int) -> After | None:
        return self._afterwards(path, lambda file: Resize(file, size))

    def _allocate(self, call: Call) -> After | None:
        descriptor, mode, start, size = call.signed(0), call.signed(1), call.offset(2), call.offset(3)
        path = _link(call.thread, descriptor)
        if self._number_of(call.thread, descriptor, path) is None:
            return None
        if mode & (_PUNCH_HOLE | _ZERO_RANGE) or mode & ~_KEEP_SIZE:
            raise NotImplementedError(f"fallocate with mode {mode:#x}")
        if mode & _KEEP_SIZE or start + size <= _status(call.thread, descriptor).st_size:
            return None
        return self._afterwards(path, lambda file: Resize(file, start + size))

    def _afterwards(self, path: str, entry: Callable[[int], Resize]) -> After | None:
        if not self._is_inside(path):
            return None
        file = self._numbers[_identity(os.stat(path))]

        def after(done: Call) -> None:
            if done.result == 0:
                self.log.entries.append(entry(file))

        return after

    def _flush(self, call: Call) -> After | None:
        path = _link(call.thread, call.signed(0))
        file = self._number_of(call.thread, call.signed(0), path)
        if file is None:
            return None
        begun = len(self.log.entries)

        def after(done: Call) -> None:
            if done.result == 0:
                self.log.entries.append(Flush(file, begun))

        return after

    def _map(self, call: Call) -> After | None:
        if call.signed(4) < 0 or not (call.args[2] & _PROT_WRITE and call.args[3] & _MAP_SHARED):
            return None
        file = self._number_of(call.thread, call.signed(4), _link(call.thread, call.signed(4)))
        if file is not None:
            self.log.entries.append(Mapped(file))
        return None

    # Names

    def _open(self, call: Call, path: str, flags: int) -> After | None:
        if not self._is_inside(path) or not flags & (os.O_CREAT | os.O_TRUNC):
            return None
        was_there = os.path.exists(path)

        def after(done: Call) -> None:
            assert done.result is not None
            if done.result < 0:
                return
            if not was_there:
                self.log.entries.append(Named({self._place(path): self._new(path)}))
            elif flags & os.O_TRUNC:
                self.log.entries.append(Resize(self._numbers[_identity(os.stat(path))], 0))

        return after

    def _make(self, path: str) -> After | None:
        return self._when_done(path, lambda: Named({self._place(path): self._new(path)}))

    def _unlink(self, path: str) -> After | None:
        return self._when_done(path, lambda: Named({self._place(path): None}))

    def _link(self, old: str, new: str) -> After | None:
        return self._when_done(new, lambda: Named({self._place(new): self._numbers[_identity(os.stat(old))]}))

    def _rename(self, old: str, new: str) -> After | None:
        def moved() -> Named:
            # One that comes from outside is new here, with all that is in it.
            number = self._numbers.get(_identity(os.stat(new)))
            if number is None or not self._is_inside(old):
                raise NotImplementedError(f"{old} was renamed into the folder")
            return Named({self._place(old): None, self._place(new): number})

        return self._when_done(new if self._is_inside(new) else old, moved)

    def _rename_with_flags(self, call: Call) -> After | None:
        if call.args[4] & _EXCHANGE:
            raise NotImplementedError("renameat2 that exchanges two names")
        return self._rename(self._path(call, 1, 0), self._path(call, 3, 2))

    def _when_done(self, path: str, entry: Callable[[], Named]) -> After | None:
        if not self._is_inside(path):
            return None

        def after(done: Call) -> None:
            if done.result == 0:
                self.log.entries.append(entry())

        return after

    # Processes and threads

    def _path(self, call: Call, argument: int, folder: int | None = None) -> str:
        descriptor = _AT_FDCWD if folder is None else call.signed(folder)
        name = ptrace.text(call.thread, call.args[argument])
        if not os.path.isabs(name):
            where = f"/proc/{call.thread}/cwd" if descriptor == _AT_FDCWD else f"/proc/{call.thread}/fd/{descriptor}"
            name = os.path.join(os.readlink(where), name)
        # Not what the last part links to: it may be about to be unlinked.
        head, tail = os.path.split(name.rstrip("/"))
        return os.path.join(os.path.realpath(head), tail)

    def _is_inside(self, path: str) -> bool:
        return path.startswith(self._root + "/")

    def _number_of(self, thread: int, descriptor: int, path: str) -> int | None:
        if path != self._root and not self._is_inside(path):
            return None
        return self._numbers[_identity(_status(thread, descriptor))]

    def _place(self, path: str) -> Place:
        head, tail = os.path.split(path)
        return self._numbers[_identity(os.stat(head))], tail

    def _new(self, path: str) -> int:
        """A number for what came to be at `path`, whatever had its inode before."""
        self._last += 1
        status = os.lstat(path)
        self._numbers[_identity(status)] = self._last
        if stat.S_ISDIR(status.st_mode):
            self.log.folders.add(self._last)
        return self._last


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _link(thread: int, descriptor: int) -> str:
    """The path of an open file; nothing if it is not open."""
    try:
        return os.readlink(f"/proc/{thread}/fd/{descriptor}")
    except OSError:
        return ""


def _status(thread: int, descriptor: int) -> os.stat_result:
    return os.stat(f"/proc/{thread}/fd/{descriptor}")


def _position(thread: int, descriptor: int) -> tuple[int, int]:
    """The flags of an open file, and where it is."""
    lines = Path(f"/proc/{thread}/fdinfo/{descriptor}").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["flags"], 8), int(fields["pos"])


def _vector(call: Call) -> bytes:
    return ptrace.vector(call.thread, call.args[1], call.args[2])


def _nothing(call: Call) -> After | None:
    return None


def record(root: Path, place: Path, programs: dict[int, list[str]]) -> Log:
    """The operations of the programs on the files below `root`; `place` gets what they say and the log."""
    arguments = [str(each) for each in (root, place / "told.jsonl", place / "log.pickle")]
    command = [sys.executable, "-m", "tests.power.recorder", *arguments]
    (place / "told.jsonl").touch()
    done = subprocess.run(command, cwd=PROJECT, input=json.dumps(programs), text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    log: Log = pickle.loads((place / "log.pickle").read_bytes())
    return log


def main() -> None:
    root, told, result = map(Path, sys.argv[1:])
    recorder = Recorder(root, told)
    for number, command in json.load(sys.stdin).items():
        recorder.run(int(number), command)
    result.write_bytes(pickle.dumps(recorder.log))


if __name__ == "__main__":
    main()
