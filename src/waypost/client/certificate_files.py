"""Certificates that a program or a command gives for a send, as the queue manager takes them."""

import os
import re
from importlib import import_module
from pathlib import Path
from typing import Final, TypeAlias

from waypost.errors import InvalidParameter

# A digest, PEM text or the name of a file; the bytes of a file; or its path.
Certificate: TypeAlias = str | bytes | os.PathLike[str]

_DIGEST: Final = re.compile("[0-9A-Fa-f]{40}")
_BEGIN: Final = "-----BEGIN "


def certificate_text(certificate: Certificate | None, password: str = "") -> str | None:
    """The digest of a certificate, or the PEM text of a certificate with its key. Raises InvalidParameter.

    A file is PEM or PKCS#12. The queue manager gets its private key for this send, and does not store it.
    """
    if certificate is None:
        if password:
            raise InvalidParameter("`certificate_password` requires `certificate`")
        return None
    if isinstance(certificate, str):
        if _DIGEST.fullmatch(certificate):
            if password:
                raise InvalidParameter("`certificate_password` is only for a certificate file, not for a digest")
            return certificate.lower()
        if _BEGIN in certificate:
            return _pem(certificate.encode(), password, "the certificate")
    if isinstance(certificate, bytes):
        return _pem(certificate, password, "the certificate")
    try:
        data = Path(certificate).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidParameter(f"cannot read the certificate file {os.fspath(certificate)}: {reason}") from None
    return _pem(data, password, f"{os.fspath(certificate)}: the file")


def _pem(data: bytes, password: str, where: str) -> str:
    # Only programs that sign with a file have to wait for this import.
    text: str = import_module("waypost.drive.keys.formats").signer_pem(data, password, where)
    return text
