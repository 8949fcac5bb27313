"""MS-MQDMPR 3.1.1.12: the enumerations among the attributes of a message. The numbers are those of its packet.

A packet may hold a class, a privacy level or an algorithm that no enumeration has, and it is passed on as it came
(readings MQDMPR 2.5, MQMQ 3.19): these attributes are ints that the enumerations name. The classes are in
waypost.wire.message_class, privacy levels and hashes in waypost.wire.algorithms.
"""

from enum import IntEnum


class AuthenticationLevel(IntEnum):
    """Digital signature of a message. The numbers are those of SecurityHeader.Flags.AS (readings MQDMPR 3.U).

    XML_SIG is of SRMP and in no table; its number is that of the Windows SDK, MQMSG_AUTHENTICATED_SIGXML.
    """

    NONE = 0
    SIG10 = 1
    SIG20 = 3
    SIG30 = 5
    XML_SIG = 9


class DeliveryGuarantee(IntEnum):
    """Whether a message survives a stop of its queue manager."""

    EXPRESS = 0
    RECOVERABLE = 1


class Acknowledgements(IntEnum):
    """AcknowledgementsRequested: single bits, and the unions that have names (readings MQDMPR 2.6)."""

    NONE = 0x00
    ACK_POS_ARRIVAL = 0x01
    ACK_POS_RECEIVE = 0x02
    ACK_NEG_ARRIVAL = 0x04
    ACK_NEG_RECEIVE = 0x08
    ACK_NACK_REACH_QUEUE = ACK_NEG_ARRIVAL
    ACK_FULL_REACH_QUEUE = ACK_POS_ARRIVAL | ACK_NEG_ARRIVAL
    ACK_NACK_RECEIVE = ACK_NEG_ARRIVAL | ACK_NEG_RECEIVE
    ACK_FULL_RECEIVE = ACK_NEG_ARRIVAL | ACK_NEG_RECEIVE | ACK_POS_RECEIVE


class EncryptionAlgorithm(IntEnum):
    """The cipher of the body.

    MS-MQDMPR 3.1.7.1.31 has numbers for RC2, RC4 and AES; the others are the ALG_IDs of the Windows SDK.
    """

    DSS = 0x2200
    RSA = 0x2400
    DES = 0x6601
    RC2 = 0x6602
    AES128 = 0x660E
    AES192 = 0x660F
    AES256 = 0x6610
    RC4 = 0x6801
    SEAL = 0x6802
    RSA_KEYS = 0xA400


class SenderIdentifierType(IntEnum):
    """Content of SenderIdentifier. NONE: for access checks the sender is the anonymous user."""

    NONE = 0
    SID = 1
    QUEUE_MANAGER_IDENTIFIER = 2


class QueueType(IntEnum):
    """DestinationQueueType, AdministrationQueueType and ResponseQueueType in one: how a packet names a queue.

    The destination is PRIVATE_QUEUE, PUBLIC_QUEUE or DIRECT_QUEUE; an administration queue has neither of the types
    that speak of the administration queue.
    """

    NONE = 0
    SAME_AS_ADMINISTRATION_QUEUE = 1
    PRIVATE_QUEUE_ON_SOURCE = 2
    PRIVATE_QUEUE_ON_DESTINATION = 3
    PRIVATE_QUEUE = PRIVATE_QUEUE_ON_DESTINATION
    PRIVATE_QUEUE_ON_ADMIN = 4
    PUBLIC_QUEUE = 5
    PRIVATE_QUEUE_ON_OTHER = 6
    DIRECT_QUEUE = 7
