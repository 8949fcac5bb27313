"""--cacert, and the end of the certificate of HTTP."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import waypost
from tests.cli.daemons import daemon
from waypost.errors import CannotConnect, InvalidParameter
from waypost.http.doctor import check_certificate

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def certificate(folder: Path, start: datetime, days: int) -> tuple[Path, Path]:
    """For 127.0.0.1, signed by itself: its file, and that of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "waypost")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


@pytest.mark.parametrize(
    ("days", "sentence"),
    [
        (90, "the HTTP certificate expires at 2026-08-30 00:00 UTC, in 90 days"),
        (20, "the HTTP certificate expires at 2026-06-21 00:00 UTC, in 20 days"),
        (-1, "the HTTP certificate expired at 2026-05-31 00:00 UTC"),
    ],
)
def test_the_doctor_says_when_the_certificate_ends(tmp_path: Path, days: int, sentence: str) -> None:
    file, _ = certificate(tmp_path, NOW - timedelta(days=10), 10 + days)
    found = check_certificate(str(file), NOW.timestamp())
    assert (found.check, found.ok, found.message) == ("certificate", days > 21, sentence)
    assert bool(found.hint) is not found.ok


def test_a_file_that_is_not_a_certificate_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "text.pem").write_text("text", encoding="utf-8")
    for name in ("nothing.pem", "text.pem"):
        found = check_certificate(str(tmp_path / name), NOW.timestamp())
        assert not found.ok
        assert str(tmp_path / name) in found.message


def test_a_daemon_with_its_own_certificate_is_trusted_with_cacert(tmp_path: Path) -> None:
    file, key = certificate(tmp_path, datetime.now(UTC) - timedelta(days=1), 11)
    with daemon(tmp_path / "data", "--set", f"http.tls_cert={file}", "--set", f"http.tls_key={key}") as environment:
        url = environment["WAYPOST_URL"].replace("http://", "https://")
        token = (tmp_path / "data/token").read_text(encoding="ascii").strip()
        # Programs of the same account use the Unix socket, which needs no certificate.
        waypost.connect(url).close()
        with pytest.raises(CannotConnect), waypost.connect(url, token=token):
            pass
        with waypost.connect(url, token=token, cacert=file) as manager:
            assert manager.status().queues == 0
            found = next(each for each in manager.doctor() if each.check == "certificate")
        done = subprocess.run(
            [sys.executable, "-m", "waypost.cli", "queue", "list", "--url", url, "--cacert", str(file), "--json"],
            env=os.environ | {"WAYPOST_TOKEN": token},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    assert not found.ok
    assert "in 9 days" in found.message


def test_a_file_of_certificates_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="is not readable: No such file or directory"):
        waypost.connect("https://127.0.0.1:1", cacert=tmp_path / "nothing.pem")
    (tmp_path / "text.pem").write_text("text", encoding="utf-8")
    with pytest.raises(InvalidParameter, match="is not a PEM file of certificates"):
        waypost.connect("https://127.0.0.1:1", cacert=tmp_path / "text.pem")
