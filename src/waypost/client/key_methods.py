"""Methods about keys and certificates. waypost.client.aio_key_methods has the same with coroutines."""

from typing import TYPE_CHECKING

from msgspec import UNSET

from waypost.api.keys import (
    CERTIFICATE_DAYS,
    GRACE_DAYS,
    CertificateCreated,
    CertificateInfo,
    CreateCertificate,
    ExportKeys,
    ImportCertificate,
    ImportedKeys,
    ImportKey,
    KeyFormat,
    KeyKind,
    Keys,
    ListCertificates,
    ListTrustedKeys,
    RegisterCertificate,
    RemoveCertificate,
    RotateKeys,
    ShowKeys,
    TrustedKey,
    TrustKeys,
    UntrustKeys,
)

if TYPE_CHECKING:
    from waypost.client.transports import Transport


class KeyMethods:
    """The part of a Manager for keys and certificates."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def _transport(self) -> Transport: ...

    def keys(self) -> Keys:
        """Return the keys of the queue manager, as the lists `exchange` and `signing`. If the queue manager has no keys
        yet, the call creates them.
        """
        return self._transport.call(ShowKeys())

    def export_keys(
        self,
        kind: KeyKind = "exchange",
        format: KeyFormat = "mqdspublickeys",  # noqa: A002, the name of the field
    ) -> bytes:
        """Return the current public key of this `kind`, in this `format`. Pass the returned bytes to `trust_keys` of
        another queue manager.
        """
        return self._transport.call(ExportKeys(kind=kind, format=format)).data

    def import_key(
        self, data: bytes, kind: KeyKind = "exchange", *, password: str = "", grace: int = GRACE_DAYS
    ) -> ImportedKeys:
        """Import a private RSA key, in PEM format, as the current key. If the key has fewer bits than the setting
        `security.key_bits`, the returned object contains a `warning`.

        For `grace` days, the queue manager still accepts messages that are encrypted with the previous exchange key.
        Signing keys are never used to encrypt messages.
        """
        return self._transport.call(ImportKey(data=data, kind=kind, password=password, grace=grace))

    def rotate_keys(self, kind: KeyKind | None = None, *, grace: int = GRACE_DAYS) -> Keys:
        """Create a new key of this `kind`, or new keys of both kinds.

        For `grace` days, the queue manager still accepts messages that are encrypted with the previous exchange key.
        Signing keys are never used to encrypt messages.
        """
        return self._transport.call(RotateKeys(kind=UNSET if kind is None else kind, grace=grace))

    def trusted_keys(self) -> list[TrustedKey]:
        """Return the pinned keys of other queue managers."""
        return list(self._transport.call(ListTrustedKeys()).trusted)

    def trust_keys(self, who: str, data: bytes, kind: KeyKind = "exchange") -> TrustedKey:
        """Pin the keys of another queue manager.

        `who` is the host or the GUID of that queue manager. `data` is the result of `export_keys` on that queue
        manager, and `kind` is the kind of the exported key.
        """
        return self._transport.call(TrustKeys(who=who, data=data, kind=kind))

    def untrust_keys(self, who: str, kind: KeyKind | None = None) -> None:
        """Remove the pinned keys of another queue manager, either of one kind or of both kinds. `who` is the host or
        the GUID of that queue manager.
        """
        self._transport.call(UntrustKeys(who=who, kind=kind or "both"))

    def certificates(self, user: str = "") -> list[CertificateInfo]:
        """Return the registered certificates of all users, or of one user."""
        return list(self._transport.call(ListCertificates(user=user)).certificates)

    def register_certificate(self, certificate: bytes, user: str = "") -> CertificateInfo:
        """Register a certificate (PEM or DER) for a user.

        If a message is signed with the key of the certificate, the queue manager regards this user as the sender. If
        `user` is an empty string, the certificate is for the caller.
        """
        return self._transport.call(RegisterCertificate(certificate=certificate, user=user))

    def create_certificate(self, user: str = "", *, days: int = CERTIFICATE_DAYS) -> CertificateCreated:
        """Create an internal certificate and its key for a user.

        The key is stored in the key folder. If `user` is an empty string, the certificate is for the caller.
        """
        return self._transport.call(CreateCertificate(user=user, days=days))

    def import_certificate(self, data: bytes, user: str = "", *, password: str = "") -> CertificateInfo:
        """Import a certificate with its key (PEM or PKCS#12), and register the certificate for a user.

        If `user` is an empty string, the certificate is for the caller.
        """
        return self._transport.call(ImportCertificate(data=data, user=user, password=password))

    def remove_certificate(self, digest: str) -> None:
        """Remove a certificate and its key.

        After the removal, the queue manager refuses messages that are signed with this certificate.
        """
        self._transport.call(RemoveCertificate(digest=digest))
