"""The security descriptor of a queue, as this queue manager knows it: MS-MQDMPR 3.1.7.1.3.1."""

from waypost.core.queues import QueueAttributes
from waypost.node.directory import NodeDirectory
from waypost.security.default_descriptor import QueueCreation, create_default_queue_security_descriptor
from waypost.wire.sid import ANONYMOUS


def queue_security(attributes: QueueAttributes, directory: NodeDirectory, *, receives_srmp: bool) -> bytes:
    """The security descriptor of a new queue with these attributes. Raises IllegalSecurityDescriptor.

    The engine does not know the caller, so a queue without an owner belongs to the anonymous user. The embedded
    directory has no computer accounts, so the descriptor has no ACE for the computer.
    """
    creation = QueueCreation(
        ANONYMOUS, directory.is_domain_user, supplied=attributes.security, receives_srmp=receives_srmp
    )
    return create_default_queue_security_descriptor(creation)
