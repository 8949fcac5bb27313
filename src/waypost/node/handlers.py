"""What is done for each operation: one handler a type of record.

A handler gets the Call and the record, and leads to one Reply, of the type that the operation names, or one Failure. It
raises what it refuses before anything has changed.
"""

from collections.abc import Callable
from typing import Final, Never, TypeVar

from waypost.api.operations import (
    AdmitAddress,
    DeleteQueue,
    Explain,
    ForgetDamaged,
    ListAdmitted,
    ListDamaged,
    ListQueues,
    ListSequences,
    Operation,
    PauseQueue,
    ResetSequences,
    ResumeQueue,
    RevokeAddress,
    ShowQueue,
)
from waypost.node.application import Call
from waypost.node.damage_calls import DamageCalls
from waypost.node.explain_calls import ExplainCalls
from waypost.node.node import Node
from waypost.node.queue_calls import QueueCalls
from waypost.node.sequence_calls import SequenceCalls

O = TypeVar("O", bound=Operation[object])  # noqa: E741, an operation


class Handlers:
    """Those of one node."""

    __slots__ = ("_by_type",)

    def __init__(self, node: Node) -> None:
        # Nothing is sure of what any of them takes, but that it is the record of its key: `_on` sees to it.
        self._by_type: Final[dict[type[Operation[object]], Callable[[Call, Never], None]]] = {}
        queues, sequences, damage = QueueCalls(node), SequenceCalls(node), DamageCalls(node)
        self._on(ListQueues, queues.list_queues)
        self._on(ShowQueue, queues.show)
        self._on(DeleteQueue, queues.delete)
        self._on(PauseQueue, queues.pause)
        self._on(ResumeQueue, queues.resume)
        self._on(ListSequences, sequences.list_sequences)
        self._on(ResetSequences, sequences.reset)
        self._on(AdmitAddress, sequences.admit)
        self._on(RevokeAddress, sequences.revoke)
        self._on(ListAdmitted, sequences.admitted)
        self._on(Explain, ExplainCalls(node).explain)
        self._on(ListDamaged, damage.list_damaged)
        self._on(ForgetDamaged, damage.forget)

    def start(self, call: Call, operation: Operation[object]) -> None:
        """Raises what the handler refuses."""
        self._by_type[type(operation)](call, operation)  # type: ignore[arg-type]  # the type of its key

    @property
    def types(self) -> set[type[Operation[object]]]:
        """The operations that there are handlers for."""
        return set(self._by_type)

    def _on(self, kind: type[O], handler: Callable[[Call, O], None]) -> None:
        self._by_type[kind] = handler
