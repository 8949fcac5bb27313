"""Every request to a node: an operation, or one of two records that no interface offers."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from waypost.api.operations import Operation
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.operation_handlers import Handlers


class Phase(Enum):
    """A phase of an external transaction. The last two are for a transaction that was in doubt at a start."""

    ENLIST = "enlist"
    PREPARE = "prepare"
    COMMIT = "commit"
    ABORT = "abort"
    COMMIT_IN_DOUBT = "commit in doubt"
    ABORT_IN_DOUBT = "abort in doubt"


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A request of an external coordinator. The answer is ToCoordinator; in doubt there is none."""

    phase: Phase
    identifier: bytes

    @property
    def is_in_doubt(self) -> bool:
        return self.phase in (Phase.COMMIT_IN_DOUBT, Phase.ABORT_IN_DOUBT)

    def __str__(self) -> str:
        return f"{self.phase.value} {self.identifier.hex()[:8]}"


@dataclass(frozen=True, slots=True)
class CancelRead:
    """End the read with this number, if it waits, as waypost.drive.driver does for a caller that has gone."""

    request: int
    read: Operation[Any]

    def __str__(self) -> str:
        return f"cancel {self.request}"


Asked = Operation[Any] | Coordinate | CancelRead


class Surface:
    """An interface of a node that takes every record."""

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        self._handlers: Final = Handlers(node)

    def start(self, call: Call, asked: Asked) -> None:
        """Start an operation. Raises the error of a refused one."""
        match asked:
            case Coordinate(phase, identifier):
                with self._node.kernel.operation(call.now):
                    self._coordinate(phase, identifier, call.now.wall)
            case CancelRead(request, read):
                self._handlers.cancel(call.now, request, read)
            case _:
                self._handlers.start(call, asked)

    def _coordinate(self, phase: Phase, identifier: bytes, wall: float) -> None:
        external = self._node.external
        match phase:
            case Phase.ENLIST:
                external.enlist(identifier)
            case Phase.PREPARE:
                external.dtc_transaction_prepare(identifier, 0, wall)
            case Phase.COMMIT:
                external.dtc_transaction_commit(identifier, wall)
            case Phase.ABORT:
                external.dtc_transaction_abort(identifier)
            case Phase.COMMIT_IN_DOUBT:
                external.dtc_reenlistment_commit(identifier, wall)
            case Phase.ABORT_IN_DOUBT:
                external.dtc_reenlistment_abort(identifier)
