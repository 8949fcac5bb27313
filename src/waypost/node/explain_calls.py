"""The operation that explains why a message, or the messages of a queue, do not move."""

from typing import Final

from waypost.api.explanation import Explanation
from waypost.api.names import format_name
from waypost.api.operations import Explain
from waypost.clock import Now
from waypost.errors import InvalidParameter
from waypost.limits import EXPLAIN_WAIT_SECONDS
from waypost.node.explain import ExplanationDraft, explain_message, explain_queue
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier


class ExplainCalls:
    """Explanations of one node."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node: Final = node

    def explain(self, call: Call, operation: Explain) -> None:
        """Explain a message by its identifier, or a queue by any of its names."""
        if bool(operation.message) is bool(operation.queue):
            raise InvalidParameter("set either `message` or `queue`")
        if operation.message:
            self._message(call, MessageIdentifier.parse(operation.message))
        else:
            self._queue(call, format_name(operation.queue, self._node.manager.identity.computer_name))

    def _queue(self, call: Call, name: FormatName) -> None:
        with self._node.kernel.operation(call.now):
            self._reply(call, explain_queue(self._node, name, call.now))

    def _message(self, call: Call, identifier: MessageIdentifier) -> None:
        """Explain a message. After a start, wait a limited time until all messages are searchable."""
        node = self._node

        def answer(now: Now) -> None:
            self._reply(call, explain_message(node, identifier, now))

        with node.kernel.operation(call.now):
            node.index.when_complete(answer, call.now, EXPLAIN_WAIT_SECONDS)

    def _reply(self, call: Call, told: ExplanationDraft) -> None:
        """Reply without waiting for the disk, which may be the cause: the answer promises nothing."""
        self._node.messages.read_token = 0
        self._node.kernel.reply(call.request, Explanation(tuple(told.sentences), dict(told.facts)))
