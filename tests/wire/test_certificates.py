"""MS-MQMQ 2.2.20.6 (the key of a sender's certificate), 2.2.21 and 2.2.22."""

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import DecodeError
from waypost.guid import parse_guid
from waypost.security.certificates import public_key_of
from waypost.wire.certificates import MqUserSignCert, MqUserSignCerts
from waypost.wire.keys import KeyType, PublicKeyBlob

GUID = parse_guid("00112233-4455-6677-8899-aabbccddeeff")
GUID_BYTES = bytes.fromhex("33221100 5544 7766 8899aabbccddeeff")

# RFC 1321 A.5: the digest of "abc".
MD5_OF_ABC = bytes.fromhex("900150983cd24fb0d6963f7d28e17f72")
ABC = MD5_OF_ABC + GUID_BYTES + bytes.fromhex("03000000") + b"abc"

ISSUER = Ed25519PrivateKey.from_private_bytes(bytes(32))

certificates = st.builds(
    MqUserSignCert, st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16), st.binary(max_size=40)
)


def certificate_for(key: RSAPublicKey | Ed25519PublicKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sender")])
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key,
        serial_number=7,
        not_valid_before=datetime(2026, 1, 1, tzinfo=UTC),
        not_valid_after=datetime(2027, 1, 1, tzinfo=UTC),
    )
    return builder.sign(ISSUER, None).public_bytes(Encoding.DER)


def rsa_certificate(modulus: int, exponent: int) -> bytes:
    return certificate_for(RSAPublicNumbers(exponent, modulus).public_key())


SENDER_CERT = rsa_certificate((1 << 2047) + 0x010203, 65537)


@pytest.mark.spec("MQMQ-2.2.22-01")
def test_a_user_certificate_is_digest_identifier_length_and_bytes() -> None:
    record, at = MqUserSignCert.decode(b"\xff" + ABC + b"\xff", 1)
    assert at == 1 + 16 + 16 + 4 + 3
    assert record == MqUserSignCert(digest=MD5_OF_ABC, identifier=GUID, certificate=b"abc")
    assert record.encode() == ABC
    with pytest.raises(DecodeError, match="Certificate at offset 36"):
        MqUserSignCert.decode(ABC[:-1], 0)
    x509_record = MqUserSignCert.of(GUID, SENDER_CERT)
    decoded, end = MqUserSignCert.decode(x509_record.encode(), 0)
    assert end == 36 + len(SENDER_CERT)
    assert x509.load_der_x509_certificate(decoded.certificate).serial_number == 7


@pytest.mark.spec("MQMQ-2.2.22-02")
def test_the_digest_is_the_md5_of_the_certificate_and_the_identifier_is_the_registrars() -> None:
    record = MqUserSignCert.of(GUID, b"abc")
    assert record.encode() == ABC
    assert record.digest_is_right
    forged, _ = MqUserSignCert.decode(ABC[:-1] + b"d", 0)
    assert not forged.digest_is_right
    other = MqUserSignCert.of(bytes(16), b"abc")
    assert (other.digest, other.identifier) == (MD5_OF_ABC, bytes(16))


@pytest.mark.spec("MQMQ-2.2.21-01")
def test_a_list_of_user_certificates_is_a_count_and_packed_certificates() -> None:
    second = MqUserSignCert.of(bytes(16), b"defgh")
    data = bytes.fromhex("02000000") + ABC + second.encode()
    records = MqUserSignCerts((MqUserSignCert.of(GUID, b"abc"), second))
    assert MqUserSignCerts.decode(b"\xff" + data + b"\xff", 1) == (records, 1 + len(data))
    assert records.encode() == data
    assert MqUserSignCerts.decode(bytes(4), 0) == (MqUserSignCerts(()), 4)


@pytest.mark.parametrize("count", [2, 0xFFFF_FFFF])
def test_a_count_of_more_certificates_than_there_are_is_refused(count: int) -> None:
    with pytest.raises(DecodeError, match="CertificateCount at offset 0"):
        MqUserSignCerts.decode(count.to_bytes(4, "little") + ABC, 0)


@given(st.lists(certificates, max_size=4).map(tuple))
def test_user_certificates_come_back_from_their_bytes(records: tuple[MqUserSignCert, ...]) -> None:
    data = MqUserSignCerts(records).encode()
    assert MqUserSignCerts.decode(data, 0) == (MqUserSignCerts(records), len(data))
    with pytest.raises(DecodeError):
        MqUserSignCerts.decode(data[:-1], 0)


@given(st.binary(max_size=120))
def test_any_bytes_are_user_certificates_or_a_decode_error(data: bytes) -> None:
    for hostile in (data, b"\x01\0\0\0" + bytes(32) + data):
        try:
            records, end = MqUserSignCerts.decode(hostile, 0)
        except DecodeError:
            continue
        assert records.encode() == hostile[:end]


@pytest.mark.spec("MQMQ-2.2.20.6-13")
@pytest.mark.parametrize(
    ("key_type", "number"), [(KeyType.CALG_RSA_SIGN, "00240000"), (KeyType.CALG_RSA_KEYX, "00a40000")]
)
def test_the_rsa_key_of_a_certificate_has_the_layout_of_a_public_key_blob(key_type: KeyType, number: str) -> None:
    # A modulus of 2041 bits takes 256 bytes; the seven bits above it are padding.
    modulus = (1 << 2040) + 0x010203
    data = public_key_of(rsa_certificate(modulus, 65537), key_type).encode()
    assert data[:20] == bytes.fromhex("06020000" + number + "52534131 00080000 01000100")
    assert data[20:] == bytes.fromhex("030201") + bytes(252) + b"\x01"
    assert PublicKeyBlob.decode(data, 0)[0].modulus_number == modulus


@pytest.mark.spec("MQMQ-2.2.20.6-13")
@pytest.mark.parametrize(
    "certificate",
    [
        b"",
        b"\x30\x00",
        SENDER_CERT[:-1],
        SENDER_CERT + b"\0",
        certificate_for(ISSUER.public_key()),
        SENDER_CERT.replace(b"\x02\x01\x07", b"\x02\x01\x00", 1),  # the serial number 0, of which the library warns
        rsa_certificate((1 << 2047) + 1, (1 << 32) + 1),
    ],
)
def test_what_is_no_certificate_with_a_plain_rsa_key_is_refused(certificate: bytes) -> None:
    with pytest.raises(DecodeError, match="SenderCert"):
        public_key_of(certificate, KeyType.CALG_RSA_SIGN)


@given(st.lists(st.tuples(st.integers(0, len(SENDER_CERT) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_certificate_gives_a_key_or_a_decode_error(damage: list[tuple[int, int]]) -> None:
    damaged = bytearray(SENDER_CERT)
    for at, value in damage:
        damaged[at] = value
    try:
        key = public_key_of(bytes(damaged), KeyType.CALG_RSA_SIGN)
    except DecodeError:
        return
    assert PublicKeyBlob.decode(key.encode(), 0)[0] == key
