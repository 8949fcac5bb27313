"""The objects of a queue manager and its queues in the directory: MS-MQDMPR 3.1.1.1 and 3.1.1.2.

Objects are frozen. An update makes another object with the same Identifier, so what was handed out stays as it was, and
what `__post_init__` refuses never is in a directory. `naming_attributes` are those that the directory makes the
distinguished name from: whatever else is published, they are.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, Final

from waypost.core.queues import QueueType
from waypost.directory.attributes import FLAG, GUID, GUIDS, NUMBER, PUBLIC_KEYS, SECURITY, TEXT, closed_set
from waypost.guid import NULL_GUID
from waypost.security.rights import check_rights
from waypost.wire.access_masks import MachineAccess, QueueAccess
from waypost.wire.keys import MqDsPublicKeys
from waypost.wire.path_names import QueueKind
from waypost.wire.property_values import DEFAULT_QUOTA, UNLIMITED, OperatingSystem, QueuePrivacy, Scope
from waypost.wire.security_descriptor import SecurityDescriptor

NO_KEYS: Final = MqDsPublicKeys(())

# The attributes that a directory itself sets.
ASSIGNED: Final = frozenset({"identifier", "create_time", "modify_time", "full_path", "directory_path"})


class DirectoryServerType(IntEnum):
    """MS-MQDMPR 3.1.1.1: what kind of directory service a queue manager provides."""

    STANDALONE = 0
    BACKUP_SITE_CONTROLLER = 1
    PRIMARY_SITE_CONTROLLER = 2
    PRIMARY_ENTERPRISE_CONTROLLER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryObject:
    """Base of all objects: an Identifier that never changes. NULL_GUID: the directory has not given one yet."""

    naming_attributes: ClassVar[tuple[str, ...]] = ()

    identifier: bytes = field(default=NULL_GUID, metadata=GUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueManager(DirectoryObject):
    """MS-MQDMPR 3.1.1.1, the directory attributes. Times are seconds since 1970, quotas kilobytes.

    `directory_server_type` is only meaningful in a queue manager that is a directory server: look at
    `directory_service`.
    """

    naming_attributes: ClassVar[tuple[str, ...]] = ("computer_name",)

    computer_name: str = field(default="", metadata=TEXT)
    queue_manager_version: str = field(default="", metadata=TEXT)
    operating_system_version: str = field(default="", metadata=TEXT)
    operating_system_type: OperatingSystem = field(
        default=OperatingSystem.MSMQ_OS_FOREIGN, metadata=closed_set(OperatingSystem)
    )
    qualified_computer_name: str = field(default="", metadata=TEXT)
    create_time: int = field(default=0, metadata=NUMBER)
    modify_time: int = field(default=0, metadata=NUMBER)
    queue_manager_quota: int = field(default=DEFAULT_QUOTA, metadata=NUMBER)
    journal_quota: int = field(default=UNLIMITED, metadata=NUMBER)
    foreign_system: bool = field(default=False, metadata=FLAG)
    full_path: str = field(default="", metadata=TEXT)
    site_identifier_list: tuple[bytes, ...] = field(default=(), metadata=GUIDS)
    connected_network_identifier_list: tuple[bytes, ...] = field(default=(), metadata=GUIDS)
    out_routing_server_identifier_list: tuple[bytes, ...] = field(default=(), metadata=GUIDS)
    in_routing_server_identifier_list: tuple[bytes, ...] = field(default=(), metadata=GUIDS)
    directory_server: bool = field(default=False, metadata=FLAG)
    remote_access_server: bool = field(default=False, metadata=FLAG)
    routing_server: bool = field(default=False, metadata=FLAG)
    supporting_server: bool = field(default=False, metadata=FLAG)
    directory_server_type: DirectoryServerType = field(
        default=DirectoryServerType.STANDALONE, metadata=closed_set(DirectoryServerType)
    )
    public_encryption_key_list: MqDsPublicKeys = field(default=NO_KEYS, metadata=PUBLIC_KEYS)
    public_signing_key_list: MqDsPublicKeys = field(default=NO_KEYS, metadata=PUBLIC_KEYS)
    security: SecurityDescriptor | None = field(default=None, metadata=SECURITY)
    clustered: bool = field(default=False, metadata=FLAG)

    def __post_init__(self) -> None:
        check_rights(self.security, MachineAccess.MQSEC_MACHINE_GENERIC_ALL)

    @property
    def directory_service(self) -> DirectoryServerType | None:
        """DirectoryServerType, or None in a queue manager that provides no directory service."""
        return self.directory_server_type if self.directory_server else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue(DirectoryObject):
    """MS-MQDMPR 3.1.1.2, the directory attributes. `queue_type` is not published: what is, is public.

    `private_queue_number` counts for a private queue, and `multicast_address` is "" without one.
    """

    naming_attributes: ClassVar[tuple[str, ...]] = ("pathname",)

    # A constant and no directory attribute; the other value belongs to MS-MQDS.
    scope: ClassVar[Scope] = Scope.MQDS_ENTERPRISESCOPE

    label: str = field(default="", metadata=TEXT)
    create_time: int = field(default=0, metadata=NUMBER)
    modify_time: int = field(default=0, metadata=NUMBER)
    type_guid: bytes = field(default=NULL_GUID, metadata=GUID)
    pathname: str = field(default="", metadata=TEXT)
    qualified_pathname: str = field(default="", metadata=TEXT)
    private_queue_number: int = field(default=0, metadata=NUMBER)
    journaling: bool = field(default=False, metadata=FLAG)
    quota: int = field(default=UNLIMITED, metadata=NUMBER)
    journal_quota: int = field(default=UNLIMITED, metadata=NUMBER)
    authentication: bool = field(default=False, metadata=FLAG)
    privacy_level: QueuePrivacy = field(
        default=QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL, metadata=closed_set(QueuePrivacy)
    )  # fmt: skip
    transactional: bool = field(default=False, metadata=FLAG)
    multicast_address: str = field(default="", metadata=TEXT)
    security: SecurityDescriptor | None = field(default=None, metadata=SECURITY)
    base_priority: int = field(default=0, metadata=NUMBER)
    full_path: str = field(default="", metadata=TEXT)
    directory_path: str = field(default="", metadata=TEXT)
    queue_type: QueueType = QueueKind.PUBLIC

    def __post_init__(self) -> None:
        check_rights(self.security, QueueAccess.MQSEC_QUEUE_GENERIC_ALL)

    @property
    def computer_name(self) -> str:
        """QueueManager.ComputerName: MS-MQDSSM 2.2.1 finds a queue below the computer of its path."""
        return self.pathname.partition("\\")[0]
