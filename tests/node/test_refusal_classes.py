"""Every class of a negative acknowledgment has its own cause: MS-MQDMPR 3.1.1.12, readings MQDMPR 7.5."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.node.hosts import Host, Net, letter
from tests.node.remote_rig import RemoteRig
from tests.node.rig import TX, direct
from tests.node.test_cloning import clone_of
from tests.node.test_directory_keys import exchange
from tests.node.test_protected_arrivals import add, certificate, connected, key, pkcs8, rc2_of_40_bits, unknown_hash
from tests.node.test_protected_departures import secret, send
from tests.node.test_transfer_refusals import allowing
from waypost.core.message import Message
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.remote.interfaces import remote_read as table
from waypost.remote.interfaces.remote_read import ReceiveAction, RemoteReadAck
from waypost.remote.remote_read.coordinator import local_token
from waypost.routing.routes import Route
from waypost.security.protection_facts import ProtectionFacts, keys_by_provider
from waypost.transfer.settings import TransferSettings
from waypost.wire.format_names import FormatName
from waypost.wire.message_class import MessageClass, is_negative_ack
from waypost.wire.queue_format import QueueFormat

ADMIN = r"DIRECT=OS:a\private$\admin"
Q, T = r"DIRECT=OS:b\private$\q", r"DIRECT=OS:b\private$\t"
INSECURE = TransferSettings(send_insecure_nacks=True)
UOW = b"\x55" * 16
ASKING: dict[str, Any] = {
    "administration_queue_format_name": FormatName.parse(ADMIN),
    "acknowledgements_requested": 0x0F,
}

Cause = Callable[[Host, Host], None]


def asking(body: str = "m", **changes: Any) -> Message:
    """A message that asks for every acknowledgment."""
    return letter(body, **ASKING, **changes)


def no_such_queue(a: Host, _: Host) -> None:
    a.send(r"DIRECT=OS:b\private$\nowhere", asking())


def purged_on_its_way(a: Host, b: Host) -> None:
    a.net.part(a, b)
    a.send(Q, asking())
    a.purge(Q)


def late_on_its_way(a: Host, b: Host) -> None:
    a.net.part(a, b)
    a.send(Q, asking(time_to_reach_queue=5))
    a.net.advance(10)


def no_room_in_the_queue(a: Host, b: Host) -> None:
    b.create("small", quota=1)
    a.send(r"DIRECT=OS:b\private$\small", replace(asking(), body=bytes(2000)))


def no_right_to_send(a: Host, b: Host) -> None:
    b.create("closed", security=allowing())
    a.send(r"DIRECT=OS:b\private$\closed", asking())


def too_many_hops(a: Host, b: Host) -> None:
    far = b"\x0c" * 16
    a.restart(routes=(Route(b.guid, "b"), Route(far, via=b.guid)))
    b.restart(routes=(Route(a.guid, "a"), Route(far, via=a.guid)))
    a.send(f"PRIVATE={guid_text(far)}\\00000007", asking())
    a.net.advance(60)


def unknown_certificate(a: Host, _: Host) -> None:
    a.key_desk.signer = pkcs8(key(1)), certificate(1)
    send(a, Q, sign=True, admin_queue=ADMIN, acknowledge="full-receive,neg-arrival")


def another_key(a: Host, b: Host) -> None:
    b.key_desk.exchange = (pkcs8(key(9)),)
    a.node.protection.facts_changed(ProtectionFacts(pins={b.address: keys_by_provider(exchange(8))}))
    a.send(rf"DIRECT=TCP:{b.address}\private$\q", secret(b"a secret body", **ASKING))


def transaction_for_a_plain_queue(a: Host, _: Host) -> None:
    a.send_all(Q, asking())


def no_transaction_for_a_transactional_queue(a: Host, _: Host) -> None:
    a.send(T, asking())


def deleted_with_its_queue(a: Host, b: Host) -> None:
    a.send(Q, asking())
    b.delete("q")


def purged_in_its_queue(a: Host, b: Host) -> None:
    a.send(Q, asking())
    b.purge("q")


def late_in_its_queue(a: Host, b: Host) -> None:
    a.send(Q, asking(time_to_be_received=5))
    a.net.advance(10)


CAUSES: dict[Cause, MessageClass] = {
    no_such_queue: MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q,
    purged_on_its_way: MessageClass.MQMSG_CLASS_NACK_DELETED,
    late_on_its_way: MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT,
    no_room_in_the_queue: MessageClass.MQMSG_CLASS_NACK_Q_EXCEED_QUOTA,
    no_right_to_send: MessageClass.MQMSG_CLASS_NACK_ACCESS_DENIED,
    too_many_hops: MessageClass.MQMSG_CLASS_NACK_HOP_COUNT_EXCEEDED,
    unknown_certificate: MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE,
    another_key: MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION,
    transaction_for_a_plain_queue: MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_Q,
    no_transaction_for_a_transactional_queue: MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG,
    deleted_with_its_queue: MessageClass.MQMSG_CLASS_NACK_Q_DELETED,
    purged_in_its_queue: MessageClass.MQMSG_CLASS_NACK_Q_PURGED,
    late_in_its_queue: MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT,
}


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    host = net.add("a", INSECURE)
    host.create("admin")
    return host


@pytest.fixture
def b(net: Net) -> Host:
    host = net.add("b", INSECURE)
    host.create("q")
    host.create("t", transactional=True)
    return host


def told(a: Host) -> list[int]:
    """The classes of the bad news, when the network is whole and quiet."""
    a.net.join()
    a.net.advance(60)
    return [each for each in a.classes("admin") if is_negative_ack(each)]


@pytest.mark.spec("MQDMPR-3.1.1.12-07")
@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
def test_a_refusal_has_the_class_of_its_cause(a: Host, b: Host, cause: Cause) -> None:
    cause(a, b)
    assert told(a) == [CAUSES[cause]]


@pytest.mark.spec("MQDMPR-3.1.1.12-07")
def test_a_message_that_its_reader_rejects_has_the_class_of_that() -> None:
    rig = RemoteRig()
    rig.create("ledger", transactional=True)
    rig.create("admin")
    rig.begin()
    wanted = replace(asking(), administration_queue_format_name=direct("admin"))
    rig.send(wanted, "ledger", tx=TX)
    rig.commit()
    rig.settle()
    (lookup_id,) = rig.queue("ledger").positions
    reader = rig.reader()
    handle = reader.open("ledger")
    name = QueueFormat.from_format_name(direct("ledger"))
    take = table.StartTransactionalReceiveRequest(
        handle, 0, 0, ReceiveAction.MQ_ACTION_RECEIVE, 0, 1, 0xFFFF, 0xFFFF, UOW
    )
    for opnum, request in (
        (12, table.QMEnlistRemoteTransactionRequest(UOW, local_token(UOW), name)),
        (13, take),
        (15, table.EndTransactionalReceiveRequest(handle, RemoteReadAck.RR_ACK, 1)),
        (14, table.SetUserAcknowledgementClassRequest(handle, lookup_id, 0xC004)),
    ):
        assert reader.ask(opnum, request).hresult == HResult.MQ_OK
    rig.prepare(UOW)
    with rig.node.kernel.operation(rig.now):
        rig.node.external.dtc_transaction_commit(UOW, rig.now.wall)
    rig.settle()
    found = [each.message_class for each in rig.contents(rig.queue("admin"))]
    assert [each for each in found if is_negative_ack(each)] == [MessageClass.MQMSG_CLASS_NACK_RECEIVE_REJECTED]


@pytest.mark.spec("MQDMPR-3.1.1.12-07")
def test_what_a_queue_manager_with_a_new_identity_does_not_send_has_the_class_of_that(
    net: Net, a: Host, b: Host
) -> None:
    net.part(a, b)
    a.send(Q, asking())
    clone, _ = clone_of(a)
    assert clone.classes(";deadletter") == [MessageClass.MQMSG_CLASS_NACK_SOURCE_COMPUTER_GUID_CHANGED]


# readings MQDMPR 7.5: no section has a step for three causes, and another class is told.


def no_known_key(a: Host, _: Host) -> None:
    a.send(Q, secret(b"a secret body", **ASKING))


def late_before_it_arrives(a: Host, b: Host) -> None:
    a.net.part(a, b)
    a.send(Q, asking(time_to_be_received=5))
    a.net.advance(10)


OTHERS: dict[Cause, MessageClass] = {
    no_known_key: MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION,
    late_before_it_arrives: MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT,
}


@pytest.mark.spec("MQDMPR-3.1.1.12-07")
@pytest.mark.parametrize("cause", OTHERS, ids=lambda cause: cause.__name__)
def test_what_ends_at_its_sender_has_the_class_of_the_same_end_elsewhere(a: Host, b: Host, cause: Cause) -> None:
    cause(a, b)
    assert told(a) == [OTHERS[cause]]


@pytest.mark.spec("MQDMPR-3.1.1.12-07")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (rc2_of_40_bits, MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION),
        (unknown_hash, MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE),
    ],
)
def test_what_the_library_does_not_support_is_refused_like_what_is_wrong(
    net: Net, change: Any, reason: MessageClass
) -> None:
    host = add(net)
    peer = connected(net, host)
    peer.send(change(host, peer.message(r"DIRECT=OS:a\private$\q", "m", **ASKING)))
    assert host.classes("admin") == [reason]


def test_every_class_has_a_cause() -> None:
    seen = {*CAUSES.values()}
    seen |= {
        MessageClass.MQMSG_CLASS_NACK_RECEIVE_REJECTED,
        MessageClass.MQMSG_CLASS_NACK_SOURCE_COMPUTER_GUID_CHANGED,
    }
    assert {each for each in MessageClass if is_negative_ack(each)} - seen == {
        MessageClass.MQMSG_CLASS_NACK_COULD_NOT_ENCRYPT,
        MessageClass.MQMSG_CLASS_NACK_UNSUPPORTED_CRYPTO_PROVIDER,
        MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT_AT_SENDER,
        # MS-MQDMPR does not have it.
        MessageClass.MQMSG_CLASS_NACK_MESSAGE_TOO_LARGE,
    }
