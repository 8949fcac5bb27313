"""Files with keys and certificates, read and written: PEM, DER, PKCS#12 and MQDSPUBLICKEYS."""

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
from waypost.wire.keys import KeyType, MqDsPublicKey, MqDsPublicKeys, PublicKeyBlob

_BEGIN: Final = b"-----BEGIN "
_PUBLIC: Final = b"-----BEGIN PUBLIC KEY-----"
_END_PUBLIC: Final = b"-----END PUBLIC KEY-----"
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
            raise InvalidParameter(f"{where}: the private key is encrypted, and no password is given") from None
        key = _without_password(load, data, where)
    except _REFUSED as error:
        problem = "the password is wrong, or the key is damaged" if password is not None else str(error)
        raise InvalidParameter(f"{where} is not a private key: {problem}") from None
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
        raise InvalidParameter(f"{where} is not a private key: {error}") from None


def _checked(key: object, where: str) -> RSAPrivateKey:
    if not isinstance(key, RSAPrivateKey):
        raise InvalidParameter(f"{where}: the private key is not an RSA key")
    check_bits(key.key_size, where)
    return key


def check_bits(bits: int, where: str) -> None:
    if not MIN_RSA_BITS <= bits <= MAX_RSA_BITS:
        raise InvalidParameter(f"{where}: an RSA key must have {MIN_RSA_BITS} to {MAX_RSA_BITS} bits, not {bits}")


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
        raise InvalidParameter(f"{where} is not a certificate in PEM or DER: {error}") from None
    if not isinstance(key, RSAPublicKey):
        raise InvalidParameter(f"{where}: the key of the certificate is not an RSA key")
    check_bits(key.key_size, where)
    if len(found.public_bytes(Encoding.DER)) > MAX_SENDER_CERT_SIZE:
        raise InvalidParameter(f"{where}: the certificate is longer than {MAX_SENDER_CERT_SIZE} bytes")
    return found


def certificate_with_key(data: bytes, password: str, where: str) -> tuple[Certificate, RSAPrivateKey]:
    """A certificate and its private key: both in PEM, or PKCS#12."""
    secret = password.encode() or None
    if _BEGIN in data:
        if b"PRIVATE KEY-----" not in data:
            raise InvalidParameter(f"{where} has no private key")
        found = certificate(data, where)
        key = private_key(data, secret, where)
    else:
        try:
            loaded, issued, _ = load_key_and_certificates(data, secret)
        except _REFUSED:
            if _is_certificate(data):
                raise InvalidParameter(f"{where} has no private key") from None
            hint = "the password is wrong, or the file is damaged" if secret else "or the file requires a password"
            raise InvalidParameter(f"{where} is neither PEM nor PKCS#12, {hint}") from None
        if loaded is None or issued is None:
            raise InvalidParameter(f"{where} has no {'private key' if loaded is None else 'certificate'}")
        key, found = _checked(loaded, where), certificate(issued.public_bytes(Encoding.DER), where)
    if found.public_key() != key.public_key():
        raise InvalidParameter(f"{where}: the private key does not belong to the certificate")
    return found, key


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
        raise InvalidParameter(f"{where} is neither PEM nor MQDSPUBLICKEYS: {error}") from None
    if end != len(data):
        raise InvalidParameter(f"{where}: {len(data) - end} extra bytes follow the keys")
    keys = keys_by_provider(found)
    if not keys:
        raise InvalidParameter(f"{where} contains no key of a known provider")
    for each in keys.values():
        public_key(each, where)
    return keys


def _from_pem(data: bytes, where: str) -> PublicKeyBlob:
    if data.count(_PUBLIC) != 1:
        raise InvalidParameter(f"{where} must contain one public key (BEGIN PUBLIC KEY), not {data.count(_PUBLIC)}")
    start = data.index(_PUBLIC)
    end = data.find(_END_PUBLIC, start)
    try:
        key = load_pem_public_key(data[start : end + len(_END_PUBLIC)])
    except _REFUSED as error:
        raise InvalidParameter(f"{where} is not a public key: {error}") from None
    if not isinstance(key, RSAPublicKey):
        raise InvalidParameter(f"{where}: the public key is not an RSA key")
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
