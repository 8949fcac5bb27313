"""A simulated application: a script that asks, and goes on when it was answered."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from waypost.hresult import HResult
from waypost.node.application import ReadOptions
from waypost.sim.violation import Violation

if TYPE_CHECKING:
    from waypost.sim.machine import Machine


@dataclass(slots=True)
class Ask:
    """An operation of waypost.sim.desk by its name. Whoever does not wait is told the number of the request."""

    name: str
    arguments: tuple[object, ...] = ()
    options: dict[str, object] = field(default_factory=dict)
    waits: bool = True

    def __str__(self) -> str:
        words = [_text(each) for each in self.arguments]
        words += [f"{name}={_text(value)}" for name, value in self.options.items()]
        return f"{self.name}({', '.join(words)})"


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


class Client:
    """A script ends with the life of its machine, and begins again with the next one, or when it is at its end."""

    __slots__ = ("_make", "_script", "machine", "name")

    def __init__(self, name: str, machine: "Machine", make: "Callable[[Client], Script]") -> None:
        self.name: Final = name
        self.machine: Final = machine
        self._make: Final = make
        self._script: Script | None = None

    def start(self) -> None:
        self._script = self._make(self)
        self.machine.later(self.machine.think(), self._begin)

    def stop(self) -> None:
        """Leave everything as it is."""
        if self._script is not None:
            self._script.close()
            self._script = None

    @property
    def is_done(self) -> bool:
        return self._script is None

    def answered(self, result: Result) -> None:
        self.machine.later(self.machine.think(), lambda: self._go_on(result))

    def _begin(self) -> None:
        if self._script is not None:
            self._do(next(self._script, None))

    def _go_on(self, result: Result) -> None:
        if self._script is None:
            return
        try:
            self._do(self._script.send(result))
        except StopIteration:
            self._do(None)

    def _do(self, step: Ask | Pause | None) -> None:
        if step is None:
            self._script = None
            self.machine.script_ended(self)
        elif isinstance(step, Pause):
            self.machine.later(step.seconds, lambda: self._go_on(Result(0)))
        else:
            result = self.machine.perform(self, step)
            if result is not None:
                self.answered(result)


def _text(value: object) -> str:
    match value:
        case bytes():
            return value.hex()[:8]
        case Enum():
            return value.name
        case tuple():
            return " ".join(map(_text, value))
        case ReadOptions(timeout_ms, cursor, transaction):
            words = ["for ever" if timeout_ms is None else f"{timeout_ms} ms"]
            words += [] if cursor is None else [f"cursor {cursor}"]
            words += [] if transaction is None else [f"in {_text(transaction)}"]
            return " ".join(words)
    return str(value)
