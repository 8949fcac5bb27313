"""`waypost key` and `waypost cert`: the forms that other programs rely on, and files that are refused."""

import time
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as new_curve_key
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import CertificateBuilder, Name, NameAttribute, load_der_x509_certificate
from cryptography.x509.oid import NameOID

import waypost
from tests.cli import desk as _desk
from tests.cli.desk import Desk
from tests.security import second
from waypost.drive.keys.rsa_work import perform
from waypost.errors import InvalidParameter, KeyFolderError
from waypost.security.work import SelfSign

desk = _desk.desk

PROVIDERS = list(second.PROVIDERS)


def refused(desk: Desk, *arguments: str) -> str:
    result = desk.run(*arguments)
    assert result.exit_code != 0
    # As it is written in the code, and as the command line begins a sentence.
    return f"{result.stderr}{result.stderr[:1].lower()}{result.stderr[1:]}"


def files(tmp_path: Path, *, from_day: int = -1, to_day: int = 30) -> tuple[Path, bytes, Any, Any]:
    """A PEM file with a certificate and its key, the DER form of the certificate, and both as objects."""
    key = generate_private_key(65537, 1024)
    private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    now = int(time.time())
    der = perform(SelfSign(private, "alice", "there", now + from_day * 86_400, now + to_day * 86_400))
    certificate = load_der_x509_certificate(der)
    file = tmp_path / "alice.pem"
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(certificate.public_bytes(Encoding.PEM) + pem)
    return file, der, certificate, key


def test_keys_are_shown_exported_and_rotated(desk: Desk, tmp_path: Path) -> None:
    shown = desk.json("key", "show")
    assert set(shown) == {"exchange", "signing"}
    assert [each["provider"] for each in shown["exchange"]] == PROVIDERS
    assert {"provider", "bits", "digest", "created", "retired"} <= set(shown["exchange"][0])
    assert (shown["exchange"][0]["bits"], shown["exchange"][0]["retired"]) == (2048, None)
    pem, blob = tmp_path / "key.pem", tmp_path / "key.blob"
    desk.do("key", "export", "--format", "pem", "--out", str(pem))
    desk.do("key", "export", "--format", "mqdspublickeys", "--out", str(blob))
    found = load_pem_public_key(pem.read_bytes())
    assert isinstance(found, RSAPublicKey)
    numbers = found.public_numbers()
    assert blob.read_bytes() == second.public_keys_blob(numbers.e, numbers.n)
    rotated = desk.json("key", "rotate", "--kind", "exchange")
    assert [each["retired"] is None for each in rotated["exchange"]] == [True] * 3 + [False] * 3
    assert rotated["exchange"][3]["digest"] == shown["exchange"][0]["digest"]
    assert rotated["signing"] == shown["signing"]
    result = desk.run("key", "rotate", "--kind", "exchange", "--grace", "0")
    assert "All earlier exchange keys are now invalid." in result.stderr
    at_once = desk.json("key", "show")
    # Also the key of the rotation before, whose grace was 30 days.
    assert [each["retired"] for each in at_once["exchange"]] == [None] * 3
    assert at_once["exchange"][0]["digest"] not in {each["digest"] for each in rotated["exchange"]}
    assert at_once["signing"] == shown["signing"]


@pytest.mark.parametrize("format", ["pem", "mqdspublickeys"])
def test_keys_of_others_are_pinned_by_host_or_guid(desk: Desk, tmp_path: Path, format: str) -> None:  # noqa: A002
    file = tmp_path / "keys"
    desk.do("key", "export", "--format", format, "--out", str(file))
    guid = "1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11"
    desk.do("key", "trust", "Accounting", str(file))
    desk.do("key", "trust", f"{{{guid.upper()}}}", str(file))
    found = desk.json("key", "trust", "--list")
    assert [each["who"] for each in found] == [guid, "accounting"]
    assert found[0]["digests"] == [desk.json("key", "show")["exchange"][0]["digest"]]
    desk.do("key", "untrust", "accounting")
    assert [each["who"] for each in desk.json("key", "trust", "--list")] == [guid]
    assert "no keys are pinned" in refused(desk, "key", "untrust", "accounting")


@pytest.mark.parametrize("who", ["127.0.0.1:1801", "Accounting:1801", "127.0.0.1:"])
def test_keys_are_pinned_without_a_port(desk: Desk, tmp_path: Path, who: str) -> None:
    file = tmp_path / "keys"
    desk.do("key", "export", "--out", str(file))
    result = desk.run("key", "trust", who, str(file))
    host, _, port = who.lower().rpartition(":")
    assert (result.exit_code, desk.json("key", "trust", "--list")) == (2, [])
    if port:
        wanted = f"'{who.lower()}' contains a port, but keys are pinned for a host, without a port."
        assert result.stderr == f"{wanted}\nhint: omit the port: '{host}'.\n"
    else:
        assert "is not a host name, an address or a GUID" in result.stderr
    desk.do("key", "trust", "FE80::1:1801", str(file))
    assert [each["who"] for each in desk.json("key", "trust", "--list")] == ["fe80::1:1801"]


def test_a_pin_with_a_port_of_an_earlier_version_can_be_removed(tmp_path: Path) -> None:
    with waypost.open(tmp_path / "data", name="HOST") as manager:
        manager.trust_keys("accounting", manager.export_keys())
    index = tmp_path / "data" / "keys" / "index.json"
    index.write_text(index.read_text().replace('"accounting"', '"accounting:1801"'))
    with waypost.open(tmp_path / "data", name="HOST") as manager:
        assert [each.who for each in manager.trusted_keys()] == ["accounting:1801"]
        manager.untrust_keys("accounting:1801")
        assert manager.trusted_keys() == []


@pytest.mark.parametrize("kind", ["exchange", "signing"])
def test_a_key_shorter_than_new_keys_is_imported_with_a_warning(desk: Desk, tmp_path: Path, kind: str) -> None:
    for bits in (1024, 2048):
        key = generate_private_key(65537, bits)
        file = tmp_path / f"{bits}.pem"
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        result = desk.run("key", "import", str(file), "--kind", kind)
        assert result.exit_code == 0
        warning = f"the imported {kind} key has only 1024 bits, but new keys have 2048 bits (security.key_bits)"
        assert result.stderr == (f"warning: {warning}.\n" if bits == 1024 else "")
        assert desk.json("key", "show")[kind][0]["bits"] == bits
    other = tmp_path / "other.pem"
    other.write_bytes(
        generate_private_key(65537, 1024).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    assert desk.json("key", "import", str(other), "--kind", kind)["warning"] == warning


def test_exchange_and_signing_keys_are_pinned_apart(desk: Desk, tmp_path: Path) -> None:
    exchange, signing = tmp_path / "exchange", tmp_path / "signing"
    desk.do("key", "export", "--out", str(exchange))
    desk.do("key", "export", "--kind", "signing", "--format", "pem", "--out", str(signing))
    desk.do("key", "trust", "far", str(exchange))
    assert "The signing keys of far are trusted" in desk.do("key", "trust", "far", str(signing), "--kind", "signing")
    shown = desk.json("key", "show")
    found = {each["kind"]: each["digests"] for each in desk.json("key", "trust", "--list")}
    assert found == {kind: [shown[kind][0]["digest"]] for kind in ("exchange", "signing")}
    assert "KIND" in desk.do("key", "trust", "--list")
    desk.do("key", "untrust", "far", "--kind", "exchange")
    assert [each["kind"] for each in desk.json("key", "trust", "--list")] == ["signing"]
    assert "no keys are pinned" in refused(desk, "key", "untrust", "far", "--kind", "exchange")
    desk.do("key", "untrust", "far")
    assert desk.json("key", "trust", "--list") == []


def test_certificates_are_created_registered_imported_listed_and_removed(desk: Desk, tmp_path: Path) -> None:
    out = tmp_path / "own.pem"
    own = desk.json("cert", "create", "--days", "7", "--out", str(out))
    assert {"digest", "user", "sid", "subject", "not_after", "internal"} <= set(own)
    assert (own["user"], own["internal"]) == ("administrator", True)
    assert own["sid"].endswith("-500")
    assert out.read_bytes().startswith(b"-----BEGIN CERTIFICATE-----")
    file, der, certificate, key = files(tmp_path)
    (tmp_path / "alice.der").write_bytes(der)
    sid = "S-1-5-21-1-2-3-1104"
    registered = desk.json("cert", "register", "--user", sid, str(tmp_path / "alice.der"))
    assert (registered["sid"], registered["internal"], registered["can_sign"]) == (sid, False, False)
    assert "is already registered for" in refused(desk, "cert", "register", str(file))
    assert {each["digest"] for each in desk.json("cert", "list")} == {own["digest"], registered["digest"]}
    assert [each["digest"] for each in desk.json("cert", "list", "--user", sid)] == [registered["digest"]]
    desk.do("cert", "remove", registered["digest"])
    p12, password = tmp_path / "alice.p12", tmp_path / "password"
    p12.write_bytes(serialize_key_and_certificates(b"a", key, certificate, None, BestAvailableEncryption(b"secret")))
    password.write_text("secret\n")
    imported = desk.json("cert", "import", str(p12), "--password-file", str(password))
    assert (imported["digest"], imported["can_sign"]) == (registered["digest"], True)
    message = desk.manager.create_queue("q").send("x", sign=True, certificate=imported["digest"])
    assert "alice" in (message.certificate_subject or "")
    assert "is not registered" in refused(desk, "cert", "remove", "00" * 20)


def test_files_that_are_wrong_are_refused_and_nothing_changes(desk: Desk, tmp_path: Path) -> None:
    file, _, certificate, key = files(tmp_path)
    password, other = tmp_path / "password", tmp_path / "other"
    password.write_text("wrong\n")
    p12 = tmp_path / "alice.p12"
    p12.write_bytes(serialize_key_and_certificates(b"a", key, certificate, None, BestAvailableEncryption(b"secret")))
    assert "password is wrong" in refused(desk, "cert", "import", str(p12), "--password-file", str(password))
    assert "requires a password" in refused(desk, "cert", "import", str(p12))
    other.write_bytes(b"nonsense")
    assert "is not a certificate" in refused(desk, "cert", "register", str(other))
    assert "neither PEM nor MQDSPUBLICKEYS" in refused(desk, "key", "trust", "host", str(other))
    assert "neither PEM nor PKCS#12" in refused(desk, "cert", "import", str(other))
    assert "is not a private key" in refused(desk, "key", "import", str(other))
    assert "annot read" in refused(desk, "cert", "register", str(tmp_path / "missing"))
    assert "does not exist" in refused(desk, "cert", "register", "--user", "nobody", str(file))
    assert "is not a host name, an address or a GUID" in refused(desk, "key", "trust", "a host", str(other))
    curve = new_curve_key(SECP256R1())
    other.write_bytes(curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert "not an RSA key" in refused(desk, "key", "import", str(other))
    other.write_bytes(curve.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert "not an RSA key" in refused(desk, "key", "trust", "host", str(other))
    old, *_ = files(tmp_path, from_day=-9, to_day=-1)
    assert "expired" in refused(desk, "cert", "register", str(old))
    early, *_ = files(tmp_path, from_day=1)
    assert "is not valid before" in refused(desk, "cert", "register", str(early))
    assert desk.json("cert", "list") == desk.json("key", "trust", "--list") == []


def test_a_file_of_another_kind_is_named(desk: Desk, tmp_path: Path) -> None:
    file, der, certificate, key = files(tmp_path)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    blob = second.public_keys_blob(65537, key.public_key().public_numbers().n)
    p12 = serialize_key_and_certificates(b"a", key, certificate, None, BestAvailableEncryption(b"secret"))
    pem = certificate.public_bytes(Encoding.PEM)
    trust, register, import_key = ("key", "trust", "host"), ("cert", "register"), ("key", "import")
    for command, content, sentence, hint in (
        (trust, private, "contains a private key, but must contain only a public key.", "keep the private key secret"),
        (
            trust,
            public + private,
            "contains a private key, but must contain only a public key.",
            "`waypost key export`",
        ),
        (trust, public + public, "contains 2 public keys, but must contain one public key.", "`waypost key export`"),
        (trust, pem, "contains a certificate, but must contain one public key.", "`waypost key export`"),
        (trust, der, "contains a certificate, but must contain public keys.", "`waypost key export`"),
        (
            trust,
            blob[:-1],
            f"is incomplete: the keys have {len(blob)} bytes, but the file has {len(blob) - 1}.",
            "key ex",
        ),
        (
            trust,
            blob[:9],
            f"is incomplete: the keys have {len(blob)} bytes, but the file has 9.",
            "`waypost key export`",
        ),
        (trust, b"", "is empty.", "`waypost key export`"),
        (trust, public[:80] + public[90:], "is not a public key in PEM.", "`waypost key export`"),
        (register, b"junk", "is not a certificate in PEM or DER.", "`waypost cert import` imports"),
        (register, pem[:200] + pem[210:], "is not a certificate in PEM or DER.", "`waypost cert import` imports"),
        (register, p12, "contains a certificate with its private key (PKCS#12), but must", "`waypost cert import`"),
        (register, private, "contains a private key, but must contain a certificate in PEM or DER.", "PEM or DER"),
        (import_key, b"junk", "is not a private key in PEM or DER.", "private key in PEM"),
        (import_key, public, "is not a private key, but contains a public key.", "private key in PEM"),
    ):
        file.write_bytes(content)
        result = desk.run(*command, str(file))
        assert (result.exit_code, result.stdout) == (2, "")
        said, advice = result.stderr.splitlines()
        assert said.startswith(f"The file {sentence}")
        assert hint in advice
    assert desk.json("cert", "list") == desk.json("key", "trust", "--list") == []


def test_a_refused_certificate_has_a_hint_that_helps(desk: Desk, tmp_path: Path) -> None:
    def hint(*arguments: str) -> str:
        result = desk.run(*arguments)
        assert result.exit_code == 2
        assert "--help" not in result.stderr
        return result.stderr.splitlines()[1]

    old, *_ = files(tmp_path, from_day=-9, to_day=-1)
    assert "a certificate that is still valid" in hint("cert", "register", str(old))
    early, *_ = files(tmp_path, from_day=1)
    assert "the clock of this computer" in hint("cert", "register", str(early))
    file, _, certificate, key = files(tmp_path)
    digest = desk.json("cert", "register", "--user", "S-1-5-21-1-2-3-1104", str(file))["digest"]
    assert f"remove this one first: `waypost cert remove {digest}`" in hint("cert", "register", str(file))
    p12, password = tmp_path / "a.p12", tmp_path / "password"
    p12.write_bytes(serialize_key_and_certificates(b"a", key, certificate, None, BestAvailableEncryption(b"secret")))
    password.write_text("wrong\n")
    assert "--password-file" in hint("cert", "import", str(p12), "--password-file", str(password))
    assert "--password-file" in hint("cert", "import", str(p12))
    curve = new_curve_key(SECP256R1())
    name = Name([NameAttribute(NameOID.COMMON_NAME, "alice")])
    now = datetime.now(UTC)
    made = CertificateBuilder(name, name, curve.public_key(), 1, now, now + timedelta(days=1)).sign(curve, SHA256())
    file.write_bytes(made.public_bytes(Encoding.PEM))
    assert "use a certificate with an RSA key" in hint("cert", "register", str(file))


def test_requests_that_cannot_work_are_refused_when_they_are_given(desk: Desk, tmp_path: Path) -> None:
    desk.manager.create_queue("q")
    far = r"DIRECT=OS:far\private$\q"
    assert "waypost key trust far FILE" in refused(desk, "send", far, "--body", "x", "--encrypt")
    assert "several queues" in refused(desk, "send", "q", "--body", "x", "--sign", "--signature", "3")
    assert "require `sign`" in refused(desk, "send", "q", "--body", "x", "--hash", "md5")
    assert "`algorithm` requires `encrypt`" in refused(desk, "send", "q", "--body", "x", "--sign", "--algorithm", "rc2")
    assert "has no certificate" in refused(desk, "send", "q", "--body", "x", "--sign", "--certificate", "00" * 20)
    assert desk.manager.queue("q").info().message_count == 0
    assert not any(each["message_count"] for each in desk.json("queue", "list"))
    desk.do("key", "export", "--out", str(tmp_path / "keys"))
    desk.do("key", "trust", "near", str(tmp_path / "keys"))
    before = desk.manager.list_queues("outgoing")
    several = rf"DIRECT=OS:near\private$\q,{far}"
    assert "waypost key trust far FILE" in refused(desk, "send", several, "--body", "x", "--encrypt")
    for signed in ((), ("--sign",)):
        assert "waypost key trust far FILE" in refused(desk, "send", far, "--body", "x", "--encrypt", *signed)
    assert desk.manager.list_queues("outgoing") == before == []


def test_a_file_signs_a_send_in_pem_or_pkcs12(desk: Desk, tmp_path: Path) -> None:
    file, der, certificate, key = files(tmp_path)
    sid = desk.json("cert", "create")["sid"]
    (tmp_path / "alice.der").write_bytes(der)
    desk.do("cert", "register", "--user", sid, str(tmp_path / "alice.der"))
    p12, password = tmp_path / "good.p12", tmp_path / "password"
    p12.write_bytes(serialize_key_and_certificates(b"a", key, certificate, None, BestAvailableEncryption(b"secret")))
    password.write_text("secret\n")
    locked = tmp_path / "locked.pem"
    sealed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    locked.write_bytes(certificate.public_bytes(Encoding.PEM) + sealed)
    queue = desk.manager.create_queue("q", authenticate=True)
    desk.do("send", "q", "--body", "x", "--sign", "--certificate", str(file))
    for each in (p12, locked):
        words = ("--sign", "--certificate", str(each), "--password-file", str(password))
        desk.do("send", "q", "--body", "x", *words)
    queue.send("x", sign=True, certificate=file)
    queue.send("x", sign=True, certificate=str(file))
    queue.send("x", sign=True, certificate=file.read_bytes())
    queue.send("x", sign=True, certificate=file.read_text())
    queue.send("x", sign=True, certificate=p12, certificate_password="secret")
    queue.send("x", sign=True, certificate=p12.read_bytes(), certificate_password="secret")
    found = list(queue.browse())
    assert len(found) == 9
    assert {(each.authenticated, each.certificate_subject) for each in found} == {(True, "O=there,CN=alice")}


def test_a_file_that_cannot_sign_is_refused_with_the_reason(desk: Desk, tmp_path: Path) -> None:
    _, der, certificate, key = files(tmp_path)
    queue = desk.manager.create_queue("q")
    bare, raw, p12, empty, password = (
        tmp_path / name for name in ("bare.pem", "raw.der", "c.p12", "e.p12", "password")
    )
    bare.write_bytes(certificate.public_bytes(Encoding.PEM))
    raw.write_bytes(der)
    p12.write_bytes(serialize_key_and_certificates(b"a", key, certificate, None, BestAvailableEncryption(b"secret")))
    empty.write_bytes(serialize_key_and_certificates(b"a", None, certificate, None, NoEncryption()))
    password.write_text("wrong\n")
    send = ("send", "q", "--body", "x", "--sign")
    for file in (bare, raw, empty):
        assert f"{file}: the file has no private key" in refused(desk, *send, "--certificate", str(file))
        with pytest.raises(InvalidParameter, match="has no private key"):
            queue.send("x", sign=True, certificate=file.read_bytes())
    assert "requires a password" in refused(desk, *send, "--certificate", str(p12))
    wrong = ("--certificate", str(p12), "--password-file", str(password))
    assert "the password is wrong" in refused(desk, *send, *wrong)
    assert "annot read" in refused(desk, *send, "--certificate", str(tmp_path / "missing"))
    assert "requires --certificate" in refused(desk, *send, "--password-file", str(password))
    digest = ("--certificate", "00" * 20, "--password-file", str(password))
    assert "not for a digest" in refused(desk, *send, *digest)
    assert "has no private key" in refused(desk, "cert", "import", str(bare))
    assert queue.info().message_count == 0


def test_a_message_shows_what_was_verified(desk: Desk) -> None:
    desk.manager.create_queue("q", authenticate=True, privacy="body")
    desk.do("send", "q", "--body", "x", "--sign", "--encrypt", "--algorithm", "aes128")
    (found,) = desk.json("receive", "q")
    wanted = {"authenticated": True, "signature": "msmq20", "sender_verified": True, "encrypted": "aes128"}
    assert wanted.items() <= found.items()
    assert found["sender_sid"].endswith("-500")
    assert found["certificate_subject"].startswith("O=Waypost on HOST,CN=administrator")


@pytest.mark.spec("MQDMPR-3.1.1.1-28")
def test_a_send_is_signed_with_the_internal_certificate_that_was_made_last(desk: Desk) -> None:
    """A user may have several: readings MQDMPR 7.6."""
    queue = desk.manager.create_queue("q")
    made = [desk.json("cert", "create", "--days", days)["digest"] for days in ("700", "7", "30")]
    own = [each for each in desk.json("cert", "list") if each["user"] == "administrator" and each["internal"]]
    assert [each["digest"] for each in own] == made
    message = queue.send("x", sign=True)
    assert sha1(message._core.sender_certificate).hexdigest() == made[-1]
    desk.do("cert", "remove", made[-1])
    assert sha1(queue.send("x", sign=True)._core.sender_certificate).hexdigest() == made[1]


def test_private_keys_that_are_missing_or_of_others_stop_the_start_with_the_reason(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with waypost.open(data, name="HOST") as manager:
        exchange, signing = manager.keys().exchange[0].digest, manager.keys().signing[0].digest
        certificate = manager.create_certificate().digest
    folder = data / "keys"
    one, two, three = (folder / f"{each}.pem" for each in (exchange, signing, certificate))
    kept = {each: each.read_bytes() for each in (one, two, three)}
    sealed = load_pem_private_key(kept[one], None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    for path, content, sentence, has_hint in (
        (one, kept[two], f"the private key in {one} does not belong to the index", False),
        (three, kept[two], f"the private key in {three} does not belong to its certificate", False),
        (two, None, f"the private key {two} is missing; restore the folder", False),
        (one, b"junk", f"{one} is not a private key", False),
        (one, sealed, "the private key is encrypted, and no password is given", True),
    ):
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        with pytest.raises(KeyFolderError) as refused:
            waypost.open(data, name="HOST")
        assert sentence in str(refused.value)
        assert ("passphrase" in str(refused.value)) is has_hint
        path.write_bytes(kept[path])
        path.chmod(0o600)
    with waypost.open(data, name="HOST") as manager:
        assert manager.keys().exchange[0].digest == exchange


def test_the_key_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    with waypost.open(tmp_path / "data", name="HOST") as manager:
        digest = manager.keys().exchange[0].digest
    folder = tmp_path / "data" / "keys"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in folder.iterdir()} == {0o600}
    with waypost.open(tmp_path / "data", name="HOST") as manager:
        assert manager.keys().exchange[0].digest == digest
    for path, mode in ((folder, 0o700), (folder / "index.json", 0o600)):
        path.chmod(mode | 0o040)
        with pytest.raises(KeyFolderError, match=f"chmod {mode:o} {path}"):
            waypost.open(tmp_path / "data", name="HOST")
        path.chmod(mode)
    (folder / "index.json").write_bytes(b"{")
    with pytest.raises(KeyFolderError, match=r"index.json is damaged"):
        waypost.open(tmp_path / "data", name="HOST")
