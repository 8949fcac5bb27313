"""The server's side of NTLM and SPNEGO: pyspnego with users of ours.

pyspnego's own acceptor of NTLM takes its users from a file that the environment of the process names, and makes a
response anew to compare it, which fails for clients that lay theirs out otherwise, as impacket does. Here a response is
verified as it came (MS-NLMP 3.3.2). This is the one module that knows pyspnego from inside.
"""

import hmac
from typing import Any, Final

from spnego import ContextProxy, ContextReq
from spnego._context import GSSMech
from spnego._negotiate import NegotiateProxy
from spnego._ntlm import NTLMProxy
from spnego._ntlm_raw.crypto import hmac_md5, ntowfv1, ntowfv2, rc4k
from spnego._ntlm_raw.messages import Authenticate, AvFlags, AvId, NegotiateFlags, NTClientChallengeV2
from spnego.exceptions import InvalidTokenError

from waypost.client.rpc_users import UsersFile

# MS-NLMP 2.2.2.6: the response of NTLM version 1 has 24 bytes, and one of version 2 more.
_VERSION_1_SIZE: Final = 24
_PROOF_SIZE: Final = 16


class NtlmAcceptor(NTLMProxy):
    """NTLM version 2 for the users of a file; version 1 and nobody are refused."""

    def __init__(self, users: UsersFile) -> None:
        # Begun as an initiator, who looks for no file; the credentials are never used.
        super().__init__("nobody", "", usage="initiate")
        self.usage = "accept"
        self._credential = None
        self._users: Final = users
        self._principal: str | None = None

    @property
    def client_principal(self) -> str | None:
        return self._principal

    def _step_accept_authenticate(self, token: bytes, channel_bindings: Any) -> None:  # noqa: ARG002, pyspnego calls it
        assert self._temp_negotiate is not None
        assert self._temp_challenge is not None
        auth = Authenticate.unpack(token)
        domain, user_name, response = auth.domain_name or "", auth.user_name or "", auth.nt_challenge_response or b""
        user = self._users.find(domain, user_name)
        if user is None or len(response) <= _VERSION_1_SIZE:
            raise InvalidTokenError(context_msg="no such user, or no response of NTLM version 2")
        key = ntowfv2(user_name, ntowfv1(user.password), domain)
        proof = hmac_md5(key, self._temp_challenge.server_challenge + response[_PROOF_SIZE:])
        if not hmac.compare_digest(proof, response[:_PROOF_SIZE]):
            raise InvalidTokenError(context_msg="the password is not right")
        session_key = hmac_md5(key, proof)
        if auth.flags & NegotiateFlags.key_exch and auth.flags & (NegotiateFlags.sign | NegotiateFlags.seal):
            session_key = rc4k(session_key, auth.encrypted_random_session_key or b"")
        if NTClientChallengeV2.unpack(response[_PROOF_SIZE:]).av_pairs.get(AvId.flags, 0) & AvFlags.mic:
            self._verify_mic(session_key, auth)
        self._session_key = session_key
        self._context_attr = auth.flags
        self._principal = user.name
        self._complete = True

    def _verify_mic(self, session_key: bytes, auth: Authenticate) -> None:
        """MS-NLMP 3.1.5.1.2: nobody has changed one of the three messages."""
        assert self._temp_negotiate is not None
        assert self._temp_challenge is not None
        mic = auth.mic or b""
        auth.mic = bytes(16)
        messages = self._temp_negotiate.pack() + self._temp_challenge.pack() + auth.pack()
        if not hmac.compare_digest(hmac_md5(session_key, messages), mic):
            raise InvalidTokenError(context_msg="the MIC of the messages is not right")


class SpnegoAcceptor(NegotiateProxy):
    """SPNEGO over contexts that are made already; Kerberos is preferred."""

    def __init__(self, kerberos: ContextProxy | None, ntlm: ContextProxy | None, requirements: ContextReq) -> None:
        super().__init__(usage="accept", context_req=requirements)
        contexts = {GSSMech.kerberos: kerberos, GSSMech.ntlm: ntlm}
        self._offered: Final = {mech: context for mech, context in contexts.items() if context is not None}

    def _rebuild_context_list(self, mech_types: list[str] | None = None, channel_bindings: Any = None) -> list[str]:
        self._available_contexts = {
            mech: context
            for mech, context in self._offered.items()
            if any(self._is_same_mech(mech, oid) for oid in mech_types or ())
        }
        if not self._available_contexts:
            raise InvalidTokenError(context_msg="none of the packages that the client names is offered")
        return super()._rebuild_context_list(mech_types, channel_bindings)
