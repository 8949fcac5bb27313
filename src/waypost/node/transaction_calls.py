"""The operations on transactions of applications, which are known by their GUIDs."""

from contextlib import suppress
from typing import Final

from msgspec import UNSET, UnsetType

from waypost.api.excerpt import excerpt
from waypost.api.opened import TransactionObject
from waypost.api.operations import AbortTransaction, BeginTransaction, CommitTransaction
from waypost.clock import Now
from waypost.errors import DecodeError, InvalidParameter, WaypostError
from waypost.guid import guid_text, parse_guid
from waypost.node.application import Application, Call
from waypost.node.node import Node


class TransactionCalls:
    """Those on one node."""

    __slots__ = ("_application", "_node", "_open")

    def __init__(self, node: Node, application: Application) -> None:
        self._node: Final = node
        self._application: Final = application
        # Those that were begun here and have not ended.
        self._open: Final[dict[str, bytes]] = {}

    def begin(self, call: Call, operation: BeginTransaction) -> None:
        identifier = self._node.new_guid() if operation.id is UNSET else _identifier(operation.id)
        with self._node.operation(call.now):
            self._begin(identifier)
            # Whoever leases it to others knows when it ends.
            self._node.reply(call.request, TransactionObject(guid_text(identifier), ""))

    def commit(self, call: Call, operation: CommitTransaction) -> None:
        self._application.commit(call, self._identifier(operation.identifier))
        self._open.pop(operation.identifier, None)

    def abort(self, call: Call, operation: AbortTransaction) -> None:
        identifier = self._identifier(operation.identifier)
        self._open.pop(operation.identifier, None)
        self._application.abort(call, identifier)

    def joined(self, call: Call, transaction: str | UnsetType, begin_s: float | UnsetType) -> bytes | None:
        """The transaction that an operation is part of, which begins with it if it says so."""
        if transaction is UNSET:
            if begin_s is not UNSET:
                raise InvalidParameter("begin_s needs the id of the transaction to begin")
            return None
        identifier = self._identifier(transaction)
        if begin_s is not UNSET and identifier not in self._node.manager.transactions.collection:
            with self._node.operation(call.now):
                self._begin(identifier)
        return identifier

    def stop(self, now: Now) -> None:
        """Abort what is under way, because the queue manager ends."""
        while self._open:
            _, identifier = self._open.popitem()
            with suppress(WaypostError):
                self._application.abort(Call(0, now), identifier)

    def _begin(self, identifier: bytes) -> None:
        self._node.manager.transactions.create_transaction(identifier)
        self._open[guid_text(identifier)] = identifier

    def _identifier(self, text: str) -> bytes:
        return self._open.get(text) or _identifier(text)


def _identifier(text: str) -> bytes:
    try:
        return parse_guid(text)
    except DecodeError:
        raise InvalidParameter(f"the id of a transaction is a GUID, not {excerpt(text)}") from None
