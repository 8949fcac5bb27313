"""The security descriptors of queues, as this queue manager gives them: MS-MQDMPR 3.1.7.1.3.1."""

from typing import TYPE_CHECKING, Final

from waypost.core.queues import QueueAttributes
from waypost.node.directory import NodeDirectory
from waypost.node.kernel import Kernel
from waypost.security.default_descriptor import QueueCreation, create_default_queue_security_descriptor
from waypost.security.permissions import may_own
from waypost.wire.sid import Sid

if TYPE_CHECKING:
    from waypost.node.users import Users

_NT_AUTHORITY: Final = 5
# MS-DTYP 2.4.2.4: the accounts and groups of a domain or computer, and the groups of every computer.
_ACCOUNTS: Final = frozenset({(21,), (32,)})


class QueueSecurity:
    """Descriptors of new and changed queues. `users` comes with the identity of the queue manager, after its queues."""

    __slots__ = ("_directory", "_is_closed", "_kernel", "users")

    def __init__(self, kernel: Kernel, directory: NodeDirectory, *, is_closed: bool) -> None:
        """`is_closed`: with users, new queues are closed to all but their creator and administrators."""
        self._kernel: Final = kernel
        self._directory: Final = directory
        self._is_closed: Final = is_closed
        self.users: Users | None = None

    @property
    def has_users(self) -> bool:
        """Whether callers differ: without users there is only the local administrator."""
        return bool(self.users)

    def descriptor_of(self, attributes: QueueAttributes, *, receives_srmp: bool) -> bytes:
        """The security descriptor of a queue with these attributes. Raises IllegalSecurityDescriptor.

        The caller of the operation owns a new queue. The embedded directory has no computer accounts, so the descriptor
        has no ACE for the computer.
        """
        creation = QueueCreation(
            self._kernel.caller.sid,
            self._directory.is_domain_user,
            supplied=attributes.security,
            receives_srmp=receives_srmp,
            keeps_owner=self._keeps_owner,
            is_closed=self._is_closed and self.has_users,
        )
        return create_default_queue_security_descriptor(creation)

    def _keeps_owner(self, sid: Sid) -> bool:
        """Whether a queue can have this owner: all that `queue acl` accepts, and groups of older stores."""
        is_user = self.users is not None and self.users.name_of(sid) is not None
        return is_user or may_own(sid) or _is_account(sid)


def _is_account(sid: Sid) -> bool:
    return sid.identifier_authority == _NT_AUTHORITY and sid.sub_authority[:1] in _ACCOUNTS
