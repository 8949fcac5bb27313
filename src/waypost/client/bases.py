"""What a queue and a transaction are on both sides, whether one waits for them or awaits them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from waypost.api.excerpt import excerpt
from waypost.api.names import Name, check_can_be_sent_to, short_name
from waypost.api.properties import MessageProperties
from waypost.client.bodies import Body, encode_bodies, encode_body
from waypost.client.calls import Calls, Seek, milliseconds, sought
from waypost.client.message import Message
from waypost.core.message import Message as CoreMessage
from waypost.core.queues import AccessType, ShareMode
from waypost.drive.new_guid import new_guid
from waypost.errors import InvalidParameter, QueueNotFound, TransactionSequence
from waypost.guid import guid_text
from waypost.node.application import Call, OperationFunction, ReadOptions
from waypost.wire.format_names import FormatName

# What a call is made of: an operation on the queue manager, and what it gets behind the handle.
Request = tuple[OperationFunction, tuple[Any, ...]]


class BaseTransaction:
    """A transaction of one queue manager; `owner` is how it tells its own from others."""

    __slots__ = ("_identifier", "_outcome", "_owner")

    def __init__(self, owner: Calls, identifier: bytes) -> None:
        self._owner: Final = owner
        self._identifier: Final = identifier
        self._outcome = ""

    def __repr__(self) -> str:
        return f"<Transaction {self.id}, {self._outcome or 'open'}>"

    @property
    def id(self) -> str:
        """Its GUID."""
        return guid_text(self._identifier)

    @property
    def is_open(self) -> bool:
        """Whether it can still be used: it is neither committed nor aborted."""
        return not self._outcome

    def identifier_for(self, owner: Calls) -> bytes:
        """The GUID, for an operation of this queue manager. Raises if it cannot take part."""
        if self._owner is not owner:
            raise InvalidParameter("the transaction is one of another queue manager")
        if self._outcome:
            raise TransactionSequence(f"the transaction is {self._outcome}; begin another with manager.transaction()")
        return self._identifier

    def _commit(self, call: Call, identifier: bytes) -> None:
        self._owner.commit(call, identifier)
        self._outcome = "committed"

    def _abort(self, call: Call, identifier: bytes) -> None:
        self._owner.abort(call, identifier)
        self._outcome = "aborted"


class BaseQueue:
    """A queue by its name, with the handles that were opened on it so far."""

    __slots__ = ("_calls", "_handles", "_name", "_peek_access", "_receive_access", "_share")

    def __init__(self, calls: Calls, name: FormatName, *, exclusive: bool = False, outgoing: bool = False) -> None:
        self._calls: Final = calls
        self._name: Final = name
        self._handles: dict[AccessType, int] = {}
        self._share: Final = ShareMode.DENY_RECEIVE if exclusive else ShareMode.DENY_NONE
        self._receive_access: Final = AccessType.RECEIVE_ADMIN if outgoing else AccessType.RECEIVE
        self._peek_access: Final = AccessType.PEEK_ADMIN if outgoing else AccessType.PEEK

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    @property
    def name(self) -> str:
        """The shortest name that means it on this computer: 'orders', 'orders;retry', 'system$;deadletter', ..."""
        return short_name(self._name, self._calls.computer)

    @property
    def format_name(self) -> str:
        """The format name: what other computers call it, if it is a queue of this one."""
        return str(self._name)

    @contextmanager
    def _if_it_is_there(self) -> Iterator[None]:
        try:
            yield
        except QueueNotFound:
            self._forget()
            raise

    def _forget(self) -> None:
        """No queue has this name: who asks for it again gets another object."""
        if self._calls.used.get(self._name) is self:
            del self._calls.used[self._name]

    def _open_request(self, access: AccessType) -> tuple[FormatName, AccessType, ShareMode]:
        if access is AccessType.SEND:
            check_can_be_sent_to(self._name)
        share = self._share if access is self._receive_access else ShareMode.DENY_NONE
        return self._name, access, share

    def _message(self, body: Body, properties: MessageProperties) -> CoreMessage:
        message = self._calls.message(properties)
        message.body, message.body_type = encode_body(body, properties.body_type)
        return message

    def _messages(self, bodies: Iterable[Body], properties: MessageProperties) -> tuple[CoreMessage, list[bytes]]:
        """What they have in common, and their bodies."""
        message = self._calls.message(properties)
        encoded, message.body_type = encode_bodies(bodies, properties.body_type)
        return message, encoded

    def _receive_request(
        self, timeout: float | None, transaction: BaseTransaction | None, lookup_id: int | None, seek: Seek | None
    ) -> Request:
        found = sought(lookup_id, seek)
        options = ReadOptions(milliseconds(timeout), None, identify(transaction, self._calls))
        if found is None:
            return self._calls.application.receive, (options,)
        return self._calls.application.receive_by_lookup_id, (found, options)

    def _receive_many_request(
        self, count: int, timeout: float | None, transaction: BaseTransaction | None
    ) -> Request:  # fmt: skip
        if not isinstance(count, int) or count < 1:
            raise InvalidParameter(f"count is how many messages to receive at most, not {excerpt(count)}")
        options = ReadOptions(milliseconds(timeout), None, identify(transaction, self._calls))
        return self._calls.application.receive_many, (count, options)

    def _peek_request(self, timeout: float | None, lookup_id: int | None, seek: Seek | None) -> Request:
        found = sought(lookup_id, seek)
        options = ReadOptions(milliseconds(timeout))
        if found is None:
            return self._calls.application.peek, (options,)
        return self._calls.application.peek_by_lookup_id, (found,)

    def _move_request(
        self, message: Message | int, to: Name, transaction: BaseTransaction | None
    ) -> tuple[int, FormatName, bytes | None]:
        return _lookup_id(message, "move"), self._calls.name(to), identify(transaction, self._calls)

    def _resend_request(self, message: Message | int, to: Name | None) -> tuple[int, FormatName | None, bytes]:
        name = None if to is None else self._calls.name(to)
        if name is not None:
            check_can_be_sent_to(name)
        return _lookup_id(message, "resend"), name, new_guid()


def _lookup_id(message: Message | int, verb: str) -> int:
    lookup_id = message.lookup_id if isinstance(message, Message) else message
    if not isinstance(lookup_id, int):
        raise InvalidParameter(f"a message to {verb} is a Message or its lookup_id, not {excerpt(message)}")
    return lookup_id


def identify(transaction: BaseTransaction | None, calls: Calls) -> bytes | None:
    """The GUID of the transaction that an operation shall be part of."""
    if transaction is None:
        return None
    if not isinstance(transaction, BaseTransaction):
        raise InvalidParameter(f"a transaction is what manager.transaction() gives, not {excerpt(transaction)}")
    return transaction.identifier_for(calls)
