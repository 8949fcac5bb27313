"""The table of rights against a running daemon: HTTP, Python, the command line, arrivals, MS-MQRR and MS-MQQP.

In each cell a user without the right is refused, and with it allowed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any, Final, TypeVar

import httpx
import pytest

import waypost
from tests.access.cases import CASES, LIKE, OWNED, QUEUES, Door, lookup_id_of
from tests.crash.daemons import SECONDS, Daemon, loopback, patience
from tests.foreign.every_call import DENY_NONE, NOBODY, RECEIVE, queue_format
from tests.foreign.site import OurClient
from waypost.api.operations import Browse, CreateQueue, Operation, Send, SetAcl
from waypost.client.transports.http.exchanges import exchange_of
from waypost.errors import AccessDenied, CertificateNotFound, InvalidHandle, TransactionSequence
from waypost.hresult import HResult
from waypost.remote.interfaces import qm2qm, qmcomm
from waypost.remote.interfaces.qm2qm import QM2QM, RemoteReadDesc
from waypost.remote.interfaces.qmcomm import QMCOMM
from waypost.remote.interfaces.remote_read import ReceiveAction, RemoteReadAck
from waypost.rpc.authentication import AuthLevel

R = TypeVar("R")

TOKEN: Final = "the token of the daemon"
PASSWORD: Final = "s3cret"
USERS: Final = ("alice", "bob")


class Outside(Door):
    """A daemon with two users. Every case has a queue for itself."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.tokens = {"administrator": TOKEN}
        self.managers = {"administrator": waypost.connect(daemon.url, token=TOKEN)}
        self._client = httpx.Client(base_url=daemon.url, timeout=SECONDS)
        administrator = self.managers["administrator"]
        for name in USERS:
            administrator.users.add(name, ntlm=True, password=PASSWORD)
            self.tokens[name] = administrator.users.token(name).token
            self.managers[name] = waypost.connect(daemon.url, token=self.tokens[name])
        administrator.users.add("SERVER$", ntlm=True, password=PASSWORD)
        self._numbers = count(1)
        self._queue = ""
        self.call("administrator", CreateQueue(name="ledger", transactional=True))

    def begin(self) -> None:
        """The queues of the next case, where alice and bob have all rights."""
        self._queue = f"orders{next(self._numbers)}"
        self.call("administrator", CreateQueue(name=self._queue))
        self.rights(self._queue, "alice:full", "bob:full")
        self.rights("ledger", "alice:full", "bob:full")

    def call(self, who: str, operation: Operation[R]) -> R:
        return self.managers[who].call(operation)

    def queue(self) -> str:
        return self._queue

    def rights(self, name: str, *grants: str) -> None:
        revoke = ["everyone", "anonymous", *USERS]
        self.call("administrator", SetAcl(name=name, revoke=revoke, grant=["administrators:full", *grants]))

    def put(self, body: str = "a") -> int:
        self.call("administrator", Send(name=self._queue, like=LIKE, bodies=[body.encode()], answer="ids"))
        return lookup_id_of(self.call("administrator", Browse(name=self._queue, form="packet")).messages[-1])

    def raw(self, who: str, operation: Operation[Any]) -> httpx.Response:
        exchange = exchange_of(operation)
        headers = {"authorization": f"Bearer {self.tokens[who]}", "accept": "application/json"}
        if exchange.body:
            headers["content-type"] = "application/msgpack"
        return self._client.request(exchange.method, exchange.target, content=exchange.body, headers=headers)

    def close(self) -> None:
        self._client.close()
        for manager in self.managers.values():
            manager.close()

    def run(self, who: str, *words: str) -> "subprocess.CompletedProcess[str]":
        environment = os.environ | {"WAYPOST_URL": self.daemon.url, "WAYPOST_TOKEN": self.tokens[who]}
        return subprocess.run(
            [sys.executable, "-m", "waypost.cli", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    place = tmp_path_factory.mktemp("rights")
    settings = (f"http.token={TOKEN}", "rpc.min_auth_level=none")
    with Daemon(place, "host", loopback(90), *settings) as daemon:
        daemon.start()
        yield daemon


@pytest.fixture(scope="module")
def everything(daemon: Daemon) -> Iterator[Outside]:
    outside = Outside(daemon)
    try:
        yield outside
    finally:
        outside.close()


@pytest.fixture
def door(everything: Outside) -> Outside:
    everything.begin()
    return everything


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_python_and_http_are_refused_without_the_right_and_work_with_it(
    door: Outside, kind: type[Operation[Any]]
) -> None:
    case, name = CASES[kind], QUEUES.get(kind, door.queue())
    operation = case.make(door)
    door.rights(name)
    with pytest.raises(AccessDenied, match="bob may not"):
        door.call("bob", operation)
    answer = door.raw("bob", operation)
    assert (answer.status_code, answer.json()["hresult"]) == (403, "0xc00e0025"), answer.text
    assert answer.json()["hint"]
    door.rights(name, f"bob:{case.right}")
    door.call("bob", operation)


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_a_request_over_http_works_with_the_right(door: Outside, kind: type[Operation[Any]]) -> None:
    case, name = CASES[kind], QUEUES.get(kind, door.queue())
    operation = case.make(door)
    door.rights(name, f"bob:{case.right}")
    answer = door.raw("bob", operation)
    assert answer.status_code == kind.row.status, answer.text


@pytest.mark.parametrize("kind", OWNED, ids=lambda kind: kind.__name__)
def test_objects_of_others_do_not_exist(door: Outside, kind: type[Operation[Any]]) -> None:
    case = OWNED[kind]
    operation = case.make(door)
    if case.is_silent:
        door.call("bob", operation)
    else:
        with pytest.raises((InvalidHandle, TransactionSequence)):
            door.call("bob", operation)
        assert door.raw("bob", operation).status_code in (404, 409)
    door.call("alice", operation)


# The words of a command, and the right that it takes.
COMMANDS: dict[str, tuple[str, Callable[[Outside], tuple[str, ...]]]] = {
    "send": ("send,get-properties", lambda door: ("send", door.queue(), "--body", "hello")),
    "receive": ("receive", lambda door: ("receive", door.queue(), "--timeout", "0")),
    "peek": ("peek", lambda door: ("peek", door.queue())),
    "show": ("get-properties", lambda door: ("queue", "show", door.queue())),
    "set": ("set-properties,get-properties", lambda door: ("queue", "set", door.queue(), "--label", "new")),
    "purge": ("receive,get-properties", lambda door: ("queue", "purge", door.queue(), "--yes")),
    "move": ("receive,get-properties", lambda door: ("queue", "move", door.queue(), f"{door.queue()};retry")),
    "acl": ("get-permissions", lambda door: ("queue", "acl", door.queue())),
    "grant": ("set-permissions", lambda door: ("queue", "acl", door.queue(), "--grant", "everyone:send")),
    "delete": ("delete,get-properties", lambda door: ("queue", "delete", door.queue(), "--yes")),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_refused_without_the_right_and_works_with_it(door: Outside, command: str) -> None:
    right, words = COMMANDS[command]
    door.put()
    # The other right is one that the command needs besides.
    door.rights(door.queue(), *(f"bob:{word}" for word in right.split(",")[1:]))
    refused = door.run("bob", *words(door))
    assert refused.returncode == 1, refused.stdout
    assert refused.stderr.startswith("Bob may not "), refused.stderr
    assert "\nhint: " in refused.stderr
    door.rights(door.queue(), f"bob:{right}")
    worked = door.run("bob", *words(door))
    assert worked.returncode == 0, worked.stderr


def test_an_arrival_is_refused_without_the_right_and_taken_with_it(door: Outside) -> None:
    door.rights(door.queue(), "everyone:send")
    door.call("administrator", SetAcl(name=door.queue(), deny=["anonymous:send"]))
    with waypost.msmq(door.daemon.address, epm_port=None) as host:
        host.send(f"private$\\{door.queue()}", "refused")
        with patience(SECONDS, "the refusal is not in the log") as turns:
            for _ in turns:
                if "MQMSG_CLASS_NACK_ACCESS_DENIED" in door.daemon.log and door.queue() in door.daemon.log:
                    break
        assert door.call("administrator", Browse(name=door.queue(), form="packet")).messages == []
        door.rights(door.queue(), "everyone:send")
        host.send(f"private$\\{door.queue()}", "taken")
        with patience(SECONDS, "the message has not come") as turns:
            for _ in turns:
                if door.call("administrator", Browse(name=door.queue(), form="packet")).messages:
                    break


@pytest.mark.spec("MQRR-2.1-05")
@pytest.mark.parametrize(("right", "is_receive"), [("receive", True), ("peek", False)])
def test_a_remote_reader_is_refused_without_the_right_and_reads_with_it(
    door: Outside, right: str, *, is_receive: bool
) -> None:
    door.put("for bob")
    for who, password in (("alice", PASSWORD), ("bob", PASSWORD)):
        door.rights(door.queue(), "alice:full" if who == "bob" else "bob:full")
        with waypost.msmq(door.daemon.address, epm_port=None, user=who, password=password) as host:
            queue = host.queue(door.queue())
            with pytest.raises(AccessDenied):
                queue.receive(0) if is_receive else queue.peek(timeout=0)
            door.rights(door.queue(), f"{who}:{right}")
            found = queue.receive(0) if is_receive else queue.peek(timeout=0)
            assert found.body == b"for bob"
        if is_receive:
            door.put("for bob")


def _open(door: Outside, who: str, stack: ExitStack) -> Any:
    client = stack.enter_context(_client(door, QMCOMM, who))
    return client.ask(
        QMCOMM, 2, qmcomm.OpenRemoteQueueRequest(queue_format(door.queue()), 7, RECEIVE, DENY_NONE, NOBODY, 0)
    )


def _client(door: Outside, interface: Any, who: str) -> OurClient:
    port = 2103 if interface is QMCOMM else 2105
    return OurClient((door.daemon.address, port), [interface], AuthLevel.PRIVACY, user=who, password=PASSWORD)


@pytest.mark.spec("MQQP-5-04")
def test_qm2qm_serves_a_machine_account_with_the_rights_of_the_user_that_opened_the_queue(door: Outside) -> None:
    door.put("for bob")
    with ExitStack() as stack:
        door.rights(door.queue())
        assert _open(door, "bob", stack).hresult == HResult.MQ_ERROR_ACCESS_DENIED
        door.rights(door.queue(), "bob:receive")
        opened = _open(door, "bob", stack)
        assert opened.hresult == HResult.MQ_OK
        number = opened.queue
        machine = stack.enter_context(_client(door, QM2QM, "SERVER$"))
        guess = number ^ 1
        request = qm2qm.OpenQueueRequest(NOBODY, 0, guess, guess, guess)
        assert machine.ask(QM2QM, 2, request).hresult == HResult.MQ_ERROR_INVALID_PARAMETER
        session = machine.ask(QM2QM, 2, qm2qm.OpenQueueRequest(NOBODY, 0, number, number, number))
        assert session.hresult == HResult.MQ_OK
        desc = RemoteReadDesc(number, 0, int(ReceiveAction.MQ_ACTION_RECEIVE), 0, number, 1)
        read = machine.ask(QM2QM, 0, qm2qm.StartReceiveRequest(desc))
        assert read.hresult == HResult.MQ_OK
        end = qm2qm.EndReceiveRequest(read.context, RemoteReadAck.RR_ACK)
        assert machine.ask(QM2QM, 1, end).hresult == HResult.MQ_OK
    assert door.call("administrator", Browse(name=door.queue(), form="packet")).messages == []


def test_a_queue_that_a_user_creates_is_closed_and_its_creator_owns_it(door: Outside) -> None:
    administrator = door.managers["administrator"]
    administrator.users.set("alice", role="operate")
    try:
        with waypost.connect(door.daemon.url, token=administrator.users.token("alice").token) as alice:
            name = f"{door.queue()}-of-alice"
            assert alice.create_queue(name).info().owner == "alice"
            shown = alice.queue(name).acl()
    finally:
        administrator.users.set("alice", role="none")
    assert shown.owner == "alice"
    assert [(each.who, each.allow, each.rights) for each in shown.entries] == [
        ("alice", True, ["full"]),
        ("administrators", True, ["full"]),
        ("everyone", True, ["send"]),
    ]
    answer = door.run("administrator", "queue", "acl", name, "--json")
    found = json.loads(answer.stdout)
    assert set(found) == {"owner", "sddl", "entries"}
    assert set(found["entries"][0]) == {"who", "sid", "allow", "rights"}
    assert found["sddl"].startswith("O:S-1-5-21-")


def test_every_user_manages_own_certificates_and_needs_a_role_for_those_of_others(door: Outside) -> None:
    administrator, alice, bob = (door.managers[name] for name in ("administrator", "alice", "bob"))
    of_bob = bob.create_certificate()
    created = alice.create_certificate()
    assert (created.user, [each.digest for each in alice.certificates()]) == ("alice", [created.digest])
    assert alice.register_certificate(created.pem.encode()).digest == created.digest
    with pytest.raises(AccessDenied, match="role admin is required to manage the certificates of other users"):
        alice.create_certificate("bob")
    with pytest.raises(AccessDenied, match="role admin is required to manage the certificates of other users"):
        alice.register_certificate(created.pem.encode(), "bob")
    with pytest.raises(AccessDenied, match="role read is required to list the certificates of other users"):
        alice.certificates("bob")
    with pytest.raises(CertificateNotFound, match="is not registered"):
        alice.remove_certificate(of_bob.digest)
    assert {created.digest, of_bob.digest} <= {each.digest for each in administrator.certificates()}
    listed = door.run("alice", "cert", "list", "--json")
    assert [each["digest"] for each in json.loads(listed.stdout)] == [created.digest]
    alice.remove_certificate(created.digest)
    administrator.remove_certificate(of_bob.digest)
    assert alice.certificates() == []
