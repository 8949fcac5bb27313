"""A simulated application: a script that asks, and goes on when it was answered."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any, Final, Generic, Protocol, TypeVar

from waypost.api.operations import Operation
from waypost.hresult import HResult
from waypost.node.application import ReadOptions
from waypost.node.node import Node
from waypost.sim.violation import Violation


class Argument(ABC):
    """An argument that the engine knows under another form."""

    __slots__ = ()

    @abstractmethod
    def to_engine(self, node: Node) -> object: ...


@dataclass(slots=True)
class Ask:
    """An operation of waypost.sim.operations by its name. Whoever does not wait is told the number of the request."""

    name: str
    arguments: tuple[object, ...] = ()
    options: dict[str, object] = field(default_factory=dict)
    waits: bool = True

    def __str__(self) -> str:
        words = [_text(each) for each in self.arguments]
        words += [f"{name}={_text(value)}" for name, value in self.options.items()]
        return f"{self.name}({', '.join(words)})"


def do(operation: Operation[Any]) -> Ask:
    """An operation as a record, as every surface hands it to the engine."""
    return Ask("do", (operation,))


@dataclass(slots=True)
class Pause:
    seconds: float


@dataclass(slots=True)
class Result:
    """How an operation ended. `request` is its number."""

    request: int
    status: HResult = HResult.MQ_OK
    value: object = None

    @property
    def is_ok(self) -> bool:
        return self.status is HResult.MQ_OK

    @property
    def number(self) -> int:
        """The handle or the cursor that was opened."""
        if not isinstance(self.value, int):
            raise Violation(f"request {self.request} was answered with {self.value!r} instead of a number")
        return self.value


Script = Generator[Ask | Pause, Result, None]


class Asker(Protocol):
    """Whoever asks a host for something."""

    @property
    def name(self) -> str: ...

    def answered(self, result: Result, /) -> None: ...


class Workplace(Protocol):
    """A host as its clients know it."""

    @property
    def rng(self) -> Random: ...

    def think(self) -> float: ...

    def later(self, delay: float, action: Callable[[], None], /) -> None: ...

    def perform(self, client: "Client[Any]", ask: Ask, /) -> Result | None: ...

    def script_ended(self, client: "Client[Any]", /) -> None: ...


M = TypeVar("M", bound=Workplace)


class Client(Generic[M]):
    """A script ends with the life of its host, and begins again with the next one, or when it is at its end."""

    __slots__ = ("_make", "_script", "host", "name")

    def __init__(self, name: str, host: M, make: "Callable[[Client[M]], Script]") -> None:
        self.name: Final = name
        self.host: Final = host
        self._make: Final = make
        self._script: Script | None = None

    def start(self) -> None:
        self._script = self._make(self)
        self._later(None)

    def stop(self) -> None:
        """Leave everything as it is."""
        if self._script is not None:
            self._script.close()
            self._script = None

    @property
    def is_done(self) -> bool:
        return self._script is None

    def answered(self, result: Result) -> None:
        self._later(result)

    def _later(self, result: Result | None, seconds: float | None = None) -> None:
        """Go on in a while: after this time, or some thinking."""
        host = self.host
        host.later(host.think() if seconds is None else seconds, lambda: self._go_on(result))

    def _go_on(self, result: Result | None) -> None:
        """Take the next step, and more of them as long as they are answered at once and take no thinking."""
        while self._script is not None:
            try:
                # A generator is sent None to begin.
                step = self._script.send(result)  # type: ignore[arg-type]
            except StopIteration:
                self._script = None
                self.host.script_ended(self)
                return
            if isinstance(step, Pause):
                self._later(Result(0), step.seconds)
                return
            result = self.host.perform(self, step)
            if result is None:
                return
            if self.host.rng.random() < 0.5:
                self._later(result)
                return


def _text(value: object) -> str:
    match value:
        case bytes():
            return value.hex()[:8]
        case Enum():
            return value.name
        case tuple():
            return " ".join(map(_text, value))
        case ReadOptions(timeout_ms, cursor, transaction):
            words = ["without end" if timeout_ms is None else f"{timeout_ms} ms"]
            words += [] if cursor is None else [f"cursor {cursor}"]
            words += [] if transaction is None else [f"in {_text(transaction)}"]
            return " ".join(words)
    return str(value)
