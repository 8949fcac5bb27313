"""Counters of the RPC server of a queue manager since its start, for metrics."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from waypost.errors import AuthenticationFailed
from waypost.hresult import HResult


class CallResult(Enum):
    """Outcome of a call: an answer with MQ_OK or without a code, another answer, a fault, or a client that has gone."""

    OK = "ok"
    ERROR = "error"
    FAULT = "fault"
    ABANDONED = "abandoned"

    @classmethod
    def of(cls, reply: object) -> "CallResult":
        """That of a call with this answer. Only MQ_OK is a success (readings MQQP 3.7)."""
        return cls.OK if getattr(reply, "hresult", HResult.MQ_OK) == HResult.MQ_OK else cls.ERROR


@dataclass(slots=True)
class RpcStatistics:
    """Each number only grows, but for the first two, which say how many there are now.

    `messages_given_out` are those that were locked for a remote reader; `rundowns` the context handles whose client has
    gone. `faults` are by status, of calls that reached their method and of others.
    """

    connections: int = 0
    open_calls: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0
    binds_refused: int = 0
    authentication_failures: int = 0
    messages_given_out: int = 0
    rundowns: int = 0
    # By interface, method and result.
    calls: Counter[tuple[str, str, CallResult]] = field(default_factory=Counter)
    faults: Counter[int] = field(default_factory=Counter)

    def ended(self, interface: str, method: str, result: CallResult) -> None:
        """A call that was open is so no longer."""
        self.open_calls -= 1
        self.calls[interface, method, result] += 1

    @contextmanager
    def authenticating(self) -> Iterator[None]:
        """Counts a token or a signature that is not right."""
        try:
            yield
        except AuthenticationFailed:
            self.authentication_failures += 1
            raise
