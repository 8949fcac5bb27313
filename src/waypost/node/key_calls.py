"""The operations about keys and certificates: the shell performs them, because they are about files."""

from contextlib import suppress
from typing import Final, TypeAlias, get_args

from msgspec.structs import replace

from waypost.api.excerpt import excerpt
from waypost.api.keys import (
    KINDS,
    CertificateInfo,
    CreateCertificate,
    ImportCertificate,
    ImportKey,
    Keys,
    ListCertificates,
    RegisterCertificate,
    RemoveCertificate,
    RotateKeys,
)
from waypost.api.operations import Operation
from waypost.errors import CertificateNotFound, DecodeError, LimitReached, UserNotFound
from waypost.limits import MAX_CERTIFICATES_OF_USER
from waypost.node.effects import KeyOperation
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.security.callers import Caller, Role, check_role
from waypost.security.protection_facts import Registered
from waypost.wire.sid import Sid

OfCertificates: TypeAlias = (
    ListCertificates | RegisterCertificate | CreateCertificate | ImportCertificate | RemoveCertificate
)
_OWN: Final = get_args(OfCertificates)


class KeyCalls:
    """Key operations on one node."""

    __slots__ = ("_kernel", "_node")

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        self._kernel: Final = node.kernel

    def perform(self, call: Call, operation: Operation[object]) -> None:
        kernel = self._kernel
        if operation.row.is_audited:
            # A change of the key folder without its entry in the audit trail would not be known.
            kernel.check_store()
        user, sid = self._user(call, getattr(operation, "user", ""))
        if kernel.noted is not None:
            kernel.noted.object = self._object(operation, user) or kernel.noted.object
        if isinstance(operation, _OWN):
            operation = self._checked(call, operation, sid)

        def reply(call: Call, result: object) -> None:
            if kernel.noted is not None:
                kernel.noted.object = _changed(operation, result) or kernel.noted.object
            kernel.reply(call.request, result)

        kernel.ask_keys_for(call, KeyOperation(operation, user, sid, self._names()), reply)

    def _object(self, operation: Operation[object], user: str) -> str:
        """The object for the audit trail, as far as it is known before the work; "" is that of the record."""
        match operation:
            case RotateKeys(kind=kind) if not isinstance(kind, str):
                return ", ".join(KINDS)
            case RegisterCertificate() | CreateCertificate() | ImportCertificate():
                return user
            case RemoveCertificate(digest=digest):
                found = self._registered(digest)
                if found is not None:
                    sid = str(Sid.decode(found.sid, 0)[0])
                    return f"{digest.lower()} of {self._names().get(sid, sid)}"
        return ""

    def _registered(self, digest: str) -> Registered | None:
        registered = self._node.protection.facts.registered
        return next((each for key, each in registered.items() if key.hex() == digest.lower()), None)

    def _checked(self, call: Call, operation: OfCertificates, sid: Sid) -> OfCertificates:
        """The operation as this caller may ask for it: everybody about own certificates, others with a role."""
        caller, registered = call.caller, self._node.protection.facts.registered
        match operation:
            case ListCertificates():
                if caller.role < Role.READ and not operation.user and not caller.is_anonymous:
                    return replace(operation, user=caller.name)
                self._check_owner(caller, sid, Role.READ, "to list the certificates of other users")
            case RemoveCertificate(digest=digest):
                found = self._registered(digest)
                if caller.role < Role.ADMIN and (found is None or found.sid != caller.sid.encode()):
                    # The certificates of others do not exist.
                    raise CertificateNotFound(f"the certificate {excerpt(digest)} is not registered")
            case _:
                self._check_owner(caller, sid, Role.ADMIN, "to manage the certificates of other users")
                if sum(each.sid == sid.encode() for each in registered.values()) >= MAX_CERTIFICATES_OF_USER:
                    raise LimitReached(
                        f"the user {sid} already has {MAX_CERTIFICATES_OF_USER} certificates, which is the limit; "
                        "remove some with `waypost cert remove`"
                    )
        return operation

    def _check_owner(self, caller: Caller, sid: Sid, role: Role, what: str) -> None:
        if caller.is_anonymous or caller.sid != sid:
            check_role(caller, role, what)

    def _user(self, call: Call, name: str) -> tuple[str, Sid]:
        """The user that the operation names; "" is the caller, and a SID is also that of a user of another computer."""
        if not name:
            return call.caller.name, call.caller.sid
        user, administrator = self._node.users.find(name), self._node.administrator
        if user is not None:
            return user.name, Sid.parse(user.sid)
        if name.lower() == administrator.name:
            return administrator.name, administrator.sid
        with suppress(DecodeError):
            return name, Sid.parse(name)
        raise UserNotFound(f"the user {excerpt(name)} does not exist")

    def _names(self) -> dict[str, str]:
        administrator = self._node.administrator
        names = {user.sid: user.name for user in self._node.users.all()}
        return {str(administrator.sid): administrator.name, **names}


def _changed(operation: Operation[object], result: object) -> str:
    """The object for the audit trail after the work: keys and certificates with their digests."""
    match operation, result:
        case ((RegisterCertificate() | CreateCertificate() | ImportCertificate()), CertificateInfo()):
            return f"{result.digest} of {result.user}"
        case ((ImportKey() | RotateKeys()), Keys()):
            kinds = (operation.kind,) if isinstance(operation.kind, str) else KINDS
            return ", ".join(f"{kind} {getattr(result, kind)[0].digest}" for kind in kinds)
    return ""
