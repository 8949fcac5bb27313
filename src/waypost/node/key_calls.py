"""The operations about keys and certificates: the shell performs them, because they are about files."""

from contextlib import suppress
from typing import Final

from waypost.api.excerpt import excerpt
from waypost.api.operations import Operation
from waypost.errors import DecodeError, InvalidParameter
from waypost.node.effects import KeyOperation
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.wire.sid import Sid


class KeyCalls:
    """Key operations on one node."""

    __slots__ = ("_kernel", "_node")

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        self._kernel: Final = node.kernel

    def perform(self, call: Call, operation: Operation[object]) -> None:
        def reply(call: Call, result: object) -> None:
            self._kernel.reply(call.request, result)

        user, sid = self._user(call, getattr(operation, "user", ""))
        self._kernel.ask_keys_for(call, KeyOperation(operation, user, sid, self._names()), reply)

    def _user(self, call: Call, name: str) -> tuple[str, Sid]:
        """The user that the operation names; "" is the caller, and a SID is also that of a user of another computer."""
        if not name:
            return call.caller.name, call.caller.sid
        user, administrator = self._node.users.find(name), self._node.administrator
        if user is not None:
            return user.name, Sid.parse(user.sid)
        if name.lower() == administrator.name:
            return administrator.name, administrator.sid
        with suppress(DecodeError):
            return name, Sid.parse(name)
        raise InvalidParameter(f"the user {excerpt(name)} does not exist; see waypost user list")

    def _names(self) -> dict[str, str]:
        administrator = self._node.administrator
        names = {user.sid: user.name for user in self._node.users.all()}
        return {str(administrator.sid): administrator.name, **names}
