"""Single calls of MS-MQRR and MS-MQQP against a daemon, by their numbers, and who may make them."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import waypost
from tests.crash.daemons import Daemon, loopback
from tests.foreign.every_call import DENY_NONE, NOBODY, RECEIVE, queue_format
from tests.foreign.site import DOMAIN, PASSWORD, USER, Faulted, OurClient, Site, site
from waypost.errors import AccessDenied
from waypost.hresult import HResult
from waypost.remote.interfaces import qm2qm, qmcomm
from waypost.remote.interfaces.qm2qm import QM2QM, RemoteReadDesc
from waypost.remote.interfaces.qmcomm import QMCOMM
from waypost.remote.interfaces.remote_read import ReceiveAction, RemoteReadAck
from waypost.rpc.calls import FaultStatus
from waypost.rpc.interface import Empty, Method, ResultReply
from waypost.wire.remote_packet import RemotePacket

TAKE = int(ReceiveAction.MQ_ACTION_RECEIVE)
NACK = RemoteReadAck.RR_NACK


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("calls"), 44) as host:
        yield host


class Reader:
    """A caller of qm2qm that has a queue open; MS-MQQP 1.4: by way of qmcomm."""

    def __init__(self, host: Site, queue: str, stack: ExitStack) -> None:
        self._qmcomm, self._qm2qm = (
            stack.enter_context(OurClient(host.endpoint(each), [each])) for each in (QMCOMM, QM2QM)
        )
        request = qmcomm.OpenRemoteQueueRequest(queue_format(queue), 7, RECEIVE, DENY_NONE, NOBODY, 0)
        self.number = self._qmcomm.ask(QMCOMM, 2, request).queue
        opened = self._qm2qm.ask(QM2QM, 2, qm2qm.OpenQueueRequest(NOBODY, 0, self.number, self.number, self.number))
        assert opened.hresult == HResult.MQ_OK

    def start_receive(self, request_id: int, timeout: int = 0) -> qm2qm.StartReceiveReply:
        desc = RemoteReadDesc(self.number, 0, TAKE, timeout, self.number, request_id)
        reply = self._qm2qm.ask(QM2QM, 0, qm2qm.StartReceiveRequest(desc))
        assert isinstance(reply, qm2qm.StartReceiveReply)
        return reply

    def give_back(self, reply: qm2qm.StartReceiveReply) -> None:
        assert self._qm2qm.ask(QM2QM, 1, qm2qm.EndReceiveRequest(reply.context, NACK)).hresult == HResult.MQ_OK


def body(reply: qm2qm.StartReceiveReply) -> bytes:
    assert reply.remote_read_desc.buffer is not None
    return RemotePacket.decode(reply.remote_read_desc.buffer).message().properties.message_body


@pytest.mark.spec("MQQP-3.1.4.1-18")
def test_a_receive_without_a_cursor_locks_the_first_message_that_is_free(host: Site) -> None:
    queue = host.manager.create_queue("front")
    host.put("front", b"first", b"second")
    with ExitStack() as stack:
        one, other = (Reader(host, "front", stack) for _ in range(2))
        first = one.start_receive(1)
        assert body(first) == b"first"
        assert host.bodies("front") == [b"second"], "a locked message is shown to nobody"
        second = other.start_receive(1)
        assert body(second) == b"second"
        assert other.start_receive(2, timeout=1).hresult == HResult.MQ_ERROR_IO_TIMEOUT
        one.give_back(first)
        assert body(other.start_receive(3)) == b"first"
        assert queue.info().message_count == 2


@pytest.mark.spec("MQQP-3.1.4-02")
def test_qm2qm_has_no_method_above_opnum_10(host: Site) -> None:
    beyond = Method(11, "none", Empty, ResultReply, "")
    with OurClient(host.endpoint(QM2QM), [replace(QM2QM, methods={**QM2QM.methods, 11: beyond})]) as client:
        assert isinstance(client.ask(QM2QM, 8, Empty()), qm2qm.GetVersionReply)
        interface = replace(QM2QM, methods={**QM2QM.methods, 11: beyond})
        assert client.ask(interface, 11, Empty()) == Faulted(FaultStatus.NCA_OP_RNG_ERROR)


def guard(folder: Path, name: str, queue: str) -> None:
    """Give a queue of a folder a descriptor under which only authenticated users receive."""
    with waypost.open(folder, name=name) as manager:
        guarded = manager.create_queue(queue)
        guarded.send("for alice")
        guarded.set_acl(sddl="D:(A;;0x3;;;AU)", force=True)


@pytest.mark.spec("MQRR-2.1-05")
def test_the_identity_that_was_authenticated_decides_who_gets_a_handle(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(f"{DOMAIN}:{USER}:{PASSWORD}\n", encoding="utf-8")
    settings = ("rpc.min_auth_level=none", f"rpc.users_file={users}")
    with Daemon(tmp_path, "host", loopback(45), *settings) as daemon:
        guard(daemon.folder, daemon.name, "guarded")
        daemon.start()
        with waypost.msmq(daemon.address, epm_port=None, level="none") as nobody, pytest.raises(AccessDenied):
            nobody.queue("guarded").receive(0)
        with waypost.msmq(daemon.address, epm_port=None, user=rf"{DOMAIN}\{USER}", password=PASSWORD) as alice:
            assert alice.queue("guarded").receive(0).text == "for alice"
