"""Files with keys and passwords, for commands about keys and certificates."""

import os
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from waypost.cli.program import Failure

_DIGEST: Final = re.compile("[0-9A-Fa-f]{40}")

PasswordFile = Annotated[
    Path | None, typer.Option(metavar="F", help="File with the password of the private key, on one line.")
]


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Failure(f"Cannot read {path}: {error.strerror or error}.", "check its name and permissions.") from None


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


def certificate_of(text: str) -> str:
    """A certificate for a send: a digest as it is, or the PEM text of a file with a certificate and its key."""
    if _DIGEST.fullmatch(text):
        return text.lower()
    data = read_file(Path(text))
    if b"-----BEGIN " not in data:
        raise Failure(
            f"{text} is not a PEM file with a certificate and its private key.",
            "import the certificate with `waypost cert import`, and specify its digest.",
        )
    return data.decode("ascii", "replace")
