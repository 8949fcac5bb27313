"""Everything that can be asked of a node in one place, with one form: the Call, then the rest."""

from typing import Final

from waypost.api.operations import Operation
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.operation_handlers import Handlers


class Operations:
    """What waypost.drive.driver can ask of it, and what a coordinator can, who is answered with ToCoordinator."""

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        self._external: Final = node.external
        self._handlers: Final = Handlers(node)

    def do(self, call: Call, operation: Operation[object]) -> None:
        self._handlers.start(call, operation)

    def cancel_read(self, call: Call, request: int, operation: Operation[object]) -> None:
        """End the read with this number, if it waits."""
        self._handlers.cancel(call.now, request, operation)

    def enlist(self, call: Call, identifier: bytes) -> None:
        with self._node.kernel.operation(call.now):
            self._external.enlist(identifier)

    def prepare(self, call: Call, identifier: bytes) -> None:
        with self._node.kernel.operation(call.now):
            self._external.dtc_transaction_prepare(identifier, 0, call.now.wall)

    def commit_prepared(self, call: Call, identifier: bytes) -> None:
        with self._node.kernel.operation(call.now):
            self._external.dtc_transaction_commit(identifier, call.now.wall)

    def abort_prepared(self, call: Call, identifier: bytes) -> None:
        with self._node.kernel.operation(call.now):
            self._external.dtc_transaction_abort(identifier)

    def commit_in_doubt(self, call: Call, identifier: bytes) -> None:
        with self._node.kernel.operation(call.now):
            self._external.dtc_reenlistment_commit(identifier, call.now.wall)

    def abort_in_doubt(self, call: Call, identifier: bytes) -> None:
        with self._node.kernel.operation(call.now):
            self._external.dtc_reenlistment_abort(identifier)
