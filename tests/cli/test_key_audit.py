"""The audit trail of key and certificate commands: the real result, and the object of each operation."""

import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.cli import desk as _desk
from tests.cli.daemons import daemon, shell
from tests.cli.desk import Desk
from tests.cli.test_key_and_cert_commands import files

desk = _desk.desk


def last(desk: Desk) -> tuple[str, str, str]:
    entry = desk.json("audit", "--limit", "1")[0]
    return entry["what"], entry["object"], entry["result"]


def test_failed_operations_on_keys_and_certificates_are_noted_with_their_error(desk: Desk, tmp_path: Path) -> None:
    weak, junk = tmp_path / "weak.key", tmp_path / "junk"
    key = generate_private_key(65537, 1024)
    weak.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())[:-99])
    junk.write_bytes(b"junk")
    old, *_ = files(tmp_path, from_day=-9, to_day=-1)
    for arguments, what, subject, sentence in (
        (("key", "import", "--kind", "signing", str(weak)), "import key", "signing", "is not a private key"),
        (("cert", "remove", "00"), "remove certificate", "00", "is not registered"),
        (("key", "untrust", "nosuch"), "untrust keys", "nosuch", "no keys are pinned for"),
        (("key", "trust", "foo", str(junk)), "trust keys", "foo", "is neither PEM nor MQDSPUBLICKEYS"),
        (("cert", "register", str(old)), "register certificate", "administrator", "expired on"),
        (("cert", "register", "--user", "S-1-5-21-1-2-3-7", str(junk)), "register certificate", "S-1-5-21-1-2-3-7",
         "is not a certificate"),
    ):  # fmt: skip
        assert desk.run(*arguments).exit_code != 0
        found = last(desk)
        assert found[:2] == (what, subject)
        assert sentence in found[2]


def test_changes_of_keys_and_certificates_are_noted_with_their_objects(desk: Desk, tmp_path: Path) -> None:
    own = desk.json("cert", "create")["digest"]
    assert last(desk) == ("create certificate", f"{own} of administrator", "ok")
    desk.do("cert", "remove", own.upper())
    assert last(desk) == ("remove certificate", f"{own} of administrator", "ok")
    found = desk.json("key", "rotate")
    exchange, signing = found["exchange"][0]["digest"], found["signing"][0]["digest"]
    assert last(desk) == ("rotate keys", f"exchange {exchange}, signing {signing}", "ok")
    desk.do("key", "export", "--out", str(tmp_path / "keys"))
    desk.do("key", "trust", "Far", str(tmp_path / "keys"))
    assert last(desk) == ("trust keys", "Far", "ok")
    desk.do("key", "untrust", "far")
    assert last(desk) == ("untrust keys", "far", "ok")
    entries = desk.json("audit")
    assert len(entries) == 5


def test_a_daemon_notes_the_answer_of_the_key_folder_and_keeps_the_entries(tmp_path: Path) -> None:
    with daemon(tmp_path) as environment:
        assert shell("waypost cert remove 00", environment, tmp_path).returncode != 0
        (entry,) = json.loads(shell("waypost audit --json", environment, tmp_path).stdout)
        assert (entry["what"], entry["object"], entry["count"]) == ("remove certificate", "00", 1)
        assert entry["result"] == "the certificate '00' is not registered"
