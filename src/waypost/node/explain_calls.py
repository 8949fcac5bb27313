"""`explain` of an embedded queue manager, and of the one that a daemon serves."""

from typing import Final

from waypost.api.excerpt import excerpt
from waypost.api.explanation import Explanation
from waypost.api.names import format_name
from waypost.clock import Now
from waypost.errors import DecodeError, InvalidParameter
from waypost.limits import EXPLAIN_WAIT_SECONDS
from waypost.node.application import Call
from waypost.node.explain import Explanation as Told
from waypost.node.explain import explain_message, explain_queue
from waypost.node.node import Node
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier


class ExplainCalls:
    """Each is answered by an Explanation."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node: Final = node

    def explain(self, call: Call, subject: object) -> None:
        """A message by its identifier, or a queue by any of its names."""
        if not isinstance(subject, str):
            raise InvalidParameter(f"what to explain is the id of a message or a queue, not {excerpt(subject)}")
        try:
            identifier = MessageIdentifier.parse(subject)
        except DecodeError:
            self.queue(call, format_name(subject, self._node.manager.identity.computer_name))
        else:
            self.message(call, identifier)

    def queue(self, call: Call, name: FormatName) -> None:
        with self._node.operation(call.now):
            self._reply(call, explain_queue(self._node, name, call.now))

    def message(self, call: Call, identifier: MessageIdentifier) -> None:
        """After a start it waits until all messages can be searched, but not for very long."""
        node = self._node

        def answer(now: Now) -> None:
            self._reply(call, explain_message(node, identifier, now))

        with node.operation(call.now):
            node.index.when_complete(answer, call.now, EXPLAIN_WAIT_SECONDS)

    def _reply(self, call: Call, told: Told) -> None:
        """It promises nothing, so it does not wait for the disk, which may be what is wrong."""
        self._node.messages.read_token = 0
        self._node.reply(call.request, Explanation(bool(told.facts["found"]), tuple(told.sentences), told.facts))
