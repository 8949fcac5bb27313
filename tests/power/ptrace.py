"""The system calls of other processes, by Linux's ptrace(2).

PTRACE_GET_SYSCALL_INFO says the same on every processor; only the numbers of the calls differ.
"""

import ctypes
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import Final

_TRACE_ME: Final = 0
_GO_ON: Final = 24  # PTRACE_SYSCALL
_SET_OPTIONS: Final = 0x4200
_GET_SYSCALL_INFO: Final = 0x420E
# Mark the stops of system calls, follow fork, vfork, clone and exec, and let no process outlive its tracer.
_OPTIONS: Final = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 1 << 20
_WAIT_FOR_THREADS: Final = 0x40000000  # __WALL
_SYSCALL_STOP: Final = signal.SIGTRAP | 0x80 if sys.platform != "win32" else 0

_ENTRY: Final = 1
_EXIT: Final = 2
_INFO: Final = Struct("<B3xIQQ7Q")
_RESULT: Final = Struct("<B3xIQQq")
_VECTOR: Final = Struct("<QQ")

# The number of each call that can change a file. aarch64 has the numbers of all newer processors.
_X86_64: Final = {
    "write": 1, "open": 2, "mmap": 9, "pwrite64": 18, "writev": 20, "msync": 26, "sendfile": 40, "fsync": 74,
    "fdatasync": 75, "truncate": 76, "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86,
    "unlink": 87, "sync": 162, "openat": 257, "mkdirat": 258, "unlinkat": 263, "renameat": 264, "linkat": 265,
    "fallocate": 285, "pwritev": 296, "syncfs": 306, "renameat2": 316, "copy_file_range": 326, "pwritev2": 328,
}  # fmt: skip
_AARCH64: Final = {
    "mkdirat": 34, "unlinkat": 35, "linkat": 37, "renameat": 38, "truncate": 45, "ftruncate": 46, "fallocate": 47,
    "openat": 56, "write": 64, "writev": 66, "pwrite64": 68, "pwritev": 70, "sendfile": 71, "sync": 81, "fsync": 82,
    "fdatasync": 83, "mmap": 222, "msync": 227, "syncfs": 267, "renameat2": 276, "copy_file_range": 285,
    "pwritev2": 287,
}  # fmt: skip
_CALLS: Final = {"x86_64": _X86_64, "aarch64": _AARCH64}

# Lets itself be traced, waits for its tracer, and becomes the program.
_STUB: Final = (
    "import ctypes, os, signal, sys; "
    f"ctypes.CDLL(None).ptrace({_TRACE_ME}, 0, 0, 0) and sys.exit('ptrace is refused'); "
    "os.kill(os.getpid(), signal.SIGSTOP); os.execv(sys.argv[1], sys.argv[1:])"
)
_ASK: Final = f"import ctypes, sys; sys.exit(-ctypes.CDLL(None).ptrace({_TRACE_ME}, 0, 0, 0))"


@cache
def why_not() -> str:
    """The reason why this process cannot trace others here, or nothing."""
    if not sys.platform.startswith("linux"):
        return "the writes of a process are recorded with Linux's ptrace"
    if platform.machine() not in _CALLS:
        return f"the numbers of the system calls of {platform.machine()} are not known"
    release = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
    if release < (5, 3):
        return f"Linux {platform.release()} has no PTRACE_GET_SYSCALL_INFO"
    if subprocess.run([sys.executable, "-c", _ASK], check=False).returncode:
        return "ptrace is refused to processes here, as in some containers"
    return ""


@dataclass(slots=True)
class Call:
    """A system call that a thread begins. `result` is None until it returns, negative for an error."""

    thread: int
    name: str
    args: tuple[int, ...]
    result: int | None = None

    def signed(self, index: int) -> int:
        """An argument that is an int."""
        return ctypes.c_int(self.args[index] & 0xFFFFFFFF).value

    def offset(self, index: int) -> int:
        """An argument that is an off_t."""
        return ctypes.c_longlong(self.args[index]).value


def command_to_trace(command: list[str]) -> list[str]:
    return [sys.executable, "-c", _STUB, *command]


class Tracer:
    """Follows a process that waits in the stub, with all its threads and children, in the thread that started it."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.restype = ctypes.c_long
        self._libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self._names = {number: name for name, number in _CALLS[platform.machine()].items()}
        self._info = ctypes.create_string_buffer(128)
        # Those that have stopped once, and what each is in the middle of.
        self._known: set[int] = set()
        self._calls: dict[int, Call] = {}
        self.code = 0

    def follow(self, first: int) -> Iterator[Call]:
        """Each of the calls twice: when it begins, and when it has returned. The thread stands still meanwhile."""
        while True:
            try:
                thread, status = os.waitpid(-1, _WAIT_FOR_THREADS)
            except ChildProcessError:
                return
            if not os.WIFSTOPPED(status):
                self._known.discard(thread)
                self._calls.pop(thread, None)
                if thread == first:
                    self.code = os.waitstatus_to_exitcode(status)
                continue
            word = os.WSTOPSIG(status)
            deliver = 0
            if thread not in self._known:
                # The stop of the stub, or that with which every new thread and child begins.
                self._known.add(thread)
                if thread == first:
                    self._ptrace(_SET_OPTIONS, thread, None, _OPTIONS)
            elif word == _SYSCALL_STOP:
                call = self._call(thread)
                if call is not None:
                    yield call
            elif word != signal.SIGTRAP or not status >> 16:
                deliver = word
            self._ptrace(_GO_ON, thread, None, deliver)

    def _call(self, thread: int) -> Call | None:
        self._ptrace(_GET_SYSCALL_INFO, thread, len(self._info), ctypes.addressof(self._info))
        operation, _, _, _, number, *args = _INFO.unpack_from(self._info.raw)
        if operation == _ENTRY:
            name = self._names.get(number)
            if name is None:
                return None
            self._calls[thread] = Call(thread, name, tuple(args))
            return self._calls[thread]
        call = self._calls.pop(thread, None)
        if call is not None and operation == _EXIT:
            (_, _, _, _, call.result) = _RESULT.unpack_from(self._info.raw)
        return call

    def _ptrace(self, request: int, thread: int, address: int | None, data: int | None) -> None:
        # A thread that was killed meanwhile is heard of again by waitpid.
        if self._libc.ptrace(request, thread, address, data) == -1 and ctypes.get_errno() != 3:
            raise OSError(ctypes.get_errno(), f"ptrace({request:#x})")


def memory(thread: int, address: int, size: int) -> bytes:
    file = os.open(f"/proc/{thread}/mem", os.O_RDONLY)
    try:
        return os.pread(file, size, address)
    finally:
        os.close(file)


def text(thread: int, address: int) -> str:
    """The path that ends with a null byte at this address."""
    found = b""
    while b"\0" not in found:
        at = address + len(found)
        # Not beyond the page, behind which there may be nothing.
        found += memory(thread, at, min(256, 4096 - at % 4096))
    return os.fsdecode(found.partition(b"\0")[0])


def vector(thread: int, address: int, amount: int) -> bytes:
    """The bytes that an array of struct iovec names."""
    pairs = memory(thread, address, amount * _VECTOR.size)
    return b"".join(memory(thread, *_VECTOR.unpack_from(pairs, at)) for at in range(0, len(pairs), _VECTOR.size))
