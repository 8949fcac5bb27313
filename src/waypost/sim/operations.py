"""Everything that can be asked of a node in one place, with one form: the Call, then the rest."""

from typing import Final

from waypost.api.operations import Operation
from waypost.core.message import Message
from waypost.node.application import Application, Call
from waypost.node.node import Node
from waypost.node.operation_handlers import Handlers


class Operations(Application):
    """The operations of applications, and those of a coordinator, who is answered with ToCoordinator."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._external: Final = node.external
        self._handlers: Final = Handlers(node)

    def do(self, call: Call, operation: Operation[object]) -> None:
        self._handlers.start(call, operation)

    def cancel_read(self, call: Call, handle: int, request: int) -> None:
        self.cancel(call.now, handle, request)

    def send_several(
        self, call: Call, handle: int, sent: tuple[Message, list[bytes]], transaction: bytes | None
    ) -> None:  # fmt: skip
        like, bodies = sent
        self.send_many(call, handle, like, bodies, transaction=transaction)

    def enlist(self, call: Call, identifier: bytes) -> None:
        with self._node.operation(call.now):
            self._external.enlist(identifier)

    def prepare(self, call: Call, identifier: bytes) -> None:
        with self._node.operation(call.now):
            self._external.dtc_transaction_prepare(identifier, 0, call.now.wall)

    def commit_prepared(self, call: Call, identifier: bytes) -> None:
        with self._node.operation(call.now):
            self._external.dtc_transaction_commit(identifier, call.now.wall)

    def abort_prepared(self, call: Call, identifier: bytes) -> None:
        with self._node.operation(call.now):
            self._external.dtc_transaction_abort(identifier)

    def commit_in_doubt(self, call: Call, identifier: bytes) -> None:
        with self._node.operation(call.now):
            self._external.dtc_reenlistment_commit(identifier, call.now.wall)

    def abort_in_doubt(self, call: Call, identifier: bytes) -> None:
        with self._node.operation(call.now):
            self._external.dtc_reenlistment_abort(identifier)
