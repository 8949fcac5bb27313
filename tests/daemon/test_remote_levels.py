"""Protection that a daemon demands of remote readers: product note 19 of MS-MQRR, and MS-MQQP 5."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.crash.daemons import Daemon, loopback
from tests.foreign.every_call import DENY_NONE, NOBODY, PEEK, RECEIVE, queue_format
from tests.foreign.site import DOMAIN, PASSWORD, USER, Faulted, OurClient
from waypost.hresult import HResult
from waypost.remote.interfaces import qm2qm, qmcomm
from waypost.remote.interfaces.qm2qm import QM2QM
from waypost.remote.interfaces.qmcomm import QMCOMM
from waypost.remote.interfaces.remote_read import REMOTE_READ, OpenQueueForMoveRequest, OpenQueueRequest
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.calls import FaultStatus
from waypost.rpc.interface import Empty

NONE, INTEGRITY, PRIVACY = AuthLevel.NONE, AuthLevel.INTEGRITY, AuthLevel.PRIVACY
MOVE = 4
PORTS = {REMOTE_READ.uuid: 2103, QMCOMM.uuid: 2103, QM2QM.uuid: 2105}


@contextmanager
def served(folder: Path, *settings: str) -> Iterator[Daemon]:
    """A daemon that knows Alice, with a queue for everybody and one for her alone."""
    users = folder / "users"
    users.write_text(f"{DOMAIN}:{USER}:{PASSWORD}\n", encoding="utf-8")
    given = (f"rpc.users_file={users}", "security.new_queues=msmq", *settings)
    with Daemon(folder, "host", loopback(94), *given) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            manager.create_queue("open")
            rights = ["administrators:full", rf"{DOMAIN}\{USER}:full"]
            manager.create_queue("closed").set_acl(revoke=["everyone"], grant=rights)
        yield daemon
        assert daemon.stop() == 0


def client(daemon: Daemon, interface: Any, level: AuthLevel) -> OurClient:
    return OurClient((daemon.address, PORTS[interface.uuid]), [interface], level)


def least_level(daemon: Daemon, queue: str, workgroup: int) -> AuthLevel:
    """The lowest level at which a reader who says this of its domain can open a queue, to read and to move."""
    found: list[AuthLevel] = []
    for request, opnum, access in ((OpenQueueRequest, 2, PEEK), (OpenQueueForMoveRequest, 11, MOVE)):
        opened = []
        for level in (NONE, INTEGRITY, PRIVACY):
            with client(daemon, REMOTE_READ, level) as reader:
                # Everybody can connect, and ask for the port.
                assert reader.ask(REMOTE_READ, 0, Empty()).port == 2103
                asked = request(queue_format(queue), access, DENY_NONE, workgroup=workgroup)
                reply = reader.ask(REMOTE_READ, opnum, asked)
            assert reply == Faulted(FaultStatus.ACCESS_DENIED) or not reply.context.is_null
            if not isinstance(reply, Faulted):
                opened.append(level)
        # Every level above the least one is good enough too.
        assert opened == [level for level in (NONE, INTEGRITY, PRIVACY) if level >= opened[0]]
        found.append(opened[0])
    assert found[0] is found[1]
    return found[0]


@pytest.mark.spec("MQRR-2.1-04", "MQRR-3.1.4.2-15", "MQRR-3.1.4.2-16", "MQRR-3.1.4.11-09", "MQRR-5.1-01")
@pytest.mark.parametrize(
    ("settings", "levels"),
    [
        # The levels for the open queue without and with fWorkgroup, and for the closed queue.
        ((), (PRIVACY, PRIVACY, PRIVACY)),
        (("rpc.min_auth_level=integrity",), (INTEGRITY, INTEGRITY, INTEGRITY)),
        (("rpc.deny_workgroup_clients=true",), (PRIVACY, PRIVACY, PRIVACY)),
        (("rpc.allow_nonauthenticated=true",), (NONE, NONE, None)),
        (("rpc.allow_nonauthenticated=true", "rpc.deny_workgroup_clients=true"), (PRIVACY, NONE, PRIVACY)),
        (("rpc.allow_none_security_clients=true",), (NONE, NONE, PRIVACY)),
    ],
)
def test_the_settings_decide_over_the_protection_of_readers(
    tmp_path: Path, settings: tuple[str, ...], levels: tuple[AuthLevel, AuthLevel, AuthLevel | None]
) -> None:
    with served(tmp_path, *settings) as daemon:
        assert (least_level(daemon, "open", 0), least_level(daemon, "open", 1)) == levels[:2]
        if levels[2] is not None:
            assert least_level(daemon, "closed", 0) is levels[2]
            return
        # Nobody has to log on, but the rights on the queue still count.
        with client(daemon, REMOTE_READ, NONE) as reader:
            reply = reader.ask(REMOTE_READ, 2, OpenQueueRequest(queue_format("closed"), PEEK, DENY_NONE))
        assert reply == Faulted(HResult.MQ_ERROR_ACCESS_DENIED)


@pytest.mark.spec("MQQP-2.1-05", "MQQP-5-01", "MQQP-5-02", "MQQP-5-03")
@pytest.mark.parametrize("is_allowed", [False, True])
def test_everybody_binds_to_qm2qm_and_the_methods_refuse_who_did_not_log_on(
    tmp_path: Path, *, is_allowed: bool
) -> None:
    opening = {
        name: qmcomm.OpenRemoteQueueRequest(queue_format(name), 7, RECEIVE, DENY_NONE, NOBODY, 0)
        for name in ("open", "closed")
    }
    with served(tmp_path, *(("rpc.allow_nonauthenticated=true",) if is_allowed else ())) as daemon:
        with client(daemon, QMCOMM, NONE) as comm, client(daemon, QM2QM, NONE) as reader:
            assert reader.ask(QM2QM, 7, qm2qm.GetServerPortRequest(1)).port == 2105
            opened = comm.ask(QMCOMM, 2, opening["open"])
            number = opened.queue if is_allowed else 1
            refused = HResult.MQ_OK if is_allowed else HResult.MQ_ERROR_ACCESS_DENIED
            assert opened.hresult == refused
            request = qm2qm.OpenQueueRequest(NOBODY, 0, number, number, number)
            assert reader.ask(QM2QM, 2, request).hresult == refused
            assert comm.ask(QMCOMM, 2, opening["closed"]).hresult == HResult.MQ_ERROR_ACCESS_DENIED
        with client(daemon, QMCOMM, PRIVACY) as comm:
            assert comm.ask(QMCOMM, 2, opening["closed"]).hresult == HResult.MQ_OK
