"""MS-MQDMPR 3.1.3, the collections of 3.1.1.1, and the updates of 3.1.6.1 and 3.1.6.2."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.x509 import load_der_x509_certificate

from tests.directory.rig import ME, NOT_CONNECTED, OK, SOMEBODY, START, Rig, guid
from waypost.core.system import Identity
from waypost.directory.effects import FindDirectoryServers, LocalQueueManagerRefreshed
from waypost.directory.initialization import Provisioning, initialize
from waypost.directory.internal_certificates import InternalCertificate, issue_internal_certificate
from waypost.directory.local import HostNames, LocalQueueManager
from waypost.directory.objects import QueueManager
from waypost.directory.port import Access
from waypost.directory.timers import Periods, Timer
from waypost.directory.topology import ConnectedNetwork, Enterprise, Site, User
from waypost.errors import DecodeError, DirectoryNotConnected, DirectoryObjectNotFound, InvalidParameter
from waypost.wire.keys import KeyType, MqDsPublicKey, MqDsPublicKeys, ProviderType, PublicKeyBlob
from waypost.wire.sid import ADMINISTRATORS, EVERYONE

NAMES = HostNames("HOST", "example.org", guid(0xD0))
NORTH = Site(identifier=guid(1), name="north")
SOUTH = Site(identifier=guid(2), name="south")
OLD = Enterprise(identifier=guid(3), non_ldap_capable_queue_manager_notification=True)
HOUR = 3600


def known(**attributes: object) -> Rig:
    """A rig whose directory has an enterprise and the queue manager itself, with these attributes."""
    rig = Rig()
    rig.local.enterprise_reference = None
    rig.put(OLD)
    rig.put(replace(QueueManager(identifier=ME, computer_name="host"), **attributes))  # type: ignore[arg-type]
    return rig


@pytest.mark.spec("MQDMPR-3.1.3-02", "MQDMPR-3.1.1.1-01")
def test_the_names_come_from_the_host_and_are_there_to_be_matched_and_published() -> None:
    rig = Rig()
    rig.put(OLD)
    initialize(rig.events, NAMES, Provisioning(), rig.now)
    own = rig.local.queue_manager
    assert (own.computer_name, own.qualified_computer_name) == ("HOST", "HOST.example.org")
    assert rig.local.machine_domain_id == guid(0xD0)
    identity = Identity(own.identifier, own.computer_name, own.qualified_computer_name)
    assert identity.is_local("host")
    assert identity.is_local("host.EXAMPLE.org")
    assert rig.events.create_directory_object(own, rig.now).status is OK
    published = rig.read(QueueManager, ME).value
    assert published is not None
    assert (published.computer_name, published.qualified_computer_name) == ("HOST", "HOST.example.org")


def test_outside_a_domain_the_qualified_name_is_the_name() -> None:
    assert HostNames("HOST").qualified_computer_name == "HOST"


@pytest.mark.spec("MQDMPR-3.1.3-03")
def test_provisioning_sets_the_retry_timer_to_120_seconds() -> None:
    rig = known()
    initialize(rig.events, NAMES, None, rig.now)
    assert rig.local.initialization_retry_timer_duration == 0
    initialize(rig.events, NAMES, Provisioning(), rig.now)
    assert rig.local.initialization_retry_timer_duration == 120
    workgroup = Rig(integrated=False)
    initialize(workgroup.events, NAMES, Provisioning(), workgroup.now)
    assert workgroup.local.initialization_retry_timer_duration == 0


@pytest.mark.spec("MQDMPR-3.1.3-04")
def test_provisioning_takes_the_configured_site_and_starts_the_timer_of_the_server_list() -> None:
    rig = Rig(periods=Periods(directory_server_list_update_s=10))
    rig.put(OLD)
    for _ in range(2):
        initialize(rig.events, NAMES, Provisioning(guid(1), ("dc1", "dc2")), rig.now)
        assert rig.local.queue_manager.site_identifier_list == (guid(1),)
        assert rig.local.directory_server_list == ("dc1", "dc2")
    rig.advance(10)
    assert rig.events.take_effects() == [FindDirectoryServers()]
    rig.advance(10)
    assert rig.events.take_effects() == [FindDirectoryServers()]
    started = known()
    initialize(started.events, NAMES, None, started.now)
    assert not started.events.timers.is_running(Timer.DIRECTORY_SERVER_LIST_UPDATE)


@pytest.mark.spec("MQDMPR-3.1.1.1-14")
def test_the_key_lists_are_empty_until_initialization_fills_them() -> None:
    def key_list(modulus: int) -> MqDsPublicKeys:
        blob = PublicKeyBlob.from_numbers(KeyType.CALG_RSA_KEYX, 65537, modulus)
        return MqDsPublicKeys((MqDsPublicKey(ProviderType.PROV_RSA_FULL, "provider", blob),))

    rig = Rig()
    rig.put(OLD)
    for keys in (rig.local.queue_manager.public_encryption_key_list, rig.local.queue_manager.public_signing_key_list):
        assert keys.encode() == b"\x08\x00\x00\x00" + bytes(4)
    encryption, signing = key_list((1 << 511) + 1), key_list((1 << 511) + 3)
    initialize(rig.events, NAMES, Provisioning(None, (), encryption, signing), rig.now)
    assert rig.events.create_directory_object(rig.local.queue_manager, rig.now).status is OK
    published = rig.read(QueueManager, ME).value
    assert published is not None
    assert (published.public_encryption_key_list, published.public_signing_key_list) == (encryption, signing)


@pytest.mark.spec("MQDMPR-3.1.3-08")
def test_a_queue_manager_takes_over_what_the_directory_has_of_it_and_reads_its_sites() -> None:
    rig = known(queue_manager_quota=77, site_identifier_list=(guid(1), guid(9), guid(2)))
    rig.put(NORTH)
    rig.put(SOUTH)
    rig.put(Site(identifier=guid(4), name="elsewhere"))
    initialize(rig.events, NAMES, None, rig.now)
    assert rig.local.queue_manager.queue_manager_quota == 77
    assert [site.name for site in rig.local.site_collection.values()] == ["north", "south"]
    assert LocalQueueManagerRefreshed(rig.local.queue_manager) in rig.events.take_effects()


@pytest.mark.spec("MQDMPR-3.1.3-09")
def test_only_provisioning_goes_on_without_an_object_of_its_own() -> None:
    rig = Rig()
    rig.put(OLD)
    initialize(rig.events, NAMES, Provisioning(), rig.now)
    assert rig.local.enterprise_reference is not None
    with pytest.raises(DirectoryObjectNotFound):
        initialize(rig.events, NAMES, None, rig.now)
    for provisioning in (None, Provisioning()):
        cut = known()
        cut.line.is_cut = True
        with pytest.raises(DirectoryNotConnected):
            initialize(cut.events, NAMES, provisioning, cut.now)


@pytest.mark.spec("MQDMPR-3.1.3-10", "MQDMPR-3.1.1.1-08")
def test_the_enterprise_of_the_directory_becomes_the_reference_and_the_directory_gives_the_path() -> None:
    for notification in (True, False):
        rig = Rig()
        rig.put(QueueManager(identifier=ME, computer_name="host", full_path="CN=of my own"))
        rig.put(replace(OLD, non_ldap_capable_queue_manager_notification=notification, weakened_security=notification))
        initialize(rig.events, NAMES, None, rig.now)
        assert rig.local.enterprise_reference == Enterprise(
            identifier=OLD.identifier,
            non_ldap_capable_queue_manager_notification=notification,
            weakened_security=notification,
        )
        assert rig.local.queue_manager.full_path == "CN=msmq,CN=host,CN=Computers,DC=waypost"
    missing = Rig()
    missing.put(QueueManager(identifier=ME, computer_name="host"))
    with pytest.raises(DirectoryObjectNotFound, match="enterprise"):
        initialize(missing.events, NAMES, None, missing.now)


@pytest.mark.spec("MQDMPR-3.1.3-11")
def test_an_enterprise_that_does_not_say_gets_a_local_one_that_notifies() -> None:
    rig = Rig()
    rig.local.enterprise_reference = None
    rig.put(QueueManager(identifier=ME, computer_name="host"))
    rig.put(Enterprise(identifier=guid(3), name="silent"), ("name",))
    initialize(rig.events, NAMES, None, rig.now)
    assert rig.local.enterprise_reference == Enterprise(non_ldap_capable_queue_manager_notification=True)


def test_the_enterprise_says_how_long_messages_may_take() -> None:
    for settings, seconds in (((), 345_600), (("default_time_to_live",), 600)):
        rig = Rig()
        rig.put(QueueManager(identifier=ME, computer_name="host"))
        rig.put(replace(OLD, default_time_to_live=600), ("non_ldap_capable_queue_manager_notification", *settings))
        initialize(rig.events, NAMES, None, rig.now)
        assert rig.local.enterprise_reference is not None
        assert rig.local.enterprise_reference.default_time_to_live == seconds


@pytest.mark.spec("MQDMPR-3.1.3-12")
def test_initialization_starts_both_update_timers_with_a_directory_and_none_without() -> None:
    rig = known()
    initialize(rig.events, NAMES, None, rig.now)
    assert rig.events.timers.is_running(Timer.DIRECTORY_SITES_UPDATE)
    assert rig.events.timers.is_running(Timer.DIRECTORY_SITE_GATES_UPDATE)
    workgroup = Rig(integrated=False)
    initialize(workgroup.events, NAMES, Provisioning(), workgroup.now)
    assert workgroup.timers.earliest() is None
    assert workgroup.line.took() == []


def with_sites(periods: Periods | None = None) -> Rig:
    """A queue manager with two sites; the gate of the north is SOMEBODY."""
    rig = Rig(periods=periods)
    rig.put(OLD)
    rig.put(QueueManager(identifier=ME, computer_name="host", site_identifier_list=(guid(1), guid(2))))
    gate = QueueManager(identifier=SOMEBODY, computer_name="gate")
    for item in (NORTH, SOUTH, gate):
        rig.put(item)
    initialize(rig.events, NAMES, None, rig.now)
    unknown = QueueManager(identifier=guid(0x99), computer_name="unknown")
    rig.local.add_site(replace(rig.local.site_collection[guid(1)], site_gate_collection=(gate, unknown)))
    rig.set(replace(NORTH, primary_site_controller="psc"))
    rig.set(replace(gate, queue_manager_quota=5))
    return rig


def controller(rig: Rig) -> str:
    return rig.local.site_collection[guid(1)].primary_site_controller


def gate_quotas(rig: Rig) -> list[int]:
    return [gate.queue_manager_quota for gate in rig.local.site_collection[guid(1)].site_gate_collection]


@pytest.mark.spec("MQDMPR-3.1.2.1-01")
def test_sites_are_updated_every_12_hours_or_as_configured() -> None:
    rig = with_sites()
    rig.advance(12 * HOUR - 1)
    assert controller(rig) == ""
    rig.advance(1)
    assert controller(rig) == "psc"
    rig.set(replace(NORTH, primary_site_controller="next"))
    rig.advance(12 * HOUR - 1)
    assert controller(rig) == "psc"
    rig.advance(1)
    assert controller(rig) == "next"
    quick = with_sites(Periods(directory_sites_update_s=5))
    quick.advance(5)
    assert controller(quick) == "psc"


@pytest.mark.spec("MQDMPR-3.1.2.2-01")
def test_site_gates_are_updated_every_hour_or_as_configured() -> None:
    rig = with_sites()
    rig.advance(HOUR - 1)
    assert gate_quotas(rig)[0] != 5
    rig.advance(1)
    assert gate_quotas(rig)[0] == 5
    rig.set(QueueManager(identifier=SOMEBODY, computer_name="gate", queue_manager_quota=6))
    rig.advance(HOUR)
    assert gate_quotas(rig)[0] == 6
    quick = with_sites(Periods(directory_site_gates_update_s=5))
    quick.advance(5)
    assert gate_quotas(quick)[0] == 5


@pytest.mark.spec("MQDMPR-3.1.6.1-01")
def test_a_site_that_can_be_read_is_refreshed_and_keeps_its_gates() -> None:
    rig = with_sites()
    rig.line.directory.delete(SOUTH, Access(rig.now))
    rig.events.directory_sites_update(rig.now)
    assert controller(rig) == "psc"
    assert len(gate_quotas(rig)) == 2
    assert rig.local.site_collection[guid(2)].name == "south"
    rig.set(replace(NORTH, primary_site_controller="unseen"))
    rig.line.is_cut = True
    rig.events.directory_sites_update(rig.now)
    assert controller(rig) == "psc"


@pytest.mark.spec("MQDMPR-3.1.6.2-01")
def test_a_gate_that_can_be_read_is_refreshed_and_another_stays() -> None:
    rig = with_sites()
    before = gate_quotas(rig)
    rig.line.is_cut = True
    rig.events.directory_site_gates_update(rig.now)
    assert gate_quotas(rig) == before
    rig.line.is_cut = False
    rig.local.go_online()
    rig.events.directory_site_gates_update(rig.now)
    assert gate_quotas(rig) == [5, before[1]]


@pytest.mark.spec("MQDMPR-3.1.1.1-09")
def test_a_site_is_in_the_collection_only_if_it_is_in_the_list() -> None:
    local = LocalQueueManager(QueueManager(identifier=ME))
    assert local.queue_manager.site_identifier_list == ()
    with pytest.raises(InvalidParameter, match="not in the list"):
        local.add_site(NORTH)
    local.refresh(QueueManager(identifier=ME, site_identifier_list=(guid(1), guid(2))))
    local.add_site(NORTH)
    local.add_site(SOUTH)
    local.refresh(QueueManager(identifier=ME, site_identifier_list=(guid(2),)))
    assert list(local.site_collection) == [guid(2)]


def networks(rig: Rig) -> list[bytes]:
    """The list, which the collection has the objects of."""
    identifiers = list(rig.local.queue_manager.connected_network_identifier_list)
    assert sorted(rig.local.connected_network_collection) == identifiers
    return identifiers


@pytest.mark.spec("MQDMPR-3.1.1.1-10")
def test_every_listed_network_is_in_the_collection() -> None:
    assert QueueManager().connected_network_identifier_list == ()
    rig = known(connected_network_identifier_list=(guid(5), guid(6)))
    rig.put(ConnectedNetwork(identifier=guid(5), name="net"))
    initialize(rig.events, NAMES, None, rig.now)
    assert networks(rig) == [guid(5)]
    assert rig.local.connected_network_collection[guid(5)].name == "net"
    rig.local.connect(ConnectedNetwork(identifier=guid(7)))
    assert networks(rig) == [guid(5), guid(7)]
    rig.local.refresh(QueueManager(identifier=ME, connected_network_identifier_list=(guid(7), guid(8))))
    assert networks(rig) == [guid(7)]


@pytest.mark.spec("MQDMPR-3.1.1.1-11")
def test_a_routing_server_is_in_a_collection_only_if_it_is_in_its_list() -> None:
    local = LocalQueueManager(QueueManager(identifier=ME))
    own = local.queue_manager
    assert (own.out_routing_server_identifier_list, own.in_routing_server_identifier_list) == ((), ())
    out, incoming = QueueManager(identifier=guid(1)), QueueManager(identifier=guid(2))
    for add in (local.add_out_routing_server, local.add_in_routing_server):
        with pytest.raises(InvalidParameter):
            add(out)
    listed = replace(
        own, out_routing_server_identifier_list=(guid(1),), in_routing_server_identifier_list=(guid(2),)
    )  # fmt: skip
    local.refresh(listed)
    local.add_out_routing_server(out)
    local.add_in_routing_server(incoming)
    with pytest.raises(InvalidParameter):
        local.add_out_routing_server(incoming)
    assert local.out_routing_server_collection == {guid(1): out}
    assert local.in_routing_server_collection == {guid(2): incoming}
    local.refresh(own)
    assert local.out_routing_server_collection == local.in_routing_server_collection == {}


@pytest.mark.spec("MQDMPR-3.1.1.19-01", "MQDMPR-3.1.1.1-28")
def test_the_queue_manager_issues_one_certificate_for_each_user() -> None:
    key = generate_private_key(65537, 1024)
    local = LocalQueueManager(QueueManager(identifier=ME))
    user, admin = User(security_identifier=EVERYONE), User(security_identifier=ADMINISTRATORS)
    first, second = (issue_internal_certificate(user, key, number, START) for number in (1, 2))
    local.keep_certificate(first)
    local.keep_certificate(issue_internal_certificate(admin, key, 3, START))
    local.keep_certificate(second)
    assert local.internal_certificate_collection[EVERYONE] == second
    assert [each.user for each in local.internal_certificate_collection.values()] == [user, admin]
    decoded = load_der_x509_certificate(second.certificate)
    assert decoded.serial_number == 2
    assert decoded.public_key() == key.public_key()
    assert second.user is user
    with pytest.raises(DecodeError, match="must be a certificate"):
        InternalCertificate(b"something else", user)
    with pytest.raises(InvalidParameter, match="security identifier"):
        InternalCertificate(second.certificate, User())


def test_a_directory_that_is_lost_during_the_start_is_looked_for() -> None:
    rig = known()
    rig.line.is_cut = True
    with pytest.raises(DirectoryNotConnected):
        initialize(rig.events, NAMES, None, rig.now)
    assert rig.read(Site, guid(1)).status is NOT_CONNECTED
    assert rig.timers.earliest() == rig.now.monotonic + 60
