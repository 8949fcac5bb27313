"""The operations on the rights on a queue: show and change them."""

from contextlib import suppress
from dataclasses import replace
from typing import Final

from msgspec import UNSET

from waypost.api import permissions as shown
from waypost.api.excerpt import excerpt
from waypost.api.names import format_name
from waypost.api.operations import SetAcl, ShowAcl
from waypost.clock import Now
from waypost.core.queues import OutgoingQueue, Queue
from waypost.errors import (
    AccessDenied,
    DecodeError,
    EncodeError,
    IllegalSecurityDescriptor,
    InvalidParameter,
    UnsupportedFormatName,
)
from waypost.node.access import queue_name
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.queue_info import queue_named
from waypost.security.permissions import (
    FULL,
    Changes,
    changed,
    check_given,
    entries,
    is_changeable,
    mask_of,
    may_own,
    with_denied_first,
    with_queue_rights,
    words_of,
)
from waypost.security.rights import check_rights
from waypost.wire.access_masks import QueueAccess, SecurityInformation
from waypost.wire.path_names import QueueKind
from waypost.wire.sddl import parse_sddl, sddl
from waypost.wire.security_descriptor import SecurityDescriptor
from waypost.wire.sid import ADMINISTRATORS, Sid

_SHOWN: Final = (
    SecurityInformation.OWNER_SECURITY_INFORMATION
    | SecurityInformation.GROUP_SECURITY_INFORMATION
    | SecurityInformation.DACL_SECURITY_INFORMATION
)


class PermissionCalls:
    """Operations on the rights of one node."""

    __slots__ = ("_access", "_node")

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        self._access: Final = node.access

    def show(self, call: Call, operation: ShowAcl) -> None:
        queue = self._queue(operation.name)
        self._access.check(call.caller, queue, QueueAccess.MQSEC_GET_QUEUE_PERMISSIONS)
        with self._node.kernel.operation(call.now):
            self._node.kernel.reply(call.request, self._acl(self._descriptor(queue)))

    def set(self, call: Call, operation: SetAcl) -> None:
        queue = self._queue(operation.name)
        before = self._descriptor(queue)
        after = self._after(before, operation)
        if after.owner is not None and after.owner != before.owner:
            self._check_owner(after.owner)
        self._check(call, queue, before, after)
        if not operation.force and not is_changeable(after, self._access.is_known):
            error = AccessDenied(
                "nothing was changed, because after this change, no known account could change the rights on "
                f"{queue_name(queue)}"
            )
            error.add_note(
                "also grant `full` or `set-permissions` to an account, such as `administrators:full`, or use --force"
            )
            raise error
        self._node.kernel.check_store()
        with self._node.kernel.operation(call.now):
            attributes = replace(queue.attributes, security=after.encode())
            self._node.manager.modify_queue(queue, attributes, call.now)
            self._node.kernel.notice(
                "rights changed", queue=queue_name(queue), who=call.caller.name, origin=call.caller.origin
            )
            self._node.kernel.reply(call.request, self._acl(self._descriptor(queue)))

    def _check(self, call: Call, queue: Queue, before: SecurityDescriptor, after: SecurityDescriptor) -> None:
        if after.owner != before.owner:
            self._access.check(call.caller, queue, QueueAccess.MQSEC_TAKE_QUEUE_OWNERSHIP)
        if after.dacl != before.dacl or after.owner == before.owner:
            self._access.check(call.caller, queue, QueueAccess.MQSEC_CHANGE_QUEUE_PERMISSIONS)

    def _check_owner(self, owner: Sid) -> None:
        """Raise InvalidParameter for an owner that is not an account: everybody would be the owner."""
        if not may_own(owner) and not self._access.is_account(owner):
            who = self._access.name_of(owner)
            error = InvalidParameter(f"{who} is not an account, so {who} cannot own a queue")
            error.add_note("the owner must be a user, a group, `administrators` or the SID of an account")
            raise error

    def _after(self, before: SecurityDescriptor, operation: SetAcl) -> SecurityDescriptor:
        """The descriptor after a change. Raises IllegalSddl, IllegalSecurityDescriptor and InvalidParameter."""
        is_in_words = bool(operation.grant or operation.deny or operation.revoke or operation.owner)
        if operation.sddl is UNSET:
            if not is_in_words:
                raise InvalidParameter("no change is specified: specify `grant`, `deny`, `revoke`, `owner` or `sddl`")
            return changed(before, self._changes(operation))
        if is_in_words:
            raise InvalidParameter("`sddl` is not allowed together with `grant`, `deny`, `revoke` or `owner`")
        given = with_denied_first(with_queue_rights(parse_sddl(operation.sddl, self._node.machine)))
        check_rights(given, QueueAccess.MQSEC_QUEUE_GENERIC_ALL)
        check_given(given)
        if given.dacl is None:
            if given.owner is None:
                raise IllegalSecurityDescriptor("the SDDL must contain an access list (D:) or an owner (O:)")
            return replace(before, owner=given.owner)
        return replace(given, owner=given.owner or before.owner, sacl=before.sacl)

    def _changes(self, operation: SetAcl) -> Changes:
        return Changes(
            revoke=tuple(map(self._sid, operation.revoke)),
            owner=self._sid(operation.owner) if operation.owner else None,
            deny=tuple(map(self._entry, operation.deny)),
            grant=tuple(map(self._entry, operation.grant)),
        )

    def _entry(self, text: str) -> tuple[Sid, int]:
        who, colon, rights = text.rpartition(":")
        if not colon or not who:
            raise InvalidParameter(
                f"rights must be given as `WHO:RIGHT,RIGHT`, such as `alice:send`, not {excerpt(text)}"
            )
        return self._sid(who), mask_of([word.strip() for word in rights.split(",")])

    def _sid(self, who: str) -> Sid:
        try:
            found = self._access.sid_of(who)
        except DecodeError as error:
            raise InvalidParameter(f"{excerpt(who)} is not a SID: {error.reason}") from error
        if found is None:
            unknown = InvalidParameter(f"{excerpt(who)} is not a user, a group or a SID")
            unknown.add_note(
                "`waypost user list` shows the users; `everyone`, `anonymous` and `administrators` always exist"
            )
            raise unknown
        return found

    def _queue(self, text: str) -> Queue:
        name = format_name(text, self._node.manager.identity.computer_name)
        queue = queue_named(self._node.manager, name)
        is_own = queue.parent is None and queue.queue_type is not QueueKind.SYSTEM and not queue.is_internal
        if isinstance(queue, OutgoingQueue) or not is_own:
            raise UnsupportedFormatName(
                f"{name} does not have separate rights: a subqueue or a journal uses the rights of its queue, and a "
                "system queue or an outgoing queue uses the rights of the computer (security.machine)"
            )
        return queue

    def _descriptor(self, queue: Queue) -> SecurityDescriptor:
        data = self._node.directory.security_of(queue)
        try:
            return SecurityDescriptor.decode(data) if data else SecurityDescriptor()
        except DecodeError as error:
            raise IllegalSecurityDescriptor(f"the security descriptor of {queue} is damaged: {error}") from error

    def _acl(self, descriptor: SecurityDescriptor) -> shown.Acl:
        try:
            text = sddl(descriptor.select(_SHOWN))
        except EncodeError:
            text = ""
        return shown.Acl(
            owner="" if descriptor.owner is None else self._access.name_of(descriptor.owner),
            sddl=text,
            entries=[
                shown.AclEntry(
                    who=self._access.name_of(entry.sid),
                    sid=str(entry.sid),
                    allow=entry.allow,
                    rights=words_of(entry.mask),
                )
                for entry in entries(descriptor)
            ],
        )


def grant_administrators(node: Node, now: Now) -> None:
    """Give administrators all rights on every queue: without users, the local administrator was everyone."""
    full = Changes(grant=((ADMINISTRATORS, int(FULL)),))
    for queue in tuple(node.manager.queues.values()):
        if queue.parent is not None or not queue.attributes.security:
            continue
        with suppress(DecodeError):
            after = changed(SecurityDescriptor.decode(queue.attributes.security), full)
            node.manager.modify_queue(queue, replace(queue.attributes, security=after.encode()), now)
