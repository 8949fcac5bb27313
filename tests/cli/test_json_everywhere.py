"""Every verb writes JSON with --json, and what it writes has the keys of HTTP."""

import json
import shlex
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec import Struct

import waypost
from tests.cli.daemons import daemon, shell
from tests.cli.test_key_and_cert_commands import files
from tests.forks import run
from waypost.api.claims import Claim, ClaimObject, Returned
from waypost.api.damaged import DamagedPage, Forgotten
from waypost.api.explanation import Explanation
from waypost.api.keys import CertificateCreated, CertificateInfo, ExportedKeys, ImportedKeys, Keys, TrustedKey
from waypost.api.permissions import Acl
from waypost.api.properties import MessageObject, QueueInfo
from waypost.api.queues import MovedObject
from waypost.api.sequences import Admitted, AdmittedAddress, SequenceInfo, SequenceReset
from waypost.api.status import Checks, IdentityInfo, StatusInfo
from waypost.api.users import AuditEntry, NewToken, UserInfo
from waypost.cli.verbs import VERBS

GUID = "1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11"
FAR = r"DIRECT=TCP:127.0.0.9\private$\far"


class Case(NamedTuple):
    """A command line, and the objects of HTTP whose keys its answer has, in a list or not."""

    line: str
    kinds: tuple[type[Struct], ...]
    is_list: bool = False
    code: int = 0


# In this order, on one daemon. $ID is the lookup_id of a message in orders, and $DIGEST that of a certificate.
CASES = {
    "queue create": Case("queue create made", (QueueInfo,)),
    "queue set": Case("queue set made --label x", (QueueInfo,)),
    "queue show": Case("queue show made", (QueueInfo,)),
    "queue list": Case("queue list --system", (QueueInfo,), is_list=True),
    "queue delete": Case("queue delete made", (QueueInfo,)),
    "send": Case("send orders --body 1", (MessageObject,), is_list=True),
    "queue pause": Case(f"queue pause '{FAR}'", (QueueInfo,)),
    "queue resume": Case(f"queue resume '{FAR}'", (QueueInfo,)),
    "peek": Case("peek orders", (MessageObject,), is_list=True),
    "explain": Case("explain orders", (Explanation,)),
    "message export": Case("message export orders orders.packets", (MessageObject,), is_list=True),
    "message import": Case("message import orders orders.packets", (MessageObject,), is_list=True),
    "message move": Case("message move orders $ID 'orders;later'", (MessageObject,), is_list=True),
    "queue move": Case("queue move 'orders;later' orders", (MovedObject,)),
    "message resend": Case("message resend orders $ID --to orders", (MessageObject,), is_list=True),
    "message delete": Case("message delete orders $ID", (MessageObject,), is_list=True),
    "receive": Case("receive orders", (MessageObject,), is_list=True),
    "queue purge": Case("queue purge orders", (QueueInfo,)),
    "sequence list": Case("sequence list", (SequenceInfo,), is_list=True),
    "sequence show": Case(f"sequence show '{FAR}'", (SequenceInfo,), is_list=True),
    "sequence reset": Case("sequence reset --address 10.6.6.6 --yes", (SequenceReset,)),
    "sequence admit": Case(f"sequence admit {GUID} 192.0.2.7", (AdmittedAddress, Admitted)),
    "sequence admitted": Case("sequence admitted", (AdmittedAddress,), is_list=True),
    "sequence revoke": Case(f"sequence revoke {GUID} 192.0.2.7", (AdmittedAddress,)),
    "claim list": Case("claim list", (ClaimObject,), is_list=True),
    "claim release": Case("claim release claimed one --yes", (Returned,)),
    "user add": Case("user add ada --role read", (UserInfo,)),
    "user list": Case("user list", (UserInfo,), is_list=True),
    "user show": Case("user show ada", (UserInfo,)),
    "user set": Case("user set ada --role operate", (UserInfo,)),
    "user passwd": Case("user passwd ada --password-file password", (UserInfo,)),
    "user token": Case("user token ada", (NewToken,)),
    "user remove": Case("user remove ada --yes", (UserInfo,)),
    "user whoami": Case("user whoami", (IdentityInfo,)),
    "queue acl": Case("queue acl orders --grant everyone:send", (Acl,)),
    "key show": Case("key show", (Keys,)),
    "key export": Case("key export --out here.keys", (ExportedKeys,)),
    "key trust": Case("key trust host.example here.keys", (TrustedKey,)),
    "key untrust": Case("key untrust host.example", (TrustedKey,)),
    "key import": Case("key import alice.pem --kind signing", (ImportedKeys,)),
    "key rotate": Case("key rotate --kind signing", (Keys,)),
    "cert create": Case("cert create --out made.pem", (CertificateCreated,)),
    "cert list": Case("cert list", (CertificateInfo,), is_list=True),
    "cert register": Case("cert register made.pem", (CertificateInfo,)),
    "cert import": Case("cert import alice.pem", (CertificateInfo,)),
    "cert remove": Case("cert remove $DIGEST", (CertificateInfo,)),
    "audit": Case("audit", (AuditEntry,), is_list=True),
    "store damaged": Case("store damaged --forget", (DamagedPage, Forgotten)),
    "status": Case("status", (StatusInfo,)),
    "doctor": Case("doctor", (Checks,), code=1),
}
# HTTP has no answer to compare with.
OTHERS = {
    "serve": "it writes one line when it is ready",
    "demo": "it starts daemons, and shows a story",
    "decode": "it reads files",
    "bench": "it measures",
    "sim": "it simulates",
    "open": "each link is another one",
    "token": "the daemon does not say it",
    "store verify": "it reads a folder, or waits for the daemon's report",
    "store backup": "HTTP gives the backup itself",
    "store restore": "it writes a folder",
    "store salvage": "it reads a folder",
    "store forget-users": "it changes a folder",
    **{
        f"spark {name}": "it runs on Spark"
        for name in ("archive", "deadletters", "audit", "trace", "decode", "replay", "inventory")
    },
}


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    later = getattr(command, "verbs", {})
    for name, each in below.items():
        yield from commands(later[name].load(name) if name in later else each, f"{path} {name}")


ALL = dict(each for name, verb in VERBS.items() for each in commands(verb.load(name), name))


@pytest.mark.parametrize("verb", ALL)
def test_every_verb_takes_json(verb: str) -> None:
    assert "--json" in [option for parameter in ALL[verb].params for option in parameter.opts]


def test_every_verb_is_compared_with_http_or_has_nothing_there() -> None:
    assert ALL.keys() == CASES.keys() | OTHERS.keys()


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The output of each verb, and its exit code."""
    folder = tmp_path_factory.mktemp("json")
    (folder / "password").write_text("correct horse\n", encoding="utf-8")
    _, certificate, *_ = files(folder)
    found = {}
    with daemon(folder / "data", "--json") as environment:

        def command(line: str) -> Any:
            return run("waypost.cli", *shlex.split(line), env=environment, cwd=folder)

        for line in ("queue create orders", "send orders --body 0", f"send '{FAR}' --body 0 --transactional"):
            assert command(line).returncode == 0
        with waypost.connect(environment["WAYPOST_URL"]) as manager:
            manager.create_queue("claimed").send("0")
            manager.call(Claim(name="claimed", claim="one"))
        for verb, case in CASES.items():
            line = case.line.replace("$DIGEST", sha1(certificate).hexdigest())
            if "$ID" in line:
                first = command("peek orders --json")
                line = line.replace("$ID", json.loads(first.stdout)[0]["lookup_id"])
            found[verb] = command(f"{line} --json")
    return found


@pytest.mark.parametrize("verb", CASES)
def test_a_verb_writes_json_with_the_keys_of_http(verb: str, answers: dict[str, Any]) -> None:
    case, done = CASES[verb], answers[verb]
    assert done.returncode in (0, case.code), done.stderr
    content = json.loads(done.stdout)
    assert isinstance(content, list) is case.is_list
    known = {field.encode_name for kind in case.kinds for field in msgspec.structs.fields(kind)}
    for each in content if case.is_list else [content]:
        assert each
        assert each.keys() <= known, each.keys() - known


def test_lists_that_were_compared_had_something_in_them(answers: dict[str, Any]) -> None:
    empty = [verb for verb, case in CASES.items() if case.is_list and not json.loads(answers[verb].stdout)]
    assert empty == []


def test_packets_and_json_do_not_share_standard_output(tmp_path: Path) -> None:
    with daemon(tmp_path / "data") as environment:
        shell("waypost queue create orders", environment, tmp_path)
        done = shell("waypost message export orders - --json", environment, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
