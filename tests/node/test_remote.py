"""Remote readers of a node: what their answers wait for, and who may read."""

from dataclasses import replace

import pytest

from tests.daemon.logons import logons_of
from tests.node.remote_rig import SERVING, Reader, RemoteRig
from tests.node.rig import TX, direct, letter
from waypost.core.queues import AccessType
from waypost.daemon.rpc_acceptors import acceptors
from waypost.drive.rpc_security import Credentials, initiator
from waypost.hresult import HResult
from waypost.node.effects import Write
from waypost.node.remote_reading import BIND_SECONDS, RemoteServing
from waypost.remote.interfaces import remote_read as table
from waypost.remote.interfaces.remote_read import ReceiveAction, RemoteReadAck
from waypost.remote.remote_read.coordinator import local_token
from waypost.rpc import flow
from waypost.rpc.authentication import AuthLevel, AuthType
from waypost.rpc.calls import FaultStatus
from waypost.rpc.client_binding import ClientSecurity
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Empty
from waypost.wire.access_masks import QueueAccess
from waypost.wire.queue_format import QueueFormat
from waypost.wire.security_descriptor import ACCESS_ALLOWED_ACE_TYPE, AccessAce, Acl, SecurityDescriptor
from waypost.wire.sid import AUTHENTICATED_USERS, EVERYONE, Sid

PEEK, RECEIVE = ReceiveAction.MQ_ACTION_PEEK_CURRENT, ReceiveAction.MQ_ACTION_RECEIVE


def granting(sid: Sid, mask: int) -> bytes:
    return SecurityDescriptor(dacl=Acl(aces=(AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, mask, sid),))).encode()


def test_the_end_of_a_receive_is_answered_when_it_is_durable() -> None:
    rig = RemoteRig()
    reader = rig.reader()
    handle = reader.open()
    rig.send("bolts")
    rig.hold_disk()
    assert reader.results[reader.start_receive(handle, 1)].hresult == HResult.MQ_OK
    end = reader.end_receive(handle, 1)
    assert end not in reader.results
    rig.release_disk()
    reader.run()
    assert reader.results[end].hresult == HResult.MQ_OK
    rig.crash()
    assert len(rig.queue().positions) == 0


def test_a_message_is_not_shown_before_it_is_durable() -> None:
    rig = RemoteRig()
    reader = rig.reader()
    handle = reader.open()
    waiting = reader.start_receive(handle, 1, PEEK, 1000)
    rig.open("orders", AccessType.SEND)
    rig.hold_disk()
    rig.send("bolts")
    rig.settle()
    reader.run()
    assert waiting not in reader.results
    rig.release_disk()
    reader.run()
    assert reader.results[waiting].hresult == HResult.MQ_OK


def test_answers_on_a_connection_keep_their_order_and_others_do_not_wait() -> None:
    rig = RemoteRig()
    reader, other = rig.reader(), rig.reader()
    handle = reader.open()
    rig.send("bolts")
    rig.hold_disk()
    reader.start_receive(handle, 1)
    end = reader.end_receive(handle, 1)
    port = reader.start(0, Empty())
    assert end not in reader.results
    assert port not in reader.results
    assert other.ask(0, Empty()) == table.GetServerPortReply(SERVING.remote_read_port)
    rig.release_disk()
    reader.run()
    assert [call for call in reader.results if call in (end, port)] == [end, port]


def test_a_reader_that_goes_gives_back_what_was_locked_for_it() -> None:
    rig = RemoteRig()
    reader, other = rig.reader(), rig.reader()
    handle, elsewhere = reader.open(), other.open()
    rig.send("bolts")
    rig.settle()
    reader.start_receive(handle, 1)
    waiting = other.start_receive(elsewhere, 1, timeout=60_000)
    assert waiting not in other.results
    reader.vanish()
    other.run()
    assert other.results[waiting].hresult == HResult.MQ_OK


def test_who_connects_and_does_not_bind_is_cut_off() -> None:
    rig = RemoteRig()
    reader = rig.reader()
    stranger = rig.remote.accept(2103, "127.0.0.1", rig.now)
    rig.advance(BIND_SECONDS - 0.1)
    rig.settle()
    assert rig.closed == []
    deadline = rig.node.next_deadline(rig.now)
    assert deadline is not None
    assert deadline <= rig.now.monotonic + 0.2
    rig.advance(0.2)
    rig.settle()
    assert rig.closed == [stranger]
    assert reader.ask(0, Empty()) == table.GetServerPortReply(2103)


def test_a_stop_closes_every_connection_and_frees_what_was_locked() -> None:
    rig = RemoteRig()
    reader = rig.reader()
    handle = reader.open()
    rig.send("bolts")
    rig.settle()
    reader.start_receive(handle, 1)
    rig.remote.stop(rig.now)
    rig.settle()
    assert rig.closed == [reader.number]
    assert rig.message(rig.receive()).label == "bolts"


@pytest.mark.parametrize(
    ("sid", "mask", "receives", "peeks"),
    [
        (EVERYONE, QueueAccess.MQSEC_RECEIVE_MESSAGE, True, True),
        (EVERYONE, QueueAccess.MQSEC_PEEK_MESSAGE, False, True),
        (EVERYONE, QueueAccess.MQSEC_WRITE_MESSAGE, False, False),
        (AUTHENTICATED_USERS, QueueAccess.MQSEC_RECEIVE_MESSAGE, False, False),
    ],
)
def test_the_descriptor_of_a_queue_says_what_a_caller_without_a_name_may_do(
    sid: Sid, mask: int, *, receives: bool, peeks: bool
) -> None:
    rig = RemoteRig()
    rig.create("guarded", security=granting(sid, int(mask)))
    reader = rig.reader()
    for access, allowed in ((1, receives), (0x20, peeks)):
        if allowed:
            assert not reader.open("guarded", access).is_null
        else:
            with pytest.raises(RpcFault) as refused:
                reader.open("guarded", access)
            assert refused.value.status == HResult.MQ_ERROR_ACCESS_DENIED


def test_a_journal_is_read_with_the_right_to_it_on_its_queue() -> None:
    rig = RemoteRig()
    peek = int(QueueAccess.MQSEC_PEEK_MESSAGE)
    journal = int(QueueAccess.MQSEC_RECEIVE_JOURNAL_MESSAGE)
    rig.create("read", security=granting(EVERYONE, peek | journal))
    rig.create("peeked", security=granting(EVERYONE, peek))
    reader = rig.reader()
    assert not reader.open("read;journal").is_null
    assert not reader.open("peeked;journal", 0x20).is_null
    with pytest.raises(RpcFault) as refused:
        reader.open("peeked;journal")
    assert refused.value.status == HResult.MQ_ERROR_ACCESS_DENIED
    with pytest.raises(RpcFault):
        reader.open("read")


@pytest.mark.parametrize("name", ["deadletter", "deadxact", "journal"])
def test_the_queues_of_the_computer_are_closed_unless_its_descriptor_opens_them(name: str) -> None:
    rig = RemoteRig()
    reader = rig.reader()
    whole = f"DIRECT=OS:host\\SYSTEM$;{name}"
    for security in (b"", granting(AUTHENTICATED_USERS, 0xF7)):
        _guard_computer(rig, security)
        for access in (1, 0x20):
            with pytest.raises(RpcFault) as refused:
                reader.open(whole, access)
            assert refused.value.status == HResult.MQ_ERROR_ACCESS_DENIED
    _guard_computer(rig, granting(EVERYONE, 0xF7))
    assert not reader.open(whole).is_null


def _guard_computer(rig: RemoteRig, security: bytes) -> None:
    with rig.node.kernel.operation(rig.now):
        rig.node.manager.modify(replace(rig.node.manager.attributes, security=security), rig.now)


def test_answers_that_wait_for_the_disk_are_not_made_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "MAX_RPC_ANSWERED_AT_ONCE", 4000)
    rig = RemoteRig()
    reader = rig.reader()
    handle = reader.open()
    rig.open("orders", AccessType.SEND)
    rig.hold_disk()
    rig.send(letter("bolts", body=bytes(1000)))
    rig.settle()
    calls = [reader.start_receive(handle, number, PEEK) for number in range(1, 50)]
    waiting = sum(
        len(effect.data)
        for effects in rig.node.kernel._held_back.values()
        for effect in effects
        if isinstance(effect, Write)
    )
    assert waiting < 8000
    assert not any(call in reader.results for call in calls)
    rig.release_disk()
    while rig.remote._rpc.can_go_on:
        rig.advance(0)
        rig.settle()
    reader.run()
    assert all(reader.results[call].hresult == HResult.MQ_OK for call in calls)


@pytest.mark.spec("MQRR-2.2.5.3-03")
def test_another_reader_sees_that_a_message_of_a_transaction_is_rejected() -> None:
    """On a queue manager whose remote readers have a coordinator."""
    rig = RemoteRig()
    rig.create("ledger", transactional=True)
    rig.begin()
    rig.send(letter("paid", allow_peek_when_locked=True), "ledger", tx=TX)
    rig.commit()
    rig.settle()
    (lookup_id,) = rig.queue("ledger").positions
    reader, other = rig.reader(), rig.reader()
    handle, elsewhere = reader.open("ledger"), other.open("ledger", 0x20)
    uow = b"\x55" * 16
    name = QueueFormat.from_format_name(direct("ledger"))
    assert reader.ask(12, table.QMEnlistRemoteTransactionRequest(uow, local_token(uow), name)).hresult == HResult.MQ_OK
    take = table.StartTransactionalReceiveRequest(handle, 0, 0, RECEIVE, 0, 1, 0xFFFF, 0xFFFF, uow)
    assert reader.ask(13, take).hresult == HResult.MQ_OK
    assert (
        reader.ask(15, table.EndTransactionalReceiveRequest(handle, RemoteReadAck.RR_ACK, 1)).hresult == HResult.MQ_OK
    )

    def bits() -> int:
        """TM, AcknowledgementClass and Reserved as they stand in the packet: behind ExtensionHeader and HeaderSize."""
        packet = other.peek(elsewhere, lookup_id)
        at = len(packet.user_message) + 12 + 4
        return int.from_bytes(packet.encode()[at : at + 4], "little")

    assert bits() == 0
    rejected = table.SetUserAcknowledgementClassRequest(handle, lookup_id, 0xC004)
    assert reader.ask(14, rejected).hresult == HResult.MQ_OK
    assert bits() == 0xC004 << 1


def logged_on(rig: RemoteRig, user: str, password: str, level: AuthLevel = AuthLevel.PRIVACY) -> Reader:
    return rig.reader(
        security=ClientSecurity(initiator(AuthType.NTLM, level, "host", Credentials(user, password)), level)
    )


@pytest.mark.spec("MQRR-1.5-01")
def test_readers_are_served_with_known_credentials_by_a_queue_manager_that_is_started() -> None:
    rig = RemoteRig(RemoteServing(acceptors=acceptors(logons_of(alice="s3cret"))))
    rig.send("bolts")
    alice = logged_on(rig, "alice", "s3cret")
    handle = alice.open()
    for stranger in (rig.reader(), logged_on(rig, "alice", "S3cret"), logged_on(rig, "bob", "s3cret")):
        with pytest.raises(RpcFault) as refused:
            stranger.open()
        assert refused.value.status == FaultStatus.ACCESS_DENIED
    rig.node.manager.queue_manager_stopped()
    for ask in (alice.open, lambda: alice.purge(handle)):
        with pytest.raises(RpcFault) as unavailable:
            ask()
        assert unavailable.value.status == HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE
    rig.node.manager.queue_manager_started(rig.now)
    assert alice.peek(handle).message().properties.label == "bolts"
    assert not alice.open().is_null


@pytest.mark.spec("MQRR-3.1.4.6-02")
def test_a_purge_with_a_handle_for_peeking_or_moving_is_refused_and_removes_nothing() -> None:
    rig = RemoteRig()
    rig.send("bolts")
    rig.settle()
    reader = rig.reader()
    for handle in (reader.open(access=0x20), reader.open_for_move()):
        assert reader.purge(handle) == 0xC0000022
    assert rig.labels() == ["bolts"]
    assert reader.purge(reader.open()) == HResult.MQ_OK
    assert rig.labels() == []
