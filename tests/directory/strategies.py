"""Directory objects as Hypothesis makes them."""

from typing import Any

from hypothesis import strategies as st

from waypost.directory.attributes import CERTIFICATES, FORMAT_NAMES, PUBLIC_KEYS, SECURITY, SID, codecs_of
from waypost.directory.objects import DirectoryObject, Queue, QueueManager
from waypost.directory.records import OBJECT_TYPES, Entry
from waypost.directory.topology import MAX_ACTUAL_COST
from waypost.wire.certificates import MqUserSignCert, MqUserSignCerts
from waypost.wire.format_names import FormatName
from waypost.wire.keys import KeyType, MqDsPublicKey, MqDsPublicKeys, ProviderType, PublicKeyBlob
from waypost.wire.security_descriptor import ACCESS_ALLOWED_ACE_TYPE, AccessAce, Acl, SecurityDescriptor
from waypost.wire.sid import Sid

guids = st.binary(min_size=16, max_size=16)
texts = st.text(st.characters(exclude_categories=[]), max_size=20)
sids = st.builds(Sid, st.integers(0, 2**48 - 1), st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple))
names = st.sampled_from(["DIRECT=OS:a\\b", f"PUBLIC={'0' * 8}-0000-0000-0000-{'0' * 12}", "MULTICAST=234.1.1.1:8001"])
keys = st.builds(
    MqDsPublicKey,
    st.sampled_from(ProviderType),
    st.text(max_size=9).filter(lambda text: "\0" not in text),
    st.builds(
        PublicKeyBlob, st.just(KeyType.CALG_RSA_KEYX), st.integers(0, 2**32 - 1), st.binary(min_size=1, max_size=9)
    ),
)
descriptors = st.builds(
    lambda sid: SecurityDescriptor(owner=sid, dacl=Acl(aces=(AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, 0x30001, sid),))),
    sids,
)
certificates = st.builds(MqUserSignCert.of, guids, st.binary(max_size=9))

OF_CODEC: dict[object, st.SearchStrategy[Any]] = {
    SECURITY["codec"]: descriptors,
    SID["codec"]: sids,
    PUBLIC_KEYS["codec"]: st.builds(MqDsPublicKeys, st.lists(keys, max_size=2).map(tuple)),
    CERTIFICATES["codec"]: st.builds(MqUserSignCerts, st.lists(certificates, max_size=2).map(tuple)),
    FORMAT_NAMES["codec"]: st.lists(names.map(FormatName.parse), max_size=3).map(tuple),
}


def values_of(object_type: type[DirectoryObject], name: str) -> st.SearchStrategy[Any]:
    codec = codecs_of(object_type)[name]
    default = getattr(object_type(), name)
    if codec in OF_CODEC:
        return OF_CODEC[codec]
    if name == "actual_cost":
        return st.integers(1, MAX_ACTUAL_COST)
    if isinstance(default, str):
        return texts
    if isinstance(default, bytes):
        return guids
    if isinstance(default, tuple):
        return st.lists(guids, max_size=3).map(tuple)
    return st.sampled_from(type(default)) if type(default) not in (int, bool) else _numbers(default)


def _numbers(default: int) -> st.SearchStrategy[int]:
    return st.booleans() if isinstance(default, bool) else st.integers(-(2**63), 2**63 - 1)


@st.composite
def entries(draw: st.DrawFn, *object_types: type[DirectoryObject]) -> Entry:
    """An object with some of its attributes set."""
    object_type = draw(st.sampled_from(object_types or tuple(OBJECT_TYPES.values())))
    attributes = [name for name in codecs_of(object_type) if name != "identifier"]
    chosen = draw(st.sets(st.sampled_from(attributes)))
    if object_type not in (Queue, QueueManager) and {"certificates", "certificate_digest_list"} <= chosen:
        chosen.discard("certificate_digest_list")
    values = {name: draw(values_of(object_type, name)) for name in sorted(chosen)}
    return Entry(object_type(identifier=draw(guids), **values), frozenset({"identifier", *chosen}))
