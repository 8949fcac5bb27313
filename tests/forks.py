"""Processes of Python programs without the seconds of loading them: a process that has loaded the modules is forked.

    process = start("waypost.cli", "serve", "--data", "DIR", stdout=subprocess.PIPE)

It is `python -m MODULE WORDS` in a real process: with its own arguments, environment, folder and streams, to be
stopped with signals and killed. Only its command line is another one for the system. Python reads the variables PYTHON*
when it starts: with others than those of the tests, a process is not forked. tests/cli/test_serve.py and the documents
start the program from nothing.

A process of tests has one server of forks, a child that starts with the first of these processes and ends with it.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Final, NoReturn, Self

from typer.testing import CliRunner

from waypost.cli import app

ROOT: Final = Path(__file__).resolve().parents[1]
SECONDS: Final = 60

# Daemons, and the commands that talk to them.
_LOADED: Final = (
    "encodings.idna",
    "waypost.cli.serving",
    "waypost.cli.store_backup",
    "waypost.client.backups.copying",
    "waypost.client.connecting",
    "waypost.client.storage.salvaging",
    "waypost.client.storage.verifying",
)
_VERBS: Final = ("queue", "send", "receive", "message", "sequence", "store", "status", "serve")
# Bytes of a request: a system hands over no more words and variables in one go.
_LARGEST: Final = 1 << 18
# That of the server. Tests change the one of their process.
_ENVIRONMENT: Final = dict(os.environ)


class Forked:
    """Has the part of subprocess.Popen that tests need."""

    def __init__(self, server: "_Server", request: list[object], *streams: int | IO[bytes] | None) -> None:
        self.args = request[:2]
        self.returncode: int | None = None
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        self._status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        given = [self._stream(number, each) for number, each in enumerate(streams)]
        with theirs:
            server.ask(json.dumps(request).encode(), [*(end for end, _ in given), theirs.fileno()])
        for end, is_ours in given:
            if is_ours:
                os.close(end)
        told = self._hear(SECONDS)
        assert told is not None, f"{self.args} does not start"
        self.pid: int = told

    def _stream(self, number: int, given: int | IO[bytes] | None) -> tuple[int, bool]:
        """The end of the other process, and whether it is open here only for that."""
        name = ("stdin", "stdout", "stderr")[number]
        match given:
            case None:
                return number, False
            case subprocess.DEVNULL:
                return os.open(os.devnull, os.O_RDWR), True
            case subprocess.PIPE:
                reading, writing = os.pipe()
                theirs, ours, mode = (writing, reading, "rb") if number else (reading, writing, "wb")
                setattr(self, name, os.fdopen(ours, mode))
                return theirs, True
            case int():
                return given, False
            case _:
                return given.fileno(), False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def _hear(self, timeout: float | None) -> int | None:
        """A number from the server of forks, or nothing in time."""
        if not select.select([self._status], [], [], timeout)[0]:
            return None
        told = self._status.recv(32)
        assert told, "the server of forks has ended"
        return int(told)

    def poll(self) -> int | None:
        if self.returncode is None:
            self._end(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._end(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(str(self.args), timeout or 0)
        return self.returncode

    def _end(self, timeout: float | None) -> None:
        self.returncode = self._hear(timeout)
        if self.returncode is not None:
            self._status.close()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    module: str,
    *words: str,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] | None = None,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
) -> "Forked | subprocess.Popen[bytes]":
    """Streams that are not given are those of the tests."""
    environment = dict(os.environ if env is None else env)
    server = _server()
    if server.python != _python(environment):
        command = [sys.executable, "-m", module, *words]
        return subprocess.Popen(command, cwd=cwd, env=environment, stdin=stdin, stdout=stdout, stderr=stderr)
    return Forked(server, [module, words, str(cwd), environment], stdin, stdout, stderr)


def run(
    module: str, *words: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None, timeout: float = SECONDS
) -> "subprocess.CompletedProcess[str]":
    """Run it to its end, with an empty standard input, and keep what it writes."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(module, *words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess([module, *words], code, out.read().decode(), err.read().decode())


def _python(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that Python reads when it starts."""
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


class _Server:
    """The server of forks, as its parent sees it."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.python = _python(_ENVIRONMENT)
        self._lock = threading.Lock()
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _LARGEST)
        with theirs:
            self._child = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=ROOT,
                env=_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._stop)

    def ask(self, request: bytes, files: list[int]) -> None:
        with self._lock:
            socket.send_fds(self._connection, [request], files)

    def _stop(self) -> None:
        if os.getpid() == self.process:
            self._connection.close()
            self._child.wait()


_servers: Final[list[_Server]] = []
_starting: Final = threading.Lock()


def _server() -> _Server:
    """That of this process: a fork of the tests starts another one."""
    with _starting:
        if not _servers or _servers[-1].process != os.getpid():
            _servers.append(_Server())
        return _servers[-1]


def _serve(connection: socket.socket) -> tuple[str, list[str]]:
    """Fork until nobody asks any more. Returns only in a child: its module and its words."""
    children: dict[int, socket.socket] = {}
    waking, woken = socket.socketpair()
    for end in (waking, woken):
        end.setblocking(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken.fileno())
    while True:
        asked, ended = (each in select.select([connection, waking], [], [])[0] for each in (connection, waking))
        if ended:
            waking.recv(4096)
            _report(children)
        if not asked:
            continue
        request, files, _, _ = socket.recv_fds(connection, 2 * _LARGEST, 4)
        if not request:
            sys.exit()
        *streams, status = files
        child = os.fork()
        if child:
            children[child] = socket.socket(fileno=status)
            with suppress(OSError):
                children[child].send(str(child).encode())
            for stream in streams:
                os.close(stream)
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        module, words, folder, environment = json.loads(request)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        _renew_streams()
        for each in (connection, waking, woken, *children.values()):
            each.detach()
        os.closerange(3, max(files) + 64)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        return module, words


def _renew_streams() -> None:
    """As Python makes them: they remember what is a terminal, and where one can seek."""
    old = sys.stdin, sys.stdout, sys.stderr
    kinds = [(each.encoding, each.errors) for each in old]
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, "w" if number else "r", -1 if number < 2 else 1, *kind, newline="\n", closefd=False)  # noqa: SIM115
        for number, kind in enumerate(kinds)
    )


def _report(children: dict[int, socket.socket]) -> None:
    """Tell of those that have ended."""
    while children:
        child, status = os.waitpid(-1, os.WNOHANG)
        if not child:
            return
        # The program that asked for it may be gone.
        with children.pop(child) as asked, suppress(OSError):
            asked.send(str(os.waitstatus_to_exitcode(status)).encode())


def _main() -> NoReturn:
    gc.disable()
    for module in _LOADED:
        import_module(module)
    # A command loads more when it runs.
    for verb in _VERBS:
        assert CliRunner().invoke(app, [verb, "--help"]).exit_code == 0
    gc.freeze()
    gc.enable()
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads is not whole when it is forked"
    module, words = _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = [module, *words]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code: object = None
    except SystemExit as end:
        code = end.code
    _end(code)
    sys.exit(code)  # type: ignore[arg-type]


def _end(code: object) -> None:
    """As Python ends, without clearing up every module, which takes longer than most commands."""
    if threading.active_count() > 1 or not isinstance(code, int | None):
        return
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code or 0)


if __name__ == "__main__":
    _main()
