"""The security contexts of one connection of a server: MS-RPCE 3.3.1.5.2.1, 3.3.1.5.4 and 3.3.3.5.3.

A client builds a security context with the tokens of bind, alter_context and rpc_auth_3, under a number of its choice,
and may build several. Each request is then made under one of them, or under none.
"""

from waypost.errors import AuthenticationFailed
from waypost.limits import MAX_RPC_SECURITY_CONTEXTS
from waypost.rpc.authentication import Acceptors, AuthLevel, AuthType, Caller, SecurityContext
from waypost.rpc.pdu import SecurityTrailer
from waypost.rpc.protection import Protection


class UnknownAuthType(AuthenticationFailed):
    """MS-RPCE 3.3.3.5.3: the security package is not offered here."""


class SecurityContexts:
    """MS-RPCE 3.3.1.1.2: the table of security context handles, with what each of them says of the caller."""

    __slots__ = ("_acceptors", "_address", "_by_id", "signs_headers")

    def __init__(self, acceptors: Acceptors, address: str) -> None:
        self._acceptors = acceptors
        self._address = address
        self._by_id: dict[int, Protection] = {}
        self.signs_headers = False

    def step(self, trailer: SecurityTrailer, token: bytes) -> bytes:
        """Takes a token of a bind or alter_context; the answer is empty when nothing is left to say."""
        if trailer.auth_context_id not in self._by_id:
            self._begin(trailer)
        return self.step_on(trailer, token)

    def step_on(self, trailer: SecurityTrailer, token: bytes) -> bytes:
        """The same with a token that is not the first. A security context that fails is forgotten."""
        protection = self._by_id.get(trailer.auth_context_id)
        if protection is None or protection.context.is_complete or not _is_about(trailer, protection):
            raise AuthenticationFailed(f"the security context {trailer.auth_context_id} does not accept another token")
        try:
            answer = protection.context.step(token) or b""
            if not answer and not protection.context.is_complete:
                raise AuthenticationFailed("the security package neither completes nor continues the authentication")
        except AuthenticationFailed:
            del self._by_id[trailer.auth_context_id]
            raise
        return answer

    @property
    def is_built(self) -> bool:
        """Whether the client has shown who it is."""
        return any(protection.context.is_complete for protection in self._by_id.values())

    def protection(self, trailer: SecurityTrailer | None) -> Protection | None:
        """The security context of a request with this sec_trailer; None without one.

        MS-RPCE 3.3.1.5.4: at the level CONNECT, a request of the only security context may leave the sec_trailer out.
        """
        if trailer is None:
            only = next(iter(self._by_id.values())) if len(self._by_id) == 1 else None
            is_used = only is not None and not only.is_protecting and only.context.is_complete
            return only if is_used else None
        protection = self._by_id.get(trailer.auth_context_id)
        if protection is None or not protection.context.is_complete:
            raise AuthenticationFailed(
                f"the security context {trailer.auth_context_id} does not exist or is not complete"
            )
        return protection

    def caller(self, protection: Protection | None) -> Caller:
        if protection is None:
            return Caller.anonymous(self._address)
        context = protection.context
        return Caller(protection.level, context.principal, self._address, context.account)

    def _begin(self, trailer: SecurityTrailer) -> None:
        level = AuthLevel.of(trailer.auth_level)
        context = self._accept(trailer.auth_type)
        if context is None:
            raise UnknownAuthType(f"the auth_type {trailer.auth_type} is not offered")
        if level is None or level is AuthLevel.NONE or len(self._by_id) >= MAX_RPC_SECURITY_CONTEXTS:
            raise AuthenticationFailed(
                f"the auth_level {trailer.auth_level} is not supported, or the connection already has "
                f"{MAX_RPC_SECURITY_CONTEXTS} security contexts"
            )
        self._by_id[trailer.auth_context_id] = Protection(context, level, trailer.auth_context_id, self.signs_headers)

    def _accept(self, auth_type: int) -> SecurityContext | None:
        try:
            known = AuthType(auth_type)
        except ValueError:
            return None
        return self._acceptors(known)


def _is_about(trailer: SecurityTrailer, protection: Protection) -> bool:
    return trailer.auth_type == protection.context.auth_type and AuthLevel.of(trailer.auth_level) is protection.level
