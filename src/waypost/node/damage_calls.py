"""The operations on messages that were damaged on disk and set aside (ADR 30)."""

from datetime import UTC, datetime
from typing import Final

from waypost.api.damaged import DamagedInfo, DamagedPage, Forgotten
from waypost.api.excerpt import excerpt
from waypost.api.operations import ForgetDamaged, ListDamaged
from waypost.core.damaged_message import DamagedMessage
from waypost.errors import InvalidParameter
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.security.callers import Role, check_role


class DamageCalls:
    """Operations on damaged messages of one node."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node: Final = node

    def list_damaged(self, call: Call, operation: ListDamaged) -> None:
        try:
            start = bytes.fromhex(operation.after)
        except ValueError:
            raise InvalidParameter(
                f"`after` must be the `next` value of an earlier page, not {excerpt(operation.after)}"
            ) from None
        if operation.with_bytes:
            # They are the bytes of messages, and no descriptor says any more who may read them.
            check_role(call.caller, Role.ADMIN, "to read the bytes of damaged messages")
        with self._node.kernel.operation(call.now):
            self._node.kernel.await_everything()
            found, following = self._node.damaged.page(start, with_bytes=bool(operation.with_bytes))
            page = DamagedPage(tuple(map(_info, found)), "" if following is None else following.hex())
            self._node.kernel.reply(call.request, page)

    def forget(self, call: Call, _: ForgetDamaged) -> None:
        self._node.kernel.check_store()
        with self._node.kernel.operation(call.now):
            count = self._node.damaged.forget(self._node.messages.batch)
            count += self._node.stages.delivery.damaged.forget(self._node.messages.batch)
            self._node.kernel.reply(call.request, Forgotten(count))


def _info(message: DamagedMessage) -> DamagedInfo:
    return DamagedInfo(
        queue=message.queue,
        lookup_text=str(message.lookup_id),
        time=datetime.fromtimestamp(message.time, UTC),
        reason=message.reason,
        message_id=message.message_id,
        has_bytes=message.has_bytes,
        data=message.data,
    )
