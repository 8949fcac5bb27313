"""MS-MQMQ 2.2.19.3: how a message says that its body is encrypted, and what was hashed to sign it.

A packet may hold numbers that these enumerations do not have: unless the message is encrypted or signed, they are
carried as they came (readings MQMQ 3.19). The ciphers are waypost.wire.keys.SessionKeyAlgorithm.
"""

from enum import IntEnum


class PrivacyLevel(IntEnum):
    """PrivacyLevel: no encryption, 40 bits, 128 bits, AES. The names are those of MS-MQDMPR 3.1.1.12."""

    NONE = 0
    BASE = 1
    ENHANCED = 3
    ADVANCED = 5


class HashAlgorithm(IntEnum):
    """HashAlgorithm."""

    MD2 = 0x0000_8001
    MD4 = 0x0000_8002
    MD5 = 0x0000_8003
    SHA_1 = 0x0000_8004
    SHA = SHA_1  # MS-MQDMPR 3.1.1.12 lists it under both names
    SHA_256 = 0x0000_800C
    SHA_512 = 0x0000_800E
