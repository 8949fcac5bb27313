"""A simulated application: a script that sends requests, and goes on when each is answered."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import fields

from waypost.api.messages import Copies, Received, Sent
from waypost.api.opened import Handle
from waypost.core.message import Message
from waypost.hresult import HResult
from waypost.sim.operations import Asked
from waypost.sim.violation import Violation

if TYPE_CHECKING:
    from waypost.sim.host import Host


@dataclass(frozen=True, slots=True)
class Ask:
    """A request. A script that does not wait for the answer gets the number of the request."""

    operation: Asked
    waits: bool = True

    def __str__(self) -> str:
        return _text(self.operation)


@dataclass(slots=True)
class Pause:
    seconds: float


@dataclass(slots=True)
class Result:
    """The outcome of an operation. `request` is its number."""

    request: int
    status: HResult = HResult.MQ_OK
    value: object = None

    @property
    def is_ok(self) -> bool:
        return self.status is HResult.MQ_OK

    @property
    def identifier(self) -> str:
        """The id of the opened handle or cursor."""
        if not isinstance(self.value, Handle):
            raise Violation(f"request {self.request}: expected a handle, but found {self.value!r}")
        return self.value.id

    @property
    def messages(self) -> list[Message]:
        """The messages that were sent or read."""
        if not isinstance(self.value, Sent | Received):
            return []
        # All copies of a message to several queues have the same identifier.
        return [each.messages[0] if isinstance(each, Copies) else each for each in self.value.messages]


Script = Generator[Ask | Pause, Result, None]


class Asker(Protocol):
    """A client that sends requests to a host."""

    @property
    def name(self) -> str: ...

    def answered(self, result: Result, /) -> None: ...


M = TypeVar("M", bound="Host[Any]")


class Client(Generic[M]):
    """A client with a script, which ends with the process of its host and starts again with the next, or at its end."""

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
        """Stop without cleaning up."""
        if self._script is not None:
            self._script.close()
            self._script = None

    @property
    def is_done(self) -> bool:
        return self._script is None

    def answered(self, result: Result) -> None:
        self._later(result)

    def _later(self, result: Result | None, seconds: float | None = None) -> None:
        """Go on after this time, or after a random pause."""
        host = self.host
        host.later(host.think() if seconds is None else seconds, lambda: self._go_on(result))

    def _go_on(self, result: Result | None) -> None:
        """Take the next step, and more steps as long as each is answered at once and needs no pause."""
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
            return value.partition(b"\0")[0].decode() if value.startswith(b"<") else value.hex()[:8]
        case Enum():
            return value.name
        case tuple() | list():
            return " ".join(map(_text, value))
        case Struct():
            given = ((each, getattr(value, each.name)) for each in fields(value))
            words = [f"{each.name}={_text(found)}" for each, found in given if found not in (each.default, [])]
            return f"{type(value).__name__}({', '.join(words)})"
    return str(value)
