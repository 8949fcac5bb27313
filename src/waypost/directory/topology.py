"""The other objects of the directory: MS-MQDMPR 3.1.1.6 to 3.1.1.9, 3.1.1.15, 3.1.1.19, and distribution lists."""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from waypost.core.message import DEFAULT_TIME_TO_REACH_QUEUE
from waypost.directory.attributes import (
    CERTIFICATES,
    FLAG,
    FORMAT_NAMES,
    GUID,
    GUIDS,
    NUMBER,
    PUBLIC_KEYS,
    SECURITY,
    SID,
    TEXT,
)
from waypost.directory.objects import NO_KEYS, DirectoryObject, QueueManager
from waypost.errors import InvalidParameter
from waypost.guid import NULL_GUID, guid_text
from waypost.security.rights import check_rights
from waypost.wire.access_masks import ConnectedNetworkAccess, EnterpriseAccess, SiteAccess
from waypost.wire.certificates import MqUserSignCerts, digest_of
from waypost.wire.format_names import FormatName
from waypost.wire.keys import MqDsPublicKeys
from waypost.wire.security_descriptor import SecurityDescriptor
from waypost.wire.sid import Sid

MIN_ACTUAL_COST: Final = 1
MAX_ACTUAL_COST: Final = 999_999


@dataclass(frozen=True, slots=True, kw_only=True)
class Enterprise(DirectoryObject):
    """MS-MQDMPR 3.1.1.6. `default_time_to_live` is in seconds."""

    name: str = field(default="", metadata=TEXT)
    weakened_security: bool = field(default=False, metadata=FLAG)
    non_ldap_capable_queue_manager_notification: bool = field(default=False, metadata=FLAG)
    default_time_to_live: int = field(default=DEFAULT_TIME_TO_REACH_QUEUE, metadata=NUMBER)
    old_directory: bool = field(default=False, metadata=FLAG)
    security: SecurityDescriptor | None = field(default=None, metadata=SECURITY)

    def __post_init__(self) -> None:
        check_rights(self.security, EnterpriseAccess.MQSEC_ENTERPRISE_GENERIC_ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site(DirectoryObject):
    """MS-MQDMPR 3.1.1.7. `primary_site_controller` is a NetBIOS name; the intervals are seconds."""

    naming_attributes: ClassVar[tuple[str, ...]] = ("name",)

    name: str = field(default="", metadata=TEXT)
    primary_site_controller: str = field(default="", metadata=TEXT)
    intra_site_replication_interval: int = field(default=0, metadata=NUMBER)
    inter_site_replication_interval: int = field(default=0, metadata=NUMBER)
    full_path: str = field(default="", metadata=TEXT)
    foreign_site: bool = field(default=False, metadata=FLAG)
    public_signing_key_list: MqDsPublicKeys = field(default=NO_KEYS, metadata=PUBLIC_KEYS)
    migrated_from_msmq10: bool = field(default=False, metadata=FLAG)
    security: SecurityDescriptor | None = field(default=None, metadata=SECURITY)
    site_gate_collection: tuple[QueueManager, ...] = ()

    def __post_init__(self) -> None:
        check_rights(self.security, SiteAccess.MQSEC_SITE_GENERIC_ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingLink(DirectoryObject):
    """MS-MQDMPR 3.1.1.8. The references and the collection are not published, and agree with the identifiers."""

    naming_attributes: ClassVar[tuple[str, ...]] = ("site1_identifier", "site2_identifier")

    description: str = field(default="", metadata=TEXT)
    full_path: str = field(default="", metadata=TEXT)
    actual_cost: int = field(default=MIN_ACTUAL_COST, metadata=NUMBER)
    site1_identifier: bytes = field(default=NULL_GUID, metadata=GUID)
    site2_identifier: bytes = field(default=NULL_GUID, metadata=GUID)
    site_gate_identifier_list: tuple[bytes, ...] = field(default=(), metadata=GUIDS)
    site1_reference: Site | None = None
    site2_reference: Site | None = None
    site_gate_collection: tuple[QueueManager, ...] = ()

    def __post_init__(self) -> None:
        if not MIN_ACTUAL_COST <= self.actual_cost <= MAX_ACTUAL_COST:
            raise InvalidParameter(f"the cost must be {MIN_ACTUAL_COST} to {MAX_ACTUAL_COST}, not {self.actual_cost}")
        _check_reference(self.site1_reference, self.site1_identifier)
        _check_reference(self.site2_reference, self.site2_identifier)
        for gate in self.site_gate_collection:
            check_listed(gate, self.site_gate_identifier_list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedNetwork(DirectoryObject):
    """MS-MQDMPR 3.1.1.9."""

    naming_attributes: ClassVar[tuple[str, ...]] = ("name",)

    name: str = field(default="", metadata=TEXT)
    security: SecurityDescriptor | None = field(default=None, metadata=SECURITY)

    def __post_init__(self) -> None:
        check_rights(self.security, ConnectedNetworkAccess.SEC_CN_GENERIC_ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class User(DirectoryObject):
    """MS-MQDMPR 3.1.1.15. The digests go with the certificates, one by one; one who reads either has only that."""

    naming_attributes: ClassVar[tuple[str, ...]] = ("security_identifier",)

    security_identifier: Sid | None = field(default=None, metadata=SID)
    certificate_digest_list: tuple[bytes, ...] = field(default=(), metadata=GUIDS)
    certificates: MqUserSignCerts = field(default=MqUserSignCerts(()), metadata=CERTIFICATES)

    @classmethod
    def with_certificates(cls, security_identifier: Sid, certificates: MqUserSignCerts) -> "User":
        return cls(
            security_identifier=security_identifier,
            certificate_digest_list=_digests_of(certificates),
            certificates=certificates,
        )

    def __post_init__(self) -> None:
        digests, certificates = self.certificate_digest_list, self.certificates
        if digests and certificates.certificates and digests != _digests_of(certificates):
            raise InvalidParameter("the digests do not match the certificates")


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionList(DirectoryObject):
    """A distribution list, DL=... of MS-MQMQ 2.1.5: a group of MS-MQDSSM 3.1.6.9, as the names of its members.

    MS-MQDMPR has no such object; the embedded directory adds it.
    """

    naming_attributes: ClassVar[tuple[str, ...]] = ("identifier",)

    elements: tuple[FormatName, ...] = field(default=(), metadata=FORMAT_NAMES)


def check_listed(item: DirectoryObject, identifiers: tuple[bytes, ...]) -> None:
    """Raises InvalidParameter unless the object may be in the collection that goes with a list of identifiers."""
    if item.identifier not in identifiers:
        raise InvalidParameter(f"{guid_text(item.identifier)} is not in the list of identifiers")


def _check_reference(item: DirectoryObject | None, identifier: bytes) -> None:
    if item is not None and item.identifier != identifier:
        raise InvalidParameter(
            f"the site must have the GUID {guid_text(identifier)}, but has the GUID {guid_text(item.identifier)}"
        )


def _digests_of(certificates: MqUserSignCerts) -> tuple[bytes, ...]:
    return tuple(digest_of(each.certificate) for each in certificates.certificates)
