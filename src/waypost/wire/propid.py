"""MS-MQMQ 2.3: the property identifiers, one enumeration for each kind of object.

A member is the PROPID, an unsigned 32-bit number, and knows the one variant type of its values and its section. Numbers
repeat between kinds (the two kinds of management properties both start at 1), so a number means something only together
with its ObjectKind.
"""

from enum import Enum, IntEnum
from typing import Final, Self

from waypost.errors import IllegalPropertyId
from waypost.wire.variant_types import VT_VECTOR, VarType


class ObjectKind(Enum):
    """Kind of object that has a property."""

    QUEUE = "queue"
    MACHINE = "machine"
    SITE = "site"
    CONNECTED_NETWORK = "connected network"
    ENTERPRISE = "enterprise"
    USER = "user"
    ROUTING_LINK = "routing link"
    SETTINGS = "settings"
    MQUSER = "mquser"
    COMPUTER = "computer"
    MANAGEMENT_MACHINE = "management machine"
    MANAGEMENT_QUEUE = "management queue"
    DELETION_NOTIFICATION = "deletion notification"


class Property(IntEnum):
    """A PROPID with the variant type of its value and the section that defines it."""

    vt: int
    section: str

    def __new__(cls, number: int, vt: int, section: str) -> Self:
        member = int.__new__(cls, number)
        member._value_ = number
        member.vt = vt
        member.section = section
        return member


class QueueProperty(Property):
    """MS-MQMQ 2.3.1. A queue."""

    PROPID_Q_INSTANCE = 101, VarType.VT_CLSID, "2.3.1.1"
    PROPID_Q_TYPE = 102, VarType.VT_CLSID, "2.3.1.2"
    PROPID_Q_PATHNAME = 103, VarType.VT_LPWSTR, "2.3.1.3"
    PROPID_Q_JOURNAL = 104, VarType.VT_UI1, "2.3.1.4"
    PROPID_Q_QUOTA = 105, VarType.VT_UI4, "2.3.1.5"
    PROPID_Q_BASEPRIORITY = 106, VarType.VT_I2, "2.3.1.6"
    PROPID_Q_JOURNAL_QUOTA = 107, VarType.VT_UI4, "2.3.1.7"
    PROPID_Q_LABEL = 108, VarType.VT_LPWSTR, "2.3.1.8"
    PROPID_Q_CREATE_TIME = 109, VarType.VT_I4, "2.3.1.9"
    PROPID_Q_MODIFY_TIME = 110, VarType.VT_I4, "2.3.1.10"
    PROPID_Q_AUTHENTICATE = 111, VarType.VT_UI1, "2.3.1.11"
    PROPID_Q_PRIV_LEVEL = 112, VarType.VT_UI4, "2.3.1.12"
    PROPID_Q_TRANSACTION = 113, VarType.VT_UI1, "2.3.1.13"
    PROPID_Q_SCOPE = 114, VarType.VT_UI1, "2.3.1.14"
    PROPID_Q_QMID = 115, VarType.VT_CLSID, "2.3.1.15"
    PROPID_Q_PARTITIONID = 116, VarType.VT_CLSID, "2.3.1.16"
    PROPID_Q_SEQNUM = 117, VarType.VT_BLOB, "2.3.1.17"
    PROPID_Q_HASHKEY = 118, VarType.VT_UI4, "2.3.1.18"
    PROPID_Q_LABEL_HASHKEY = 119, VarType.VT_UI4, "2.3.1.19"
    PROPID_Q_FULL_PATH = 121, VarType.VT_LPWSTR, "2.3.1.20"
    PROPID_Q_NAME_SUFFIX = 123, VarType.VT_LPWSTR, "2.3.1.21"
    PROPID_Q_PATHNAME_DNS = 124, VarType.VT_LPWSTR, "2.3.1.22"
    PROPID_Q_MULTICAST_ADDRESS = 125, VarType.VT_LPWSTR, "2.3.1.23"
    PROPID_Q_ADS_PATH = 126, VarType.VT_LPWSTR, "2.3.1.24"
    PROPID_Q_SECURITY = 1101, VarType.VT_BLOB, "2.3.1.25"
    PROPID_Q_OBJ_SECURITY = 1102, VarType.VT_BLOB, "2.3.1.26"
    PROPID_Q_SECURITY_INFORMATION = 1103, VarType.VT_UI4, "2.3.1.27"


class MachineProperty(Property):
    """MS-MQMQ 2.3.2. A queue manager, in the directory."""

    PROPID_QM_SITE_ID = 201, VarType.VT_CLSID, "2.3.2.1"
    PROPID_QM_MACHINE_ID = 202, VarType.VT_CLSID, "2.3.2.2"
    PROPID_QM_PATHNAME = 203, VarType.VT_LPWSTR, "2.3.2.3"
    PROPID_QM_ENCRYPTION_PK = 205, VarType.VT_UI1 | VT_VECTOR, "2.3.2.4"
    PROPID_QM_ADDRESS = 206, VarType.VT_BLOB, "2.3.2.5"
    PROPID_QM_CNS = 207, VarType.VT_CLSID | VT_VECTOR, "2.3.2.6"
    PROPID_QM_OUTFRS = 208, VarType.VT_CLSID | VT_VECTOR, "2.3.2.7"
    PROPID_QM_INFRS = 209, VarType.VT_CLSID | VT_VECTOR, "2.3.2.8"
    PROPID_QM_SERVICE = 210, VarType.VT_UI4, "2.3.2.9"
    PROPID_QM_PARTITIONID = 211, VarType.VT_CLSID, "2.3.2.11"
    PROPID_QM_HASHKEY = 212, VarType.VT_UI4, "2.3.2.12"
    PROPID_QM_SEQNUM = 213, VarType.VT_BLOB, "2.3.2.13"
    PROPID_QM_QUOTA = 214, VarType.VT_UI4, "2.3.2.10"
    PROPID_QM_JOURNAL_QUOTA = 215, VarType.VT_UI4, "2.3.2.14"
    PROPID_QM_MACHINE_TYPE = 216, VarType.VT_LPWSTR, "2.3.2.15"
    PROPID_QM_CREATE_TIME = 217, VarType.VT_I4, "2.3.2.16"
    PROPID_QM_MODIFY_TIME = 218, VarType.VT_I4, "2.3.2.17"
    PROPID_QM_FOREIGN = 219, VarType.VT_UI1, "2.3.2.18"
    PROPID_QM_OS = 220, VarType.VT_UI4, "2.3.2.19"
    PROPID_QM_FULL_PATH = 221, VarType.VT_LPWSTR, "2.3.2.20"
    PROPID_QM_SITE_IDS = 222, VarType.VT_CLSID | VT_VECTOR, "2.3.2.21"
    PROPID_QM_OUTFRS_DN = 223, VarType.VT_LPWSTR | VT_VECTOR, "2.3.2.22"
    PROPID_QM_INFRS_DN = 224, VarType.VT_LPWSTR | VT_VECTOR, "2.3.2.23"
    PROPID_QM_SERVICE_ROUTING = 227, VarType.VT_UI1, "2.3.2.24"
    PROPID_QM_SERVICE_DSSERVER = 228, VarType.VT_UI1, "2.3.2.25"
    PROPID_QM_SERVICE_DEPCLIENTS = 229, VarType.VT_UI1, "2.3.2.26"
    PROPID_QM_ENCRYPTION_PK_BASE = 231, VarType.VT_UI1 | VT_VECTOR, "2.3.2.27"
    PROPID_QM_ENCRYPTION_PK_ENHANCED = 232, VarType.VT_UI1 | VT_VECTOR, "2.3.2.28"
    PROPID_QM_PATHNAME_DNS = 233, VarType.VT_LPWSTR, "2.3.2.29"
    PROPID_QM_OBJ_SECURITY = 234, VarType.VT_BLOB, "2.3.2.30"
    PROPID_QM_SECURITY_INFORMATION = 237, VarType.VT_UI4, "2.3.2.31"
    PROPID_QM_ENCRYPT_PKS = 238, VarType.VT_BLOB, "2.3.2.32"
    PROPID_QM_SIGN_PKS = 239, VarType.VT_BLOB, "2.3.2.33"
    PROPID_QM_OWNER_SID = 241, VarType.VT_BLOB, "2.3.2.34"
    PROPID_QM_GROUP_IN_CLUSTER = 242, VarType.VT_UI1, "2.3.2.35"
    PROPID_QM_SECURITY = 1201, VarType.VT_BLOB, "2.3.2.36"
    PROPID_QM_SIGN_PK = 1202, VarType.VT_BLOB, "2.3.2.37"
    PROPID_QM_ENCRYPT_PK = 1203, VarType.VT_BLOB, "2.3.2.38"
    PROPID_QM_UPGRADE_DACL = 1205, VarType.VT_BLOB, "2.3.2.39"


class SiteProperty(Property):
    """MS-MQMQ 2.3.3. A site."""

    PROPID_S_PATHNAME = 301, VarType.VT_LPWSTR, "2.3.3.1"
    PROPID_S_SITEID = 302, VarType.VT_CLSID, "2.3.3.2"
    PROPID_S_GATES = 303, VarType.VT_CLSID | VT_VECTOR, "2.3.3.3"
    PROPID_S_PSC = 304, VarType.VT_LPWSTR, "2.3.3.4"
    PROPID_S_INTERVAL1 = 305, VarType.VT_UI2, "2.3.3.5"
    PROPID_S_INTERVAL2 = 306, VarType.VT_UI2, "2.3.3.6"
    PROPID_S_PARTITIONID = 307, VarType.VT_CLSID, "2.3.3.7"
    PROPID_S_SEQNUM = 308, VarType.VT_BLOB, "2.3.3.8"
    PROPID_S_FULL_NAME = 309, VarType.VT_LPWSTR, "2.3.3.9"
    PROPID_S_NT4_STUB = 310, VarType.VT_UI2, "2.3.3.10"
    PROPID_S_FOREIGN = 311, VarType.VT_UI1, "2.3.3.11"
    PROPID_S_DONOTHING = 312, VarType.VT_UI1, "2.3.3.12"
    PROPID_S_SECURITY = 1301, VarType.VT_BLOB, "2.3.3.13"
    PROPID_S_PSC_SIGNPK = 1302, VarType.VT_BLOB, "2.3.3.14"
    PROPID_S_SECURITY_INFORMATION = 1303, VarType.VT_UI4, "2.3.3.15"


class ConnectedNetworkProperty(Property):
    """MS-MQMQ 2.3.4. A connected network."""

    PROPID_CN_PROTOCOLID = 501, VarType.VT_UI1, "2.3.4.1"
    PROPID_CN_NAME = 502, VarType.VT_LPWSTR, "2.3.4.2"
    PROPID_CN_GUID = 503, VarType.VT_CLSID, "2.3.4.3"
    PROPID_CN_PARTITIONID = 504, VarType.VT_CLSID, "2.3.4.4"
    PROPID_CN_SEQNUM = 505, VarType.VT_BLOB, "2.3.4.5"
    PROPID_CN_SECURITY = 1501, VarType.VT_BLOB, "2.3.4.6"


class EnterpriseProperty(Property):
    """MS-MQMQ 2.3.5. The enterprise."""

    PROPID_E_NAME = 601, VarType.VT_LPWSTR, "2.3.5.1"
    PROPID_E_NAMESTYLE = 602, VarType.VT_UI1, "2.3.5.2"
    PROPID_E_CSP_NAME = 603, VarType.VT_LPWSTR, "2.3.5.3"
    PROPID_E_PECNAME = 604, VarType.VT_LPWSTR, "2.3.5.4"
    PROPID_E_S_INTERVAL1 = 605, VarType.VT_UI2, "2.3.5.5"
    PROPID_E_S_INTERVAL2 = 606, VarType.VT_UI2, "2.3.5.6"
    PROPID_E_PARTITIONID = 607, VarType.VT_CLSID, "2.3.5.7"
    PROPID_E_SEQNUM = 608, VarType.VT_BLOB, "2.3.5.8"
    PROPID_E_ID = 609, VarType.VT_CLSID, "2.3.5.9"
    PROPID_E_CRL = 610, VarType.VT_BLOB, "2.3.5.10"
    PROPID_E_CSP_TYPE = 611, VarType.VT_UI4, "2.3.5.11"
    PROPID_E_ENCRYPT_ALG = 612, VarType.VT_UI4, "2.3.5.12"
    PROPID_E_SIGN_ALG = 613, VarType.VT_UI4, "2.3.5.13"
    PROPID_E_HASH_ALG = 614, VarType.VT_UI4, "2.3.5.14"
    PROPID_E_CIPHER_MODE = 615, VarType.VT_UI4, "2.3.5.18"
    PROPID_E_LONG_LIVE = 616, VarType.VT_UI4, "2.3.5.15"
    PROPID_E_VERSION = 617, VarType.VT_UI2, "2.3.5.16"
    PROPID_E_SECURITY = 1601, VarType.VT_BLOB, "2.3.5.17"


class UserProperty(Property):
    """MS-MQMQ 2.3.6. A user and the certificates of that user."""

    PROPID_U_SID = 701, VarType.VT_BLOB, "2.3.6.1"
    PROPID_U_SIGN_CERT = 702, VarType.VT_BLOB, "2.3.6.4"
    PROPID_U_PARTITIONID = 703, VarType.VT_CLSID, "2.3.6.2"
    PROPID_U_SEQNUM = 704, VarType.VT_BLOB, "2.3.6.3"
    PROPID_U_DIGEST = 705, VarType.VT_CLSID | VT_VECTOR, "2.3.6.5"
    PROPID_U_ID = 706, VarType.VT_CLSID, "2.3.6.6"


class RoutingLinkProperty(Property):
    """MS-MQMQ 2.3.7. A routing link between two sites."""

    PROPID_L_NEIGHBOR1 = 801, VarType.VT_CLSID, "2.3.7.1"
    PROPID_L_NEIGHBOR2 = 802, VarType.VT_CLSID, "2.3.7.2"
    PROPID_L_COST = 803, VarType.VT_UI4, "2.3.7.3"
    PROPID_L_PARTITIONID = 804, VarType.VT_CLSID, "2.3.7.4"
    PROPID_L_SEQNUM = 805, VarType.VT_BLOB, "2.3.7.5"
    PROPID_L_ID = 806, VarType.VT_CLSID, "2.3.7.6"
    PROPID_L_GATES_DN = 807, VarType.VT_LPWSTR | VT_VECTOR, "2.3.7.7"
    PROPID_L_NEIGHBOR1_DN = 808, VarType.VT_LPWSTR, "2.3.7.8"
    PROPID_L_NEIGHBOR2_DN = 809, VarType.VT_LPWSTR, "2.3.7.9"
    PROPID_L_DESCRIPTION = 810, VarType.VT_LPWSTR, "2.3.7.10"
    PROPID_L_FULL_PATH = 811, VarType.VT_LPWSTR, "2.3.7.11"
    PROPID_L_ACTUAL_COST = 812, VarType.VT_UI4, "2.3.7.12"
    PROPID_L_GATES = 813, VarType.VT_CLSID | VT_VECTOR, "2.3.7.13"


class SettingsProperty(Property):
    """MS-MQMQ 2.3.8. A routing or directory server."""

    PROPID_SET_NAME = 5101, VarType.VT_LPWSTR, "2.3.8.1"
    PROPID_SET_SERVICE = 5102, VarType.VT_UI4, "2.3.8.2"
    PROPID_SET_QM_ID = 5103, VarType.VT_CLSID, "2.3.8.3"
    PROPID_SET_FULL_PATH = 5105, VarType.VT_LPWSTR, "2.3.8.4"
    PROPID_SET_NT4 = 5106, VarType.VT_UI1, "2.3.8.5"
    PROPID_SET_PARTITIONID = 5107, VarType.VT_CLSID, "2.3.8.6"
    PROPID_SET_SITENAME = 5108, VarType.VT_LPWSTR, "2.3.8.7"
    PROPID_SET_SERVICE_ROUTING = 5109, VarType.VT_UI1, "2.3.8.8"
    PROPID_SET_SERVICE_DSSERVER = 5110, VarType.VT_UI1, "2.3.8.9"
    PROPID_SET_SERVICE_DEPCLIENTS = 5111, VarType.VT_UI1, "2.3.8.10"
    PROPID_SET_OLDSERVICE = 5112, VarType.VT_UI4, "2.3.8.11"


class MQUserProperty(Property):
    """MS-MQMQ 2.3.9. A user who was migrated to Active Directory."""

    PROPID_MQU_SID = 5401, VarType.VT_BLOB, "2.3.9.1"
    PROPID_MQU_SIGN_CERT = 5402, VarType.VT_BLOB, "2.3.9.2"
    PROPID_MQU_DIGEST = 5405, VarType.VT_CLSID | VT_VECTOR, "2.3.9.3"
    PROPID_MQU_ID = 5406, VarType.VT_CLSID, "2.3.9.4"
    PROPID_MQU_SECURITY = 5407, VarType.VT_BLOB, "2.3.9.5"


class ComputerProperty(Property):
    """MS-MQMQ 2.3.10. A computer account."""

    PROPID_COM_FULL_PATH = 5201, VarType.VT_LPWSTR, "2.3.10.1"
    PROPID_COM_SAM_ACCOUNT = 5202, VarType.VT_LPWSTR, "2.3.10.2"
    PROPID_COM_ACCOUNT_CONTROL = 5204, VarType.VT_UI4, "2.3.10.3"
    PROPID_COM_DNS_HOSTNAME = 5205, VarType.VT_LPWSTR, "2.3.10.4"
    PROPID_COM_SID = 5206, VarType.VT_BLOB, "2.3.10.5"
    PROPID_COM_SIGN_CERT = 5207, VarType.VT_BLOB, "2.3.10.6"
    PROPID_COM_DIGEST = 5208, VarType.VT_CLSID | VT_VECTOR, "2.3.10.7"
    PROPID_COM_ID = 5209, VarType.VT_CLSID, "2.3.10.8"


class ManagementMachineProperty(Property):
    """MS-MQMQ 2.3.11. Facts of a queue manager."""

    PROPID_MGMT_MSMQ_ACTIVEQUEUES = 1, VarType.VT_LPWSTR | VT_VECTOR, "2.3.11.1"
    PROPID_MGMT_MSMQ_PRIVATEQ = 2, VarType.VT_LPWSTR | VT_VECTOR, "2.3.11.2"
    PROPID_MGMT_MSMQ_DSSERVER = 3, VarType.VT_LPWSTR, "2.3.11.3"
    PROPID_MGMT_MSMQ_CONNECTED = 4, VarType.VT_LPWSTR, "2.3.11.4"
    PROPID_MGMT_MSMQ_TYPE = 5, VarType.VT_LPWSTR, "2.3.11.5"
    PROPID_MGMT_MSMQ_BYTES_IN_ALL_QUEUES = 6, VarType.VT_I8, "2.3.11.6"


class ManagementQueueProperty(Property):
    """MS-MQMQ 2.3.12. Facts of one queue of a queue manager."""

    PROPID_MGMT_QUEUE_PATHNAME = 1, VarType.VT_LPWSTR, "2.3.12.1"
    PROPID_MGMT_QUEUE_FORMATNAME = 2, VarType.VT_LPWSTR, "2.3.12.2"
    PROPID_MGMT_QUEUE_TYPE = 3, VarType.VT_LPWSTR, "2.3.12.3"
    PROPID_MGMT_QUEUE_LOCATION = 4, VarType.VT_LPWSTR, "2.3.12.4"
    PROPID_MGMT_QUEUE_XACT = 5, VarType.VT_LPWSTR, "2.3.12.5"
    PROPID_MGMT_QUEUE_FOREIGN = 6, VarType.VT_LPWSTR, "2.3.12.6"
    PROPID_MGMT_QUEUE_MESSAGE_COUNT = 7, VarType.VT_UI4, "2.3.12.7"
    PROPID_MGMT_QUEUE_BYTES_IN_QUEUE = 8, VarType.VT_UI4, "2.3.12.8"
    PROPID_MGMT_QUEUE_JOURNAL_MESSAGE_COUNT = 9, VarType.VT_UI4, "2.3.12.9"
    PROPID_MGMT_QUEUE_BYTES_IN_JOURNAL = 10, VarType.VT_UI4, "2.3.12.10"
    PROPID_MGMT_QUEUE_STATE = 11, VarType.VT_LPWSTR, "2.3.12.11"
    PROPID_MGMT_QUEUE_NEXTHOPS = 12, VarType.VT_LPWSTR | VT_VECTOR, "2.3.12.12"
    PROPID_MGMT_QUEUE_EOD_LAST_ACK = 13, VarType.VT_BLOB, "2.3.12.13"
    PROPID_MGMT_QUEUE_EOD_LAST_ACK_TIME = 14, VarType.VT_I4, "2.3.12.14"
    PROPID_MGMT_QUEUE_EOD_LAST_ACK_COUNT = 15, VarType.VT_UI4, "2.3.12.15"
    PROPID_MGMT_QUEUE_EOD_FIRST_NON_ACK = 16, VarType.VT_BLOB, "2.3.12.16"
    PROPID_MGMT_QUEUE_EOD_LAST_NON_ACK = 17, VarType.VT_BLOB, "2.3.12.17"
    PROPID_MGMT_QUEUE_EOD_NEXT_SEQ = 18, VarType.VT_BLOB, "2.3.12.18"
    PROPID_MGMT_QUEUE_EOD_NO_READ_COUNT = 19, VarType.VT_UI4, "2.3.12.19"
    PROPID_MGMT_QUEUE_EOD_NO_ACK_COUNT = 20, VarType.VT_UI4, "2.3.12.20"
    PROPID_MGMT_QUEUE_EOD_RESEND_TIME = 21, VarType.VT_I4, "2.3.12.21"
    PROPID_MGMT_QUEUE_EOD_RESEND_INTERVAL = 22, VarType.VT_UI4, "2.3.12.22"
    PROPID_MGMT_QUEUE_EOD_RESEND_COUNT = 23, VarType.VT_UI4, "2.3.12.23"
    PROPID_MGMT_QUEUE_EOD_SOURCE_INFO = 24, VarType.VT_VARIANT | VT_VECTOR, "2.3.12.24"
    PROPID_MGMT_QUEUE_CONNECTION_HISTORY = 25, VarType.VT_VARIANT | VT_VECTOR, "2.3.12.25"
    PROPID_MGMT_QUEUE_SUBQUEUE_COUNT = 26, VarType.VT_UI4, "2.3.12.26"
    PROPID_MGMT_QUEUE_SUBQUEUE_NAMES = 27, VarType.VT_LPWSTR | VT_VECTOR, "2.3.12.27"


class DeletionNotificationProperty(Property):
    """MS-MQMQ 2.3.13. The notice that a directory object is gone."""

    PROPID_D_SEQNUM = 1401, VarType.VT_BLOB, "2.3.13.1"
    PROPID_D_PARTITIONID = 1402, VarType.VT_CLSID, "2.3.13.2"
    PROPID_D_SCOPE = 1403, VarType.VT_UI1, "2.3.13.3"
    PROPID_D_OBJTYPE = 1404, VarType.VT_UI1, "2.3.13.4"
    PROPID_D_IDENTIFIER = 1405, VarType.VT_CLSID, "2.3.13.5"


PROPERTIES: Final[dict[ObjectKind, type[Property]]] = {
    ObjectKind.QUEUE: QueueProperty,
    ObjectKind.MACHINE: MachineProperty,
    ObjectKind.SITE: SiteProperty,
    ObjectKind.CONNECTED_NETWORK: ConnectedNetworkProperty,
    ObjectKind.ENTERPRISE: EnterpriseProperty,
    ObjectKind.USER: UserProperty,
    ObjectKind.ROUTING_LINK: RoutingLinkProperty,
    ObjectKind.SETTINGS: SettingsProperty,
    ObjectKind.MQUSER: MQUserProperty,
    ObjectKind.COMPUTER: ComputerProperty,
    ObjectKind.MANAGEMENT_MACHINE: ManagementMachineProperty,
    ObjectKind.MANAGEMENT_QUEUE: ManagementQueueProperty,
    ObjectKind.DELETION_NOTIFICATION: DeletionNotificationProperty,
}

_BY_NUMBER: Final[dict[ObjectKind, dict[int, Property]]] = {
    kind: {int(prop): prop for prop in family} for kind, family in PROPERTIES.items()
}


def find_property(kind: ObjectKind, propid: int) -> Property:
    """The property with this number; IllegalPropertyId if the kind has none."""
    prop = _BY_NUMBER[kind].get(propid)
    if prop is None:
        raise IllegalPropertyId(f"{propid} is not a {kind.value} property (MS-MQMQ 2.3)")
    return prop
