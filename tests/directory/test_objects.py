"""The objects of MS-MQDMPR 3.1.1: their attributes, what they refuse, and whom they refer to."""

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from tests.directory.rig import guid
from waypost.directory.attributes import codecs_of
from waypost.directory.objects import DirectoryObject, DirectoryServerType, Queue, QueueManager
from waypost.directory.records import OBJECT_TYPES
from waypost.directory.topology import ConnectedNetwork, Enterprise, RoutingLink, Site, User
from waypost.errors import IllegalSecurityDescriptor, InvalidParameter
from waypost.guid import NULL_GUID
from waypost.wire.access_masks import (
    ConnectedNetworkAccess,
    EnterpriseAccess,
    MachineAccess,
    QueueAccess,
    SiteAccess,
)
from waypost.wire.certificates import MqUserSignCert, MqUserSignCerts
from waypost.wire.keys import KeyType, MqDsPublicKey, MqDsPublicKeys, ProviderType, PublicKeyBlob
from waypost.wire.property_values import Scope
from waypost.wire.security_descriptor import (
    ACCESS_ALLOWED_ACE_TYPE,
    SYSTEM_AUDIT_ACE_TYPE,
    AccessAce,
    Acl,
    NullAcl,
    OpaqueAce,
    SecurityDescriptor,
)
from waypost.wire.sid import EVERYONE, Sid


def published(object_type: type[DirectoryObject]) -> set[str]:
    return set(codecs_of(object_type)) - {"identifier"}


def descriptor(mask: int) -> SecurityDescriptor:
    return SecurityDescriptor(dacl=Acl(aces=(AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, mask, EVERYONE),)))


Secured = type[QueueManager] | type[Queue] | type[Enterprise] | type[Site] | type[ConnectedNetwork]


def refuses_all_but(object_type: Secured, rights: int) -> None:
    """Each bit alone: one of the set is taken, any other is refused, granted or audited."""
    for bit in range(32):
        security = descriptor(1 << bit)
        if rights & 1 << bit:
            assert object_type(security=security).security == security
        else:
            audited = SecurityDescriptor(sacl=Acl(aces=(AccessAce(SYSTEM_AUDIT_ACE_TYPE, 0, 1 << bit, EVERYONE),)))
            for each in (security, audited):
                with pytest.raises(IllegalSecurityDescriptor, match=f"0x{1 << bit:08X}"):
                    object_type(security=each)
    object_type(security=SecurityDescriptor(dacl=NullAcl.NULL_ACL))


@pytest.mark.spec("MQDMPR-3.1.1.1-15")
def test_a_queue_manager_has_only_the_rights_of_mqqmaccessmask() -> None:
    refuses_all_but(QueueManager, 0xF00F7)
    QueueManager(security=descriptor(MachineAccess.MQSEC_CREATE_QUEUE | MachineAccess.MQSEC_PEEK_DEADLETTER_MESSAGE))


@pytest.mark.spec("MQDMPR-3.1.1.2-12")
def test_a_queue_has_only_the_rights_of_mqqueueaccessmask() -> None:
    refuses_all_but(Queue, 0xF003F)
    Queue(security=descriptor(QueueAccess.MQSEC_WRITE_MESSAGE | QueueAccess.MQSEC_RECEIVE_MESSAGE))


@pytest.mark.spec("MQDMPR-3.1.1.6-04")
def test_an_enterprise_has_only_the_rights_of_mqentaccessmask() -> None:
    refuses_all_but(Enterprise, 0xF0037)
    Enterprise(security=descriptor(EnterpriseAccess.MQSEC_CREATE_SITE))


@pytest.mark.spec("MQDMPR-3.1.1.7-03")
def test_a_site_has_only_the_rights_of_mqsiteaccessmask() -> None:
    refuses_all_but(Site, 0xF0037)
    Site(security=descriptor(SiteAccess.MQSEC_CREATE_MACHINE))


@pytest.mark.spec("MQDMPR-3.1.1.9-01")
def test_a_connected_network_publishes_a_name_and_a_descriptor_with_the_rights_of_mqcnaccessmask() -> None:
    assert published(ConnectedNetwork) == {"name", "security"}
    refuses_all_but(ConnectedNetwork, 0xF0031)
    ConnectedNetwork(name="net", security=descriptor(ConnectedNetworkAccess.MQSEC_CN_OPEN_CONNECTOR))


def test_an_ace_whose_rights_are_unknown_is_refused() -> None:
    security = SecurityDescriptor(dacl=Acl(aces=(OpaqueAce(0x09, 0, b"\x01\x00\x00\x00"),)))
    with pytest.raises(IllegalSecurityDescriptor, match="type 9"):
        Queue(security=security)


def test_an_object_is_frozen_and_so_is_its_identifier() -> None:
    for object_type in OBJECT_TYPES.values():
        item = object_type(identifier=guid(1))
        with pytest.raises(FrozenInstanceError):
            item.identifier = guid(2)  # type: ignore[misc]


@pytest.mark.spec("MQDMPR-3.1.1.1-07")
def test_what_a_queue_manager_is_besides_is_published_as_booleans() -> None:
    names = {"foreign_system", "remote_access_server", "routing_server", "clustered"}
    assert names <= published(QueueManager)
    new = QueueManager()
    assert [getattr(new, name) for name in sorted(names)] == [False] * 4
    assert replace(new, foreign_system=True).foreign_system


@pytest.mark.spec("MQDMPR-3.1.1.1-12")
def test_the_kind_of_directory_service_is_told_only_of_a_directory_server() -> None:
    assert {each.name for each in DirectoryServerType} == {
        "STANDALONE", "BACKUP_SITE_CONTROLLER", "PRIMARY_SITE_CONTROLLER", "PRIMARY_ENTERPRISE_CONTROLLER",
    }  # fmt: skip
    for kind in DirectoryServerType:
        assert QueueManager(directory_server=True, directory_server_type=kind).directory_service is kind
        assert QueueManager(directory_server=False, directory_server_type=kind).directory_service is None


@pytest.mark.spec("MQDMPR-3.1.1.1-13")
def test_a_queue_manager_does_not_serve_dependent_clients_by_default() -> None:
    assert not QueueManager().supporting_server


def key_list() -> MqDsPublicKeys:
    key = PublicKeyBlob.from_numbers(KeyType.CALG_RSA_KEYX, 65537, (1 << 511) + 1)
    return MqDsPublicKeys(
        (MqDsPublicKey(ProviderType.PROV_RSA_FULL, "Microsoft Base Cryptographic Provider v1.0", key),)
    )


@pytest.mark.spec("MQDMPR-3.1.1.2-15")
def test_the_scope_of_a_queue_is_the_enterprise_and_nothing_that_is_published() -> None:
    assert Queue().scope is Scope.MQDS_ENTERPRISESCOPE
    assert "scope" not in published(Queue)
    with pytest.raises(TypeError):
        replace(Queue(), scope=Scope.MQDS_SITESCOPE)  # type: ignore[call-arg]


@pytest.mark.spec("MQDMPR-3.1.1.6-01")
def test_an_enterprise_publishes_its_six_attributes() -> None:
    assert published(Enterprise) == {
        "name",
        "weakened_security",
        "non_ldap_capable_queue_manager_notification",
        "default_time_to_live",
        "old_directory",
        "security",
    }
    assert Enterprise(default_time_to_live=90).default_time_to_live == 90


@pytest.mark.spec("MQDMPR-3.1.1.7-02")
def test_a_site_publishes_its_attributes_and_keeps_its_gates_to_itself() -> None:
    assert published(Site) == {
        "name",
        "primary_site_controller",
        "intra_site_replication_interval",
        "inter_site_replication_interval",
        "full_path",
        "foreign_site",
        "public_signing_key_list",
        "migrated_from_msmq10",
        "security",
    }
    site = Site(site_gate_collection=(QueueManager(computer_name="gate"),), public_signing_key_list=key_list())
    assert site.site_gate_collection[0].computer_name == "gate"
    assert "site_gate_collection" in {each.name for each in fields(Site)}


@pytest.mark.spec("MQDMPR-3.1.1.8-01")
def test_the_cost_of_a_link_is_1_to_999999() -> None:
    for cost in (1, 2, 999_999):
        assert RoutingLink(actual_cost=cost).actual_cost == cost
    for cost in (-1, 0, 1_000_000):
        with pytest.raises(InvalidParameter, match="cost"):
            RoutingLink(actual_cost=cost)


@pytest.mark.spec("MQDMPR-3.1.1.8-02")
def test_a_link_refers_to_the_two_sites_that_it_names() -> None:
    assert {"description", "full_path", "site1_identifier", "site2_identifier"} <= published(RoutingLink)
    assert published(RoutingLink).isdisjoint({"site1_reference", "site2_reference", "site_gate_collection"})
    one, two = Site(identifier=guid(1)), Site(identifier=guid(2))
    link = RoutingLink(
        site1_identifier=guid(1), site2_identifier=guid(2), site1_reference=one, site2_reference=two
    )  # fmt: skip
    assert (link.site1_reference, link.site2_reference) == (one, two)
    with pytest.raises(InvalidParameter, match=r"the site must have the GUID .*, but has the GUID"):
        replace(link, site1_reference=two)
    with pytest.raises(InvalidParameter, match=r"the site must have the GUID .*, but has the GUID"):
        replace(link, site2_reference=one)


@pytest.mark.spec("MQDMPR-3.1.1.8-03")
def test_the_gates_of_a_link_are_those_that_it_lists() -> None:
    gate = QueueManager(identifier=guid(3))
    assert RoutingLink(site_gate_identifier_list=(guid(4), guid(3)), site_gate_collection=(gate,))
    with pytest.raises(InvalidParameter, match="not in the list"):
        RoutingLink(site_gate_identifier_list=(guid(4),), site_gate_collection=(gate,))


# RFC 1321 A.5: the MD5 of "abc" and of "message digest".
ABC = bytes.fromhex("900150983cd24fb0d6963f7d28e17f72")
MESSAGE_DIGEST = bytes.fromhex("f96b697d7cb7938d525a2f31aaf161d0")


@pytest.mark.spec("MQDMPR-3.1.1.15-01")
def test_the_digests_of_a_user_are_the_md5_of_the_certificates_one_by_one() -> None:
    certificates = MqUserSignCerts(
        (MqUserSignCert.of(NULL_GUID, b"abc"), MqUserSignCert.of(NULL_GUID, b"message digest"))
    )  # fmt: skip
    user = User.with_certificates(EVERYONE, certificates)
    assert user.certificate_digest_list == (ABC, MESSAGE_DIGEST)
    for wrong in ((MESSAGE_DIGEST, ABC), (ABC,), (ABC, MESSAGE_DIGEST, ABC), (ABC, b"\0" * 16)):
        with pytest.raises(InvalidParameter, match="digests"):
            replace(user, certificate_digest_list=wrong)


def test_a_user_publishes_a_sid_and_certificates() -> None:
    assert published(User) == {"security_identifier", "certificate_digest_list", "certificates"}
    assert User(security_identifier=Sid(5, (21, 1))).security_identifier == Sid(5, (21, 1))
