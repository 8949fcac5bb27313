"""Operations about keys and certificates, and their replies.

The queue manager has an exchange key, for which others encrypt, and a signing key. A certificate belongs to a user, who
signs with its private key. Private keys are in the key folder and never in a reply.
"""

from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias, get_args

from msgspec import UNSET, Meta, UnsetType, field

from waypost.api.operation_rows import Owned
from waypost.api.operations import Operation, operation
from waypost.api.records import Record
from waypost.roles import Role

KeyKind: TypeAlias = Literal["exchange", "signing"]
KINDS: Final[tuple[KeyKind, ...]] = get_args(KeyKind)
KeyFormat: TypeAlias = Literal["pem", "mqdspublickeys"]

# Days for which a rotated exchange key still decrypts, and of a new internal certificate.
GRACE_DAYS: Final = 30
CERTIFICATE_DAYS: Final = 365
MAX_DAYS: Final = 36_500

Days = Annotated[int, Meta(description="Number of days.", extra_json_schema={"minimum": 0, "maximum": MAX_DAYS})]
ValidDays = Annotated[int, Meta(description="Number of days.", extra_json_schema={"minimum": 1, "maximum": MAX_DAYS})]
UserName = Annotated[str, Meta(description="Name of a user, or empty for the caller.")]
Digest = Annotated[
    str,
    Meta(
        description="SHA-1 of the DER form of the certificate, as 40 hexadecimal digits.",
        extra_json_schema={"pattern": "^[0-9A-Fa-f]{40}$"},
    ),
]
Who = Annotated[
    str,
    Meta(
        description="Name or address of a host, or the GUID of its queue manager.",
        extra_json_schema={"pattern": "^[A-Za-z0-9_.:%-]{1,255}$"},
    ),
]
# Base64 in JSON.
Data = Annotated[bytes, Meta(description="The bytes of the file.", extra_json_schema={"contentEncoding": "base64"})]


class KeyInfo(Record, frozen=True, kw_only=True):
    """A key, listed under the name of one cryptographic provider.

    `digest` is the SHA-256 of the SubjectPublicKeyInfo, in hexadecimal digits. `retired` is the time when another key
    replaced this key, or None for the current key. Until the time `ends`, messages that are encrypted for a retired
    exchange key are still accepted.
    """

    provider: str
    bits: int
    digest: str
    created: datetime
    retired: datetime | None
    ends: datetime | None = field(default_factory=lambda: None)


class Keys(Record, frozen=True):
    """The keys of the queue manager. The current keys come first."""

    exchange: tuple[KeyInfo, ...]
    signing: tuple[KeyInfo, ...]


class ImportedKeys(Keys, frozen=True):
    """The keys of the queue manager after an import. `warning` is empty, or says that the imported key is short."""

    warning: str = ""


class ExportedKeys(Record, frozen=True):
    """Public keys in the requested format. `data` is the content of the file."""

    kind: str
    format: str
    data: bytes


class TrustedKey(Record, frozen=True):
    """Pinned keys of another queue manager. All these keys have the same `kind`. `digests` are the digests of the keys,
    as in KeyInfo."""

    who: str
    providers: tuple[str, ...]
    bits: int
    digests: tuple[str, ...]
    added: datetime
    kind: str = "exchange"


class TrustedKeys(Record, frozen=True):
    """All pinned keys, sorted by host or GUID."""

    trusted: tuple[TrustedKey, ...]


class CertificateInfo(Record, frozen=True, kw_only=True):
    """A registered certificate. `user` and `sid` identify the user to whom the certificate belongs.

    `digest` is the SHA-1 of the DER form of the certificate. `can_sign` is true if the private key of the certificate
    is in the key folder.
    """

    digest: str
    user: str
    sid: str
    subject: str
    not_before: datetime
    not_after: datetime
    internal: bool
    can_sign: bool


class Certificates(Record, frozen=True):
    """Registered certificates, sorted by user and time."""

    certificates: tuple[CertificateInfo, ...]


class CertificateCreated(CertificateInfo, frozen=True, kw_only=True):
    """A new certificate. `pem` is the certificate without the private key."""

    pem: str


@operation("GET /api/keys", asks=Role.READ)
class ShowKeys(Operation[Keys], frozen=True, kw_only=True):
    """Show the keys of the queue manager. If the queue manager has no keys yet, the request creates keys."""


@operation("GET /api/keys/export", asks=Role.READ)
class ExportKeys(Operation[ExportedKeys], frozen=True, kw_only=True):
    """Export the current public keys to a file. On other computers, `waypost key trust` can read the file."""

    kind: KeyKind = "exchange"
    format: KeyFormat = "mqdspublickeys"


@operation("POST /api/keys", asks=Role.ADMIN)
class ImportKey(Operation[ImportedKeys], frozen=True, kw_only=True):
    """Import a private RSA key in PEM as the current key. The previous key is retired, as in a rotation.

    If the key has fewer bits than the setting `security.key_bits`, the answer contains a `warning`.
    """

    data: Data
    kind: KeyKind = "exchange"
    password: str = ""
    grace: Days = GRACE_DAYS


@operation("POST /api/keys/rotate", asks=Role.ADMIN)
class RotateKeys(Operation[Keys], frozen=True, kw_only=True):
    """Create new keys. After that, messages that are encrypted for the previous key are accepted for `grace` days.

    If `grace` is 0, all previous exchange keys become invalid immediately, including the keys of earlier rotations.
    """

    kind: KeyKind | UnsetType = UNSET
    grace: Days = GRACE_DAYS


@operation("GET /api/keys/trusted", asks=Role.READ)
class ListTrustedKeys(Operation[TrustedKeys], frozen=True, kw_only=True):
    """List the pinned keys of other queue managers."""


@operation("POST /api/keys/trusted", asks=Role.ADMIN)
class TrustKeys(Operation[TrustedKey], frozen=True, kw_only=True):
    """Pin the keys of another queue manager, from a file in one of the formats of `waypost key export`.

    With exchange keys, this queue manager encrypts messages to the other queue manager. With signing keys, this queue
    manager verifies messages that the other queue manager itself has signed. `kind` must be the kind of the exported
    keys, because the file does not contain the kind.
    """

    who: Who
    data: Data
    kind: KeyKind = "exchange"


@operation("DELETE /api/keys/trusted/{who}", asks=Role.ADMIN, status=204)
class UntrustKeys(Operation[None], frozen=True, kw_only=True):
    """Remove the pinned keys of another queue manager. `kind` selects one kind of keys, or both kinds."""

    who: Who
    kind: Literal["both", "exchange", "signing"] = "both"


@operation("GET /api/certificates", asks=Owned.BY_CALLER)
class ListCertificates(Operation[Certificates], frozen=True, kw_only=True):
    """List the registered certificates of one user, or of all users.

    Users can see their own certificates. For certificates of other users, the role `read` is required.
    """

    user: Annotated[str, Meta(description="Name of a user, or empty for all users.")] = ""


@operation("POST /api/certificates", asks=Owned.BY_CALLER, status=201, is_audited=True)
class RegisterCertificate(Operation[CertificateInfo], frozen=True, kw_only=True):
    """Register a certificate (PEM or DER) for the user who signs messages with the certificate.

    Users can register their own certificates. For certificates of other users, the role `admin` is required.
    """

    certificate: Data
    user: UserName = ""


@operation("POST /api/certificates/create", asks=Owned.BY_CALLER, status=201, is_audited=True)
class CreateCertificate(Operation[CertificateCreated], frozen=True, kw_only=True):
    """Create an internal certificate for a user, store its key in the key folder, and register the certificate.

    Users can create their own certificates. For certificates of other users, the role `admin` is required.
    """

    user: UserName = ""
    days: ValidDays = CERTIFICATE_DAYS


@operation("POST /api/certificates/import", asks=Owned.BY_CALLER, status=201, is_audited=True)
class ImportCertificate(Operation[CertificateInfo], frozen=True, kw_only=True):
    """Import a certificate with its private key (PEM or PKCS#12), and register the certificate for a user.

    The private key is stored in the key folder. Users can import their own certificates. For certificates of other
    users, the role `admin` is required.
    """

    data: Data
    user: UserName = ""
    password: str = ""


@operation("DELETE /api/certificates/{digest}", asks=Owned.BY_CALLER, status=204, is_audited=True)
class RemoveCertificate(Operation[None], frozen=True, kw_only=True):
    """Remove a certificate and its key. After the removal, messages that are signed with this certificate are refused.

    Users can remove their own certificates. For certificates of other users, the role `admin` is required.
    """

    digest: Digest


KEY_OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (
    ShowKeys,
    ExportKeys,
    ImportKey,
    RotateKeys,
    ListTrustedKeys,
    TrustKeys,
    UntrustKeys,
    ListCertificates,
    RegisterCertificate,
    CreateCertificate,
    ImportCertificate,
    RemoveCertificate,
)
