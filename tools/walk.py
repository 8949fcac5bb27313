"""Record which functions of the package a piece of work calls in a running daemon: its walk.

`python -m tools.walk OUT serve ...` runs `waypost serve ...` under a profiler that sees every call, also where the
interpreter would run the callee in the frame of its caller. SIGUSR1 begins a recording, and OUT.begun appears; SIGUSR2
ends it, and OUT has the calls. Only the thread of the event loop is recorded, and not the one that commits.

A walk is cut out of what was recorded: from the first callback of the loop that enters the module at which the work
comes in, to the last that does.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "src"
# The number of runs before the recording, so that caches and counters are as in daily life.
WARM_ROUNDS: Final = 3
# The number of recordings: whether the loop or its thread commits depends on the speed of the disk.
ROUNDS: Final = 5
TIMEOUT_SECONDS: Final = 60.0


class Call(NamedTuple):
    """`module` is the file, relative to the package."""

    module: str
    function: str

    @property
    def name(self) -> str:
        return self.function.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Walk:
    """The calls of a piece of work, in their order."""

    calls: tuple[Call, ...]

    @classmethod
    def cut(cls, callbacks: Iterable[Iterable[Call]], door: str) -> "Walk":
        """The events between the first and the last callback that enters the module `door`."""
        rounds = [list(each) for each in callbacks]
        entered = [at for at, calls in enumerate(rounds) if any(call.module == door for call in calls)]
        kept = rounds[entered[0] : entered[-1] + 1] if entered else []
        return cls(tuple(call for calls in kept for call in calls))

    @property
    def modules(self) -> list[str]:
        """Each once, as they are met."""
        return list(dict.fromkeys(call.module for call in self.calls))

    @property
    def changes(self) -> int:
        """The number of calls that go to another module than the one before."""
        return sum(one.module != other.module for one, other in zip(self.calls, self.calls[1:], strict=False))

    def count(self, *functions: tuple[str, str]) -> int:
        """Calls of these functions, each given as module and qualified name."""
        return sum(call in functions for call in self.calls)

    def count_module(self, module: str) -> int:
        return sum(call.module == module for call in self.calls)

    def count_named(self, name: str) -> int:
        return sum(call.name == name for call in self.calls)


class Recorder:
    """Takes down calls, one list for each callback of the event loop."""

    def __init__(self, root: str) -> None:
        self._root: Final = root
        self._depth = 0
        self._on_end: Callable[[], None] | None = None
        self.callbacks: list[list[Call]] = []

    def begin(self) -> None:
        self._depth = 0
        self._on_end = None
        self.callbacks.clear()
        sys.setprofile(self.profile)

    def end(self, then: Callable[[], None]) -> None:
        """End the recording with the callback that is under way. The caller's own frame is one that was begun in it."""
        if self._depth <= 1:
            self._stop(then)
        else:
            self._on_end = then

    def _stop(self, then: Callable[[], None]) -> None:
        sys.setprofile(None)
        then()

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            if self._depth == 0:
                self.callbacks.append([])
            self._depth += 1
            code = frame.f_code
            if code.co_filename.startswith(self._root):
                module = code.co_filename.removeprefix(self._root).replace(os.sep, "/")
                self.callbacks[-1].append(Call(module, code.co_qualname))
        elif event == "return" and self._depth:
            # Calls that began before the recording return too.
            self._depth -= 1
            if not self._depth and self._on_end is not None:
                self._stop(self._on_end)


class Traced:
    """A daemon that runs in this manner, and says where it can be reached."""

    def __init__(self, process: "subprocess.Popen[str]", out: Path) -> None:
        self._process: Final = process
        self._out: Final = out
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"the daemon ended with {process.wait()}")
        self._ready: Final[dict[str, str]] = json.loads(line)

    @property
    def url(self) -> str:
        return f"http://{self._ready['http']}"

    @property
    def transfer(self) -> tuple[str, int]:
        """Address and port for messages."""
        host, _, port = self._ready["transfer"].rpartition(":")
        return host, int(port)

    def walk(self, work: Callable[[], object], door: str) -> Walk:
        """The walk of some work that comes in at the module `door`: the median of several, by calls."""
        for _ in range(WARM_ROUNDS):
            work()
        walks = [self._walk(work, door) for _ in range(ROUNDS)]
        return sorted(walks, key=lambda walk: len(walk.calls))[ROUNDS // 2]

    def _walk(self, work: Callable[[], object], door: str) -> Walk:
        begun = self._out.with_suffix(".begun")
        self._process.send_signal(signal.SIGUSR1)
        self._await(begun)
        work()
        self._process.send_signal(signal.SIGUSR2)
        self._await(self._out)
        recorded = json.loads(self._out.read_text(encoding="utf-8"))
        begun.unlink()
        self._out.unlink()
        return Walk.cut(([Call(*call) for call in callback] for callback in recorded), door)

    def _await(self, path: Path) -> None:
        end = time.monotonic() + TIMEOUT_SECONDS
        while not path.exists():
            if self._process.poll() is not None:
                raise SystemExit(f"the daemon ended with {self._process.returncode}")
            if time.monotonic() > end:
                raise SystemExit(f"the daemon did not write {path} within {TIMEOUT_SECONDS:g} s")
            time.sleep(0.01)


@contextmanager
def traced(bind: str) -> Iterator[Traced]:
    """Start a daemon on free ports of a loopback address, with an empty data folder. It ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "calls.json")
        ports = ("transfer", "ping", "rpc", "qm2qm", "http")
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tools.walk", str(out), "serve", "--data", f"{folder}/data", "--bind", bind),
                *(word for port in ports for word in (f"--{port}-port", "0")),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield Traced(process, out)
        finally:
            process.terminate()
            process.communicate()


def main() -> None:
    """Run `waypost` with the arguments behind the first, which is the file for the calls."""
    out = Path(sys.argv[1])
    recorder = Recorder(str(SOURCE / "waypost") + os.sep)

    def begin(*_: object) -> None:
        # Memory is cleared up at any time: that is not part of the work.
        gc.disable()
        out.with_suffix(".begun").touch()
        recorder.begin()

    def end(*_: object) -> None:
        recorder.end(write)

    def write() -> None:
        gc.enable()
        whole = out.with_suffix(".part")
        whole.write_text(json.dumps(recorder.callbacks), encoding="utf-8")
        whole.rename(out)

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
    sys.path.insert(0, str(SOURCE))
    from waypost.cli import main as waypost  # noqa: PLC0415

    sys.argv = ["waypost", *sys.argv[2:]]
    waypost()


if __name__ == "__main__":
    main()
