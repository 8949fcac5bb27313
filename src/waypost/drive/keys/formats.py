"""Files with keys and certificates, read and written: PEM, DER, PKCS#12 and MQDSPUBLICKEYS."""

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_pem_private_key,
    load_pem_public_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates
from cryptography.x509 import Certificate, load_der_x509_certificate, load_pem_x509_certificate

from waypost.errors import DecodeError, InvalidParameter
from waypost.limits import MAX_RSA_BITS, MAX_SENDER_CERT_SIZE, MIN_RSA_BITS
from waypost.security.certificates import REFUSALS
from waypost.security.ciphers import PROVIDER_TYPES, CryptoServiceProvider
from waypost.security.protection_facts import ExchangeKeys, keys_by_provider
from waypost.wire.keys import PUBLIC_KEYS, SMALLEST_PUBLIC_KEY, KeyType, MqDsPublicKey, MqDsPublicKeys, PublicKeyBlob

_BEGIN: Final = b"-----BEGIN "
_PUBLIC: Final = b"-----BEGIN PUBLIC KEY-----"
_END_PUBLIC: Final = b"-----END PUBLIC KEY-----"
_PRIVATE: Final = b"PRIVATE KEY-----"
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
# RFC 7292 4: PFX is a sequence that begins with its version, which is 3, and another sequence.
_PKCS12: Final = re.compile(rb"\x30(?:[\x00-\x80]|\x81.|\x82..|\x83...|\x84....)\x02\x01\x03\x30", re.DOTALL)
# More than the keys of all providers with the longest modulus.
_MAX_KEYS: Final = 65_536
_EXPORT: Final = "use the file that `waypost key export` has written on the other host"
_RSA: Final = "use an RSA key, because MSMQ supports only RSA"
_REFUSED: Final = (ValueError, TypeError, UnsupportedAlgorithm, *REFUSALS)


def public_key_digest(key: RSAPublicKey) -> str:
    """SHA-256 of the SubjectPublicKeyInfo."""
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def private_key(data: bytes, password: bytes | None, where: str) -> RSAPrivateKey:
    """A private RSA key in PEM or DER."""
    load = load_pem_private_key if _BEGIN in data else load_der_private_key
    try:
        key: object = load(data, password)
    except TypeError:
        if password is None:
            raise refusal(
                f"{where}: the private key is encrypted, and no password is given",
                "specify the password of the key, for example with --password-file",
            ) from None
        key = _without_password(load, data, where)
    except _REFUSED as error:
        if password is None:
            raise _not_private(data, where, error) from None
        raise refusal(
            f"{where} is not a private key: the password is wrong, or the key is damaged",
            "check the password; on the command line, --password-file names the file with the password",
        ) from None
    return _checked(key, where)


def loaded(data: bytes) -> RSAPrivateKey:
    """A private key of the key folder: it was checked when it came there."""
    key = load_der_private_key(data, None, unsafe_skip_rsa_key_validation=True)
    assert isinstance(key, RSAPrivateKey)
    return key


def _without_password(load: object, data: bytes, where: str) -> object:
    """A password was given for a key that has none."""
    try:
        return load(data, None)  # type: ignore[operator]  # one of two loaders
    except _REFUSED as error:
        raise _not_private(data, where, error) from None


def _not_private(data: bytes, where: str, error: Exception) -> InvalidParameter:
    hint = "use a file with an RSA private key in PEM"
    if _PRIVATE not in data and (found := _content(data)):
        return refusal(f"{where} is not a private key, but contains {found}", hint)
    return refusal(f"{where} is not a private key in PEM or DER{_reason(error)}", hint)


def _content(data: bytes) -> str:
    """The kind of a file that is of another kind than it should be; "" if it is unknown."""
    if _CERTIFICATE in data:
        return "a certificate"
    if _PRIVATE in data:
        return "a private key"
    if _PUBLIC in data:
        return "a public key"
    if _PKCS12.match(data):
        return "a certificate with its private key (PKCS#12)"
    return "a certificate" if _BEGIN not in data and _is_certificate(data) else ""


def _reason(error: Exception) -> str:
    """Why a file is not accepted. Errors of parsers show their insides, and those concern no user."""
    return "" if isinstance(error, ValueError | TypeError) else f": {error}"


def refusal(sentence: str, hint: str) -> InvalidParameter:
    """The error for a file, with its hint."""
    error = InvalidParameter(sentence)
    error.add_note(hint)
    return error


def _checked(key: object, where: str) -> RSAPrivateKey:
    if not isinstance(key, RSAPrivateKey):
        raise refusal(f"{where}: the private key is not an RSA key", _RSA)
    check_bits(key.key_size, where)
    return key


def check_bits(bits: int, where: str) -> None:
    if not MIN_RSA_BITS <= bits <= MAX_RSA_BITS:
        sentence = f"{where}: an RSA key must have {MIN_RSA_BITS} to {MAX_RSA_BITS} bits, not {bits}"
        raise refusal(sentence, "use a key of 2048 bits or more")


def pkcs8(key: RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def sealed_pem(key: RSAPrivateKey, passphrase: bytes | None) -> bytes:
    """The form in which a private key is kept."""
    encryption = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def certificate(data: bytes, where: str) -> Certificate:
    """A certificate in PEM or DER, with an RSA key."""
    try:
        found = load_pem_x509_certificate(data) if _BEGIN in data else load_der_x509_certificate(data)
        key = found.public_key()
    except _REFUSED as error:
        raise _not_certificate(data, where, error) from None
    if not isinstance(key, RSAPublicKey):
        raise refusal(
            f"{where}: the key of the certificate is not an RSA key",
            "use a certificate with an RSA key, because MSMQ supports only RSA",
        )
    check_bits(key.key_size, where)
    if len(found.public_bytes(Encoding.DER)) > MAX_SENDER_CERT_SIZE:
        raise InvalidParameter(f"{where}: the certificate is longer than {MAX_SENDER_CERT_SIZE} bytes")
    return found


def _not_certificate(data: bytes, where: str, error: Exception) -> InvalidParameter:
    if _CERTIFICATE not in data and (found := _content(data)):
        hint = "use a certificate in PEM or DER"
        if found.startswith("a certificate"):
            hint = "`waypost cert import` imports a certificate with its private key"
        return refusal(f"{where} contains {found}, but must contain a certificate in PEM or DER", hint)
    return refusal(
        f"{where} is not a certificate in PEM or DER{_reason(error)}",
        "use a certificate in PEM or DER; `waypost cert create` creates one, and `waypost cert import` imports a "
        "certificate with its private key",
    )


def certificate_with_key(data: bytes, password: str, where: str) -> tuple[Certificate, RSAPrivateKey]:
    """A certificate and its private key: both in PEM, or PKCS#12."""
    secret = password.encode() or None
    if _BEGIN in data:
        if _PRIVATE not in data:
            raise _no_private_key(where)
        found = certificate(data, where)
        key = private_key(data, secret, where)
    else:
        try:
            loaded, issued, _ = load_key_and_certificates(data, secret)
        except _REFUSED:
            if _is_certificate(data):
                raise _no_private_key(where) from None
            problem = "the password is wrong, or the file is damaged" if secret else "or the file requires a password"
            raise refusal(
                f"{where} is neither PEM nor PKCS#12, {problem}",
                "check the file and its password; on the command line, --password-file names the file with the "
                "password",
            ) from None
        if loaded is None:
            raise _no_private_key(where)
        if issued is None:
            raise refusal(f"{where} has no certificate", "use a file with a certificate and its private key")
        key, found = _checked(loaded, where), certificate(issued.public_bytes(Encoding.DER), where)
    if found.public_key() != key.public_key():
        raise refusal(
            f"{where}: the private key does not belong to the certificate", "use a certificate and its private key"
        )
    return found, key


def _no_private_key(where: str) -> InvalidParameter:
    return refusal(
        f"{where} has no private key",
        "use a file with the certificate and its private key; `waypost cert register` registers a certificate without "
        "the key",
    )


def _is_certificate(data: bytes) -> bool:
    try:
        load_der_x509_certificate(data)
    except _REFUSED:
        return False
    return True


def signer_pem(data: bytes, password: str, where: str) -> str:
    """A certificate and its private key in one PEM text, from PEM or PKCS#12."""
    found, key = certificate_with_key(data, password, where)
    return (found.public_bytes(Encoding.PEM) + sealed_pem(key, None)).decode()


def pem_of(key: RSAPublicKey) -> bytes:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def public_key_list(key: RSAPublicKey) -> MqDsPublicKeys:
    """A key under the names of all three providers (MS-MQMQ 2.2.2)."""
    numbers = key.public_numbers()
    blob = PublicKeyBlob.from_numbers(KeyType.CALG_RSA_KEYX, numbers.e, numbers.n)
    found = tuple(MqDsPublicKey(kind, provider.value, blob) for provider, kind in PROVIDER_TYPES.items())
    return MqDsPublicKeys(found)


def exchange_keys(data: bytes, where: str) -> ExchangeKeys:
    """The keys of a file in either format of an export. A key in PEM stands for all providers."""
    if _BEGIN in data:
        return dict.fromkeys(CryptoServiceProvider, _from_pem(data, where))
    try:
        found, end = MqDsPublicKeys.decode(data, 0)
    except DecodeError as error:
        raise _not_keys(data, where, error) from None
    if end != len(data):
        raise refusal(f"{where}: {len(data) - end} extra bytes follow the keys", _EXPORT)
    keys = keys_by_provider(found)
    if not keys:
        raise refusal(f"{where} contains no key of a known provider", _EXPORT)
    for each in keys.values():
        public_key(each, where)
    return keys


def _not_keys(data: bytes, where: str, error: DecodeError) -> InvalidParameter:
    if not data:
        return refusal(f"{where} is empty", _EXPORT)
    if len(data) >= PUBLIC_KEYS.size:
        length, count = PUBLIC_KEYS.unpack_from(data)
        if PUBLIC_KEYS.size <= length <= _MAX_KEYS and count * SMALLEST_PUBLIC_KEY <= length:
            problem = f"is incomplete: the keys have {length} bytes, but the file has {len(data)}"
            if length <= len(data):
                problem = f"contains invalid MQDSPUBLICKEYS: {error}"
            return refusal(f"{where} {problem}", _EXPORT)
    if found := _content(data):
        return refusal(f"{where} contains {found}, but must contain public keys", _EXPORT)
    return refusal(f"{where} is neither PEM nor MQDSPUBLICKEYS", _EXPORT)


def _from_pem(data: bytes, where: str) -> PublicKeyBlob:
    if _PRIVATE in data:
        raise refusal(
            f"{where} contains a private key, but must contain only a public key",
            f"keep the private key secret, and {_EXPORT}",
        )
    if data.count(_PUBLIC) != 1:
        content = "no public key (BEGIN PUBLIC KEY)"
        if data.count(_PUBLIC) > 1:
            content = f"{data.count(_PUBLIC)} public keys"
        elif _CERTIFICATE in data:
            content = "a certificate"
        raise refusal(f"{where} contains {content}, but must contain one public key", _EXPORT)
    start = data.index(_PUBLIC)
    end = data.find(_END_PUBLIC, start)
    try:
        key = load_pem_public_key(data[start : end + len(_END_PUBLIC)])
    except _REFUSED as error:
        raise refusal(f"{where} is not a public key in PEM{_reason(error)}", _EXPORT) from None
    if not isinstance(key, RSAPublicKey):
        raise refusal(f"{where}: the public key is not an RSA key", _RSA)
    check_bits(key.key_size, where)
    numbers = key.public_numbers()
    if numbers.e >> 32:
        raise InvalidParameter(f"{where}: the exponent of the key has more than 32 bits")
    return PublicKeyBlob.from_numbers(KeyType.CALG_RSA_KEYX, numbers.e, numbers.n)


def public_key(blob: PublicKeyBlob, where: str) -> RSAPublicKey:
    try:
        key = RSAPublicNumbers(blob.pub_exp, blob.modulus_number).public_key()
    except _REFUSED as error:
        raise InvalidParameter(f"{where} contains an invalid RSA key: {error}") from None
    check_bits(key.key_size, where)
    return key


def encoded_keys(keys: ExchangeKeys) -> bytes:
    """Keys as they are kept: MQDSPUBLICKEYS."""
    found = tuple(MqDsPublicKey(PROVIDER_TYPES[provider], provider.value, blob) for provider, blob in keys.items())
    return MqDsPublicKeys(found).encode()


def digests_of(keys: Iterable[PublicKeyBlob], where: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(public_key_digest(public_key(each, where)) for each in keys))
