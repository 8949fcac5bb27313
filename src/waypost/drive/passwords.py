"""Secrets of users: hashes of passwords and tokens, and their checks. All of it is slow on purpose, or random.

A password is hashed with scrypt, which takes about 60 ms and 32 MB, so event loops run it in a thread. Users that may
log on with NTLM have its NT hash too (MS-NLMP 3.3.1), from which passwords can be guessed quickly.
"""

import secrets
from dataclasses import dataclass
from hashlib import scrypt, sha256
from hmac import compare_digest
from typing import Final, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

# The public names of pyspnego do not have this hash.
from spnego._ntlm_raw.md4 import md4

from waypost.api.local import StorePassword, StoreToken, StoreUser
from waypost.api.operations import Operation
from waypost.api.users import AddUser, CreateToken, NewToken, SetPassword, SetUser
from waypost.errors import InvalidParameter
from waypost.limits import MAX_PASSWORD
from waypost.store.user_records import UserRecord

R = TypeVar("R")

# log2(N), r and p of RFC 7914.
_COST: Final = (15, 8, 1)
_SALT_BYTES: Final = 16
_TOKEN_BYTES: Final = 32
_PREFIX: Final = "scrypt"
# Checked for an unknown user, so that the time does not say which names are known.
_NOBODY: Final = "scrypt$15$8$1$00000000000000000000000000000000$" + "00" * 32


def hash_password(password: str) -> str:
    """The hash of a password, with its salt and its cost. It takes a while."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return "$".join((_PREFIX, *map(str, _COST), salt.hex(), _scrypt(password, salt, _COST).hex()))


def is_password(password: str, hashed: str | None) -> bool:
    """Whether this is the password with this hash; None or "" for a user without one. It always takes a while."""
    kind, log_n, r, p, salt, wanted = (hashed or _NOBODY).split("$")
    found = _scrypt(password[:MAX_PASSWORD], bytes.fromhex(salt), (int(log_n), int(r), int(p)))
    return compare_digest(found, bytes.fromhex(wanted)) and bool(hashed) and kind == _PREFIX


def nt_hash(password: str) -> str:
    """NTOWFv1 of MS-NLMP 3.3.1, as hexadecimal text."""
    return md4(password.encode("utf-16-le")).hex()


def token_hash(token: str) -> str:
    """The hash of a token. A token has 256 random bits, so one round is enough."""
    return sha256(token.encode("utf-8", "replace")).hexdigest()


def _scrypt(password: str, salt: bytes, cost: tuple[int, int, int]) -> bytes:
    log_n, r, p = cost
    data = password.encode("utf-8", "surrogatepass")
    return scrypt(data, salt=salt, n=1 << log_n, r=r, p=p, maxmem=1 << 27, dklen=32)


@dataclass(frozen=True, slots=True)
class Prepared:
    """An operation with hashes in place of secrets, and the secret of a new token, or ""."""

    operation: Operation[object]
    token: str = ""

    def reply(self, found: object) -> object:
        """The reply to the operation as it came, from that of the prepared one."""
        return replace(found, token=self.token) if isinstance(found, NewToken) else found


def prepared(operation: Operation[object], user: UserRecord | None) -> Prepared:
    """Prepare an operation of waypost.api.users.PREPARED. `user` is the present one of this name.

    Raises InvalidParameter. It takes a while.
    """
    match operation:
        case AddUser(name=name, role=role, sid=sid, groups=groups, ntlm=ntlm, password=password):
            if ntlm and password is UNSET:
                raise InvalidParameter("a user who can log on with NTLM must have a password")
            _check(password)
            return Prepared(
                StoreUser(
                    name=name,
                    is_new=True,
                    role=role,
                    sid=sid,
                    groups=tuple(groups),
                    password=UNSET if password is UNSET else hash_password(password),
                    nt_hash=nt_hash(password) if ntlm and password is not UNSET else UNSET,
                )
            )
        case SetUser(name=name, role=role, groups=groups, ntlm=ntlm, password=password):
            _check(password)
            has_ntlm = bool(user is not None and user.nt_hash) if ntlm is UNSET else ntlm
            if ntlm is True and password is UNSET and not (user is not None and user.nt_hash):
                raise InvalidParameter(
                    "`ntlm` also requires `password`, because Waypost has stored only a hash of the password"
                )
            return Prepared(
                StoreUser(
                    name=name,
                    is_new=False,
                    role=role,
                    groups=UNSET if groups is UNSET else tuple(groups),
                    password=UNSET if password is UNSET else hash_password(password),
                    nt_hash="" if not has_ntlm else UNSET if password is UNSET else nt_hash(password),
                )
            )
        case SetPassword(name=name, password=password, current=current):
            _check(password)
            is_proven = current is not UNSET and is_password(current, None if user is None else user.password)
            return Prepared(
                StorePassword(
                    name=name, password=hash_password(password), nt_hash=nt_hash(password), is_proven=is_proven
                )
            )
        case CreateToken(name=name, role=role, expires_days=days):
            token = secrets.token_urlsafe(_TOKEN_BYTES)
            return Prepared(StoreToken(name=name, hash=token_hash(token), role=role, expires_days=days), token)
    raise AssertionError(f"{operation.row.words} has no secrets")


def _check(password: object) -> None:
    if password is UNSET:
        return
    assert isinstance(password, str)
    if not 0 < len(password) <= MAX_PASSWORD:
        raise InvalidParameter(f"a password must have 1 to {MAX_PASSWORD} characters, not {len(password)}")
