"""Files with keys and passwords, for commands about keys and certificates."""

import os
from pathlib import Path
from typing import Annotated

import typer

from waypost.cli.program import Failure
from waypost.client.certificate_files import certificate_text
from waypost.errors import InvalidParameter

PasswordFile = Annotated[
    Path | None, typer.Option(metavar="F", help="File with the password of the private key, on one line.")
]


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Failure(
            f"Cannot read {path}: {error.strerror or error}.", "check the name and permissions of the file."
        ) from None


def write_file(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise Failure(f"Cannot write {path}: {error.strerror or error}.", "specify another file.") from None


def password_of(path: Path | None) -> str:
    """The password in a file, or "" without a file."""
    if path is None:
        return ""
    try:
        password = read_file(path).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise Failure(f"{path} is not UTF-8 text.", "write one line with the password into the file.") from None
    if not password:
        raise Failure(f"{os.fspath(path)} contains no password.", "write one line with the password into the file.")
    return password


def certificate_of(text: str, password_file: Path | None) -> str:
    """A certificate for a send: a digest, or the PEM text of a file with a certificate and its key."""
    try:
        found = certificate_text(text, password_of(password_file))
    except InvalidParameter as error:
        sentence = str(error).replace("certificate_password", "--password-file")
        raise Failure(
            f"{sentence[:1].upper()}{sentence[1:]}.",
            "use a file with the certificate and its private key, in PEM or PKCS#12; if the file needs a password, add "
            "--password-file.",
        ) from None
    assert found is not None
    return found
