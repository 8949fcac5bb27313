"""MS-MQMQ 2.3: the closed sets of values that properties have, under the specification's names where it has any."""

from enum import IntEnum, IntFlag
from typing import Final

# A quota that is not set: only the disk and the quota of the computer limit the queue (MS-MQMQ 2.3.1.5).
UNLIMITED: Final = 0xFFFF_FFFF
# That of all queues of a computer (MS-MQDMPR 3.1.1.1), in kilobytes (readings MQDMPR 3.F).
DEFAULT_QUOTA: Final = 0x0010_0000
# InitializationRetryTimerDuration of a new queue manager (MS-MQDMPR 3.1.1.1).
INITIALIZATION_RETRY_SECONDS: Final = 120


class Journal(IntEnum):
    """MS-MQMQ 2.3.1.4. With MQ_JOURNAL the queue journal gets a copy of each message that a receiver removes."""

    MQ_JOURNAL_NONE = 0
    MQ_JOURNAL = 1


class Authenticate(IntEnum):
    """MS-MQMQ 2.3.1.11. A queue with MQ_AUTHENTICATE accepts only authenticated messages."""

    MQ_AUTHENTICATE_NONE = 0
    MQ_AUTHENTICATE = 1

    def accepts(self, *, authenticated: bool) -> bool:
        return authenticated or self is Authenticate.MQ_AUTHENTICATE_NONE


class QueuePrivacy(IntEnum):
    """MS-MQMQ 2.3.1.12. NONE accepts only clear messages, BODY only encrypted ones, OPTIONAL both."""

    MQ_PRIV_LEVEL_NONE = 0
    MQ_PRIV_LEVEL_OPTIONAL = 1
    MQ_PRIV_LEVEL_BODY = 2

    def accepts(self, *, encrypted: bool) -> bool:
        if self is QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL:
            return True
        return encrypted == (self is QueuePrivacy.MQ_PRIV_LEVEL_BODY)


class Transactional(IntEnum):
    """MS-MQMQ 2.3.1.13."""

    MQ_TRANSACTIONAL_NONE = 0
    MQ_TRANSACTIONAL = 1


class Scope(IntEnum):
    """MS-MQMQ 2.3.1.14 and 2.3.13.3."""

    MQDS_SITESCOPE = 0
    MQDS_ENTERPRISESCOPE = 1


class Service(IntFlag):
    """MS-MQMQ 2.3.2.9 and 2.3.8.2: the services of a queue manager. Settings have exactly one, and never RAS."""

    ROUTING_SERVER = 0x01
    BACKUP_SITE_CONTROLLER = 0x02
    PRIMARY_SITE_CONTROLLER = 0x04
    PRIMARY_ENTERPRISE_CONTROLLER = 0x08
    RAS_SERVER = 0x10


class OperatingSystem(IntEnum):
    """MS-MQMQ 2.3.2.19. A queue manager that is not on Windows is MSMQ_OS_FOREIGN."""

    MSMQ_OS_NONE = 0x000
    MSMQ_OS_FOREIGN = 0x100
    MSMQ_OS_95 = 0x200
    MSMQ_OS_NTW = 0x300
    MSMQ_OS_NTS = 0x400
    MSMQ_OS_NTE = 0x500


class NameStyle(IntEnum):
    """MS-MQMQ 2.3.5.2. The internal default is that security is not weakened."""

    NOT_WEAKENED = 0
    WEAKENED = 1
    DEFAULT = 2

    @property
    def is_security_weakened(self) -> bool:
        return self is NameStyle.WEAKENED


class DeletedObject(IntEnum):
    """MS-MQMQ 2.3.13.4."""

    MQDS_QUEUE = 1
    MQDS_MACHINE = 2
    MQDS_SITE = 3
    MQDS_DELETEDOBJECT = 4
    MQDS_CN = 5
    MQDS_ENTERPRISE = 6
    MQDS_USER = 7
    MQDS_ROUTINGLINK = 8
