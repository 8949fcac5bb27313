"""MS-MQMQ 2.3: which values a property may have, what it is when nobody sets it, and when it may be given.

`check_property` is the gate for properties that a caller gives: it raises the narrowest error, or says what to do with
the value. When a queue property may be given is told by MS-MQMP 3.1.1.12, for other objects by their sections.
A property without a rule takes every value of its variant type at any time. Management properties are only read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from waypost.errors import (
    DecodeError,
    EncodeError,
    IllegalPathName,
    IllegalPropertyType,
    IllegalPropertyValue,
    InvalidParameter,
    LabelTooLong,
    PropertyNotAllowed,
    TooManyProperties,
)
from waypost.limits import MAX_LABEL_LENGTH, MAX_PROPERTIES
from waypost.wire.access_masks import SecurityInformation
from waypost.wire.addresses import AddressType
from waypost.wire.certificates import MqUserSignCerts
from waypost.wire.keys import MqDsPublicKeys
from waypost.wire.path_names import PathName, QueueKind
from waypost.wire.property_checks import (
    Between,
    Check,
    anything,
    are_distinguished_names,
    flags_of,
    is_address_array,
    is_distinguished_name,
    is_dns_path_name,
    is_ldap_url,
    is_multicast_address,
    is_path_name,
    is_queue_label,
    is_security_descriptor,
    one_of,
    one_record,
    utf16_units,
)
from waypost.wire.property_values import (
    DEFAULT_QUOTA,
    UNLIMITED,
    Authenticate,
    DeletedObject,
    Journal,
    NameStyle,
    OperatingSystem,
    QueuePrivacy,
    Scope,
    Service,
    Transactional,
)
from waypost.wire.propid import (
    ComputerProperty,
    ConnectedNetworkProperty,
    DeletionNotificationProperty,
    EnterpriseProperty,
    MachineProperty,
    MQUserProperty,
    ObjectKind,
    Property,
    QueueProperty,
    RoutingLinkProperty,
    SettingsProperty,
    SiteProperty,
    UserProperty,
    find_property,
)
from waypost.wire.propvariant import PropVariant, Value
from waypost.wire.sid import Sid
from waypost.wire.variant_types import VT_VECTOR, VarType

SETTINGS_NAME: Final = "MSMQ Settings"
DEFAULT_CSP_NAME: Final = "Microsoft Enhanced RSA and AES Cryptographic Provider"


class Operation(Enum):
    """Operation of the caller on the object that has the properties."""

    CREATE = "created"
    SET = "set"


class Treatment(Enum):
    """Treatment of a property that passed its check."""

    STORE = "store"
    STORE_IF_PUBLIC = "store if the queue is public, else ignore"
    IGNORE = "ignore"

    def applies_to(self, queue: PathName) -> bool:
        """True if the property is to be kept for this queue."""
        return self is Treatment.STORE or (self is Treatment.STORE_IF_PUBLIC and queue.kind is QueueKind.PUBLIC)


ANY_TIME: Final = frozenset(Operation)
AT_CREATION: Final = frozenset({Operation.CREATE})
AFTERWARDS: Final = frozenset({Operation.SET})
NEVER: Final[frozenset[Operation]] = frozenset()


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule of section 2.3 for one property."""

    check: Check = anything
    default: Value = None
    given: frozenset[Operation] = ANY_TIME
    treatment: Treatment = Treatment.STORE


BOOLEAN: Final = Rule(one_of(0, 1))
QUOTA: Final = Rule(Between(0, UNLIMITED), default=UNLIMITED)
COST: Final = Between(1, 999_999)
RESERVED: Final = Rule(treatment=Treatment.IGNORE)
READ_ONLY: Final = Rule(given=NEVER)
DISTINGUISHED_NAME: Final = Rule(is_distinguished_name)
DISTINGUISHED_NAMES: Final = Rule(are_distinguished_names)
SECURITY_DESCRIPTOR: Final = Rule(is_security_descriptor)
SECURITY_INFORMATION: Final = Rule(flags_of(SecurityInformation))
SID: Final = Rule(one_record(Sid.decode))
PUBLIC_KEYS: Final = one_record(MqDsPublicKeys.decode)
ONE_SERVICE: Final = Rule(one_of(0, 1, 2, 4, 8))

RULES: Final[dict[ObjectKind, dict[Property, Rule]]] = {
    ObjectKind.QUEUE: {
        QueueProperty.PROPID_Q_INSTANCE: READ_ONLY,
        QueueProperty.PROPID_Q_PATHNAME: Rule(is_path_name, given=AT_CREATION),
        QueueProperty.PROPID_Q_JOURNAL: Rule(one_of(*Journal), default=Journal.MQ_JOURNAL_NONE),
        QueueProperty.PROPID_Q_QUOTA: QUOTA,
        QueueProperty.PROPID_Q_BASEPRIORITY: Rule(
            Between(-0x8000, 0x7FFF), default=0, treatment=Treatment.STORE_IF_PUBLIC
        ),
        QueueProperty.PROPID_Q_JOURNAL_QUOTA: QUOTA,
        QueueProperty.PROPID_Q_LABEL: Rule(is_queue_label, default=""),
        QueueProperty.PROPID_Q_CREATE_TIME: READ_ONLY,
        QueueProperty.PROPID_Q_MODIFY_TIME: READ_ONLY,
        QueueProperty.PROPID_Q_AUTHENTICATE: Rule(one_of(*Authenticate), default=Authenticate.MQ_AUTHENTICATE_NONE),
        QueueProperty.PROPID_Q_PRIV_LEVEL: Rule(one_of(*QueuePrivacy), default=QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL),
        QueueProperty.PROPID_Q_TRANSACTION: Rule(
            one_of(*Transactional), default=Transactional.MQ_TRANSACTIONAL_NONE, given=AT_CREATION
        ),
        QueueProperty.PROPID_Q_SCOPE: Rule(one_of(*Scope)),
        QueueProperty.PROPID_Q_HASHKEY: RESERVED,
        QueueProperty.PROPID_Q_LABEL_HASHKEY: RESERVED,
        QueueProperty.PROPID_Q_FULL_PATH: DISTINGUISHED_NAME,
        QueueProperty.PROPID_Q_PATHNAME_DNS: Rule(is_dns_path_name, given=NEVER),
        QueueProperty.PROPID_Q_MULTICAST_ADDRESS: Rule(is_multicast_address),
        QueueProperty.PROPID_Q_ADS_PATH: Rule(is_ldap_url, given=NEVER),
        QueueProperty.PROPID_Q_SECURITY: SECURITY_DESCRIPTOR,
        QueueProperty.PROPID_Q_OBJ_SECURITY: SECURITY_DESCRIPTOR,
        QueueProperty.PROPID_Q_SECURITY_INFORMATION: SECURITY_INFORMATION,
    },
    ObjectKind.MACHINE: {
        MachineProperty.PROPID_QM_ADDRESS: Rule(is_address_array),
        MachineProperty.PROPID_QM_SERVICE: Rule(flags_of(Service)),
        MachineProperty.PROPID_QM_HASHKEY: RESERVED,
        MachineProperty.PROPID_QM_QUOTA: Rule(Between(0, UNLIMITED), default=DEFAULT_QUOTA),
        MachineProperty.PROPID_QM_JOURNAL_QUOTA: QUOTA,
        MachineProperty.PROPID_QM_MACHINE_TYPE: Rule(default=""),
        MachineProperty.PROPID_QM_FOREIGN: BOOLEAN,
        MachineProperty.PROPID_QM_OS: Rule(one_of(*OperatingSystem), default=OperatingSystem.MSMQ_OS_FOREIGN),
        MachineProperty.PROPID_QM_FULL_PATH: DISTINGUISHED_NAME,
        MachineProperty.PROPID_QM_OUTFRS_DN: DISTINGUISHED_NAMES,
        MachineProperty.PROPID_QM_INFRS_DN: DISTINGUISHED_NAMES,
        MachineProperty.PROPID_QM_SERVICE_ROUTING: BOOLEAN,
        MachineProperty.PROPID_QM_SERVICE_DSSERVER: BOOLEAN,
        MachineProperty.PROPID_QM_SERVICE_DEPCLIENTS: BOOLEAN,
        MachineProperty.PROPID_QM_OBJ_SECURITY: SECURITY_DESCRIPTOR,
        MachineProperty.PROPID_QM_SECURITY_INFORMATION: SECURITY_INFORMATION,
        MachineProperty.PROPID_QM_ENCRYPT_PKS: Rule(PUBLIC_KEYS),
        MachineProperty.PROPID_QM_SIGN_PKS: Rule(PUBLIC_KEYS),
        MachineProperty.PROPID_QM_OWNER_SID: SID,
        MachineProperty.PROPID_QM_GROUP_IN_CLUSTER: BOOLEAN,
        MachineProperty.PROPID_QM_SECURITY: SECURITY_DESCRIPTOR,
        MachineProperty.PROPID_QM_SIGN_PK: Rule(PUBLIC_KEYS, given=AT_CREATION),
        MachineProperty.PROPID_QM_ENCRYPT_PK: Rule(PUBLIC_KEYS, given=AT_CREATION),
        MachineProperty.PROPID_QM_UPGRADE_DACL: Rule(given=AFTERWARDS, treatment=Treatment.IGNORE),
    },
    ObjectKind.SITE: {
        SiteProperty.PROPID_S_INTERVAL1: Rule(default=2),
        SiteProperty.PROPID_S_INTERVAL2: Rule(default=10),
        SiteProperty.PROPID_S_FULL_NAME: DISTINGUISHED_NAME,
        SiteProperty.PROPID_S_NT4_STUB: BOOLEAN,
        SiteProperty.PROPID_S_FOREIGN: BOOLEAN,
        SiteProperty.PROPID_S_DONOTHING: RESERVED,
        SiteProperty.PROPID_S_SECURITY: SECURITY_DESCRIPTOR,
        SiteProperty.PROPID_S_PSC_SIGNPK: Rule(PUBLIC_KEYS),
        SiteProperty.PROPID_S_SECURITY_INFORMATION: SECURITY_INFORMATION,
    },
    ObjectKind.CONNECTED_NETWORK: {
        ConnectedNetworkProperty.PROPID_CN_PROTOCOLID: Rule(
            one_of(AddressType.IP, AddressType.IPX, AddressType.FOREIGN)
        ),
        ConnectedNetworkProperty.PROPID_CN_SECURITY: SECURITY_DESCRIPTOR,
    },
    ObjectKind.ENTERPRISE: {
        EnterpriseProperty.PROPID_E_NAMESTYLE: Rule(one_of(*NameStyle)),
        EnterpriseProperty.PROPID_E_CSP_NAME: Rule(default=DEFAULT_CSP_NAME),
        EnterpriseProperty.PROPID_E_S_INTERVAL1: RESERVED,
        EnterpriseProperty.PROPID_E_S_INTERVAL2: RESERVED,
        EnterpriseProperty.PROPID_E_CRL: RESERVED,
        EnterpriseProperty.PROPID_E_CSP_TYPE: RESERVED,
        EnterpriseProperty.PROPID_E_ENCRYPT_ALG: RESERVED,
        EnterpriseProperty.PROPID_E_SIGN_ALG: RESERVED,
        EnterpriseProperty.PROPID_E_HASH_ALG: RESERVED,
        EnterpriseProperty.PROPID_E_CIPHER_MODE: RESERVED,
        EnterpriseProperty.PROPID_E_SECURITY: SECURITY_DESCRIPTOR,
    },
    ObjectKind.USER: {
        UserProperty.PROPID_U_SID: SID,
        UserProperty.PROPID_U_SIGN_CERT: Rule(one_record(MqUserSignCerts.decode)),
    },
    ObjectKind.ROUTING_LINK: {
        RoutingLinkProperty.PROPID_L_COST: Rule(COST, default=1),
        RoutingLinkProperty.PROPID_L_GATES_DN: DISTINGUISHED_NAMES,
        RoutingLinkProperty.PROPID_L_NEIGHBOR1_DN: DISTINGUISHED_NAME,
        RoutingLinkProperty.PROPID_L_NEIGHBOR2_DN: DISTINGUISHED_NAME,
        RoutingLinkProperty.PROPID_L_FULL_PATH: DISTINGUISHED_NAME,
        RoutingLinkProperty.PROPID_L_ACTUAL_COST: Rule(COST),
    },
    ObjectKind.SETTINGS: {
        SettingsProperty.PROPID_SET_NAME: Rule(one_of(SETTINGS_NAME), default=SETTINGS_NAME),
        SettingsProperty.PROPID_SET_SERVICE: ONE_SERVICE,
        SettingsProperty.PROPID_SET_FULL_PATH: DISTINGUISHED_NAME,
        SettingsProperty.PROPID_SET_NT4: BOOLEAN,
        SettingsProperty.PROPID_SET_SERVICE_ROUTING: BOOLEAN,
        SettingsProperty.PROPID_SET_SERVICE_DSSERVER: BOOLEAN,
        SettingsProperty.PROPID_SET_SERVICE_DEPCLIENTS: BOOLEAN,
        SettingsProperty.PROPID_SET_OLDSERVICE: ONE_SERVICE,
    },
    ObjectKind.MQUSER: {
        MQUserProperty.PROPID_MQU_SID: SID,
        MQUserProperty.PROPID_MQU_SECURITY: SECURITY_DESCRIPTOR,
    },
    ObjectKind.COMPUTER: {
        ComputerProperty.PROPID_COM_FULL_PATH: DISTINGUISHED_NAME,
        ComputerProperty.PROPID_COM_SID: SID,
    },
    ObjectKind.DELETION_NOTIFICATION: {
        DeletionNotificationProperty.PROPID_D_SCOPE: Rule(one_of(*Scope)),
        DeletionNotificationProperty.PROPID_D_OBJTYPE: Rule(one_of(*DeletedObject)),
    },
}

_NO_RULE: Final = Rule()


def rule_of(kind: ObjectKind, prop: Property) -> Rule:
    if kind in (ObjectKind.MANAGEMENT_MACHINE, ObjectKind.MANAGEMENT_QUEUE):
        return READ_ONLY
    return RULES[kind].get(prop, _NO_RULE)


def check_value(kind: ObjectKind, propid: int, value: PropVariant) -> Treatment:
    """The treatment of a value in any operation. Raises if its type or the value itself is not legal."""
    prop = find_property(kind, propid)
    rule = rule_of(kind, prop)
    if value.vt != prop.vt:
        raise IllegalPropertyType(
            f"{prop.name} must have the variant type {type_name(prop.vt)}, not {type_name(value.vt)}"
        )
    if rule.treatment is not Treatment.IGNORE and not _is_legal(prop, rule, value):
        legal = f"; must be {rule.check.lowest} to {rule.check.highest}" if isinstance(rule.check, Between) else ""
        raise IllegalPropertyValue(f"invalid {prop.name} {value.value!r:.200}{legal} (MS-MQMQ {prop.section})")
    return rule.treatment


def type_name(vt: int) -> str:
    """A VARTYPE in the words of MS-MQMQ 2.2.12, or its number if they have none for it."""
    try:
        element = VarType(vt & ~VT_VECTOR).name
    except ValueError:
        return f"0x{vt:04X}"
    return f"VT_VECTOR|{element}" if vt & VT_VECTOR else element


def _is_legal(prop: Property, rule: Rule, variant: PropVariant) -> bool:
    value = variant.value
    if value is None or (isinstance(value, list | tuple) and None in value):
        return False
    if isinstance(rule.check, Between):
        return rule.check(value)
    try:
        variant.encode()  # the value fits its variant type
        return rule.check(value)
    except IllegalPathName:
        raise
    except (DecodeError, EncodeError) as error:
        raise IllegalPropertyValue(f"{prop.name}: {error}") from error


def check_property(kind: ObjectKind, propid: int, value: PropVariant, operation: Operation) -> Treatment:
    """The treatment of a property that a caller gives in `operation`."""
    prop = find_property(kind, propid)
    if operation not in rule_of(kind, prop).given:
        raise PropertyNotAllowed(f"{prop.name} is not allowed when a {kind.value} is {operation.value}")
    return check_value(kind, propid, value)


def check_properties(
    kind: ObjectKind, propids: Sequence[int], values: Sequence[PropVariant], operation: Operation
) -> list[Treatment]:
    """The same for the two parallel arrays of one call."""
    if len(propids) > MAX_PROPERTIES:
        raise TooManyProperties(f"a call can have at most {MAX_PROPERTIES} properties, not {len(propids)}")
    if len(propids) != len(values):
        raise InvalidParameter(f"the call has {len(propids)} property identifiers, but {len(values)} values")
    return [check_property(kind, propid, value, operation) for propid, value in zip(propids, values, strict=True)]


def check_message_label(label: str) -> None:
    """MS-MQMQ 2.4: the label of a message, whose terminating null counts, has at most MQ_MAX_MSG_LABEL_LEN units."""
    units = utf16_units(label) + 1
    if units > MAX_LABEL_LENGTH:
        raise LabelTooLong(
            f"the label must have at most {MAX_LABEL_LENGTH} UTF-16 units including the null, not {units}"
        )


def quota_bytes(kilobytes: int) -> int | None:
    """The limit that a quota property sets, or None if it sets none."""
    return None if kilobytes == UNLIMITED else kilobytes * 1024


def sam_account(computer: str) -> str:
    """MS-MQMQ 2.3.10.2: the account name of a computer."""
    return computer[:19] + "$"
