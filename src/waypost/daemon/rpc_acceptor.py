"""The server side of NTLM and SPNEGO: pyspnego with the users of the user store.

The NTLM acceptor of pyspnego takes its users from a file that the environment of the process names. It compares a
response with one that it builds itself, which fails for clients with another layout, such as impacket. Here a response
is verified as it came (MS-NLMP 3.3.2). Besides the hash of waypost.drive.passwords, only this
module uses internals of pyspnego.

An attacker in the middle that forwards and changes messages does not get a session with a key that it knows: the client
has answered a challenge with a timestamp, so that it adds a MIC if it can make one (MS-NLMP 3.1.5.1.2), the session key
has its 16 bytes, and the server refuses weak keys and checksums. An attacker can still change the messages of a client
that makes no MIC, such as impacket; this helps it where calls are not signed: at the level CONNECT.
"""

import hmac
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final

from spnego import ContextProxy, ContextReq
from spnego._context import GSSMech
from spnego._gss import GSSAPIProxy
from spnego._negotiate import NegotiateProxy
from spnego._ntlm import NTLMProxy
from spnego._ntlm_raw.crypto import hmac_md5, ntowfv2, rc4k
from spnego._ntlm_raw.messages import Authenticate, AvFlags, AvId, NegotiateFlags
from spnego.exceptions import InvalidTokenError

from waypost.daemon.rpc_users import Logons

# MS-NLMP 2.2.2.6: the response of NTLM version 1 has 24 bytes, and one of version 2 more.
_VERSION_1_SIZE: Final = 24
_PROOF_SIZE: Final = 16

# MS-NLMP 2.2.2.7 and 2.2.2.8: NTProofStr and the fields of NTLMv2_CLIENT_CHALLENGE before its AvPairs.
_AV_PAIRS_AT: Final = _PROOF_SIZE + 28
_AV_PAIR: Final = Struct("<HH")

# MS-NLMP 2.2.1.3: EncryptedRandomSessionKey.
_SESSION_KEY_SIZE: Final = 16

# Of an unknown user.
_NO_HASH: Final = bytes(16)

# MS-NLMP 3.4.4.1 and 3.4.5.3: without the one a signature is a CRC32, without the other keys have 40 or 56 bits.
_STRONG: Final = NegotiateFlags.extended_session_security | NegotiateFlags.key_128


class NtlmAcceptor(NTLMProxy):
    """NTLM version 2 for users with NT hashes; version 1 and anonymous clients are refused."""

    def __init__(self, logons: Logons) -> None:
        # Created as an initiator, which needs no file; the credentials are never used.
        super().__init__("nobody", "", usage="initiate")
        self.usage = "accept"
        self._credential = None
        self._logons: Final = logons
        self._principal: str | None = None

    @property
    def client_principal(self) -> str | None:
        return self._principal

    def _step_accept_authenticate(self, token: bytes, channel_bindings: Any) -> None:  # noqa: ARG002, pyspnego calls it
        assert self._temp_negotiate is not None
        assert self._temp_challenge is not None
        auth = Authenticate.unpack(token)
        domain, user_name, response = auth.domain_name or "", auth.user_name or "", auth.nt_challenge_response or b""
        if len(response) <= _VERSION_1_SIZE:
            raise InvalidTokenError(context_msg="the client did not send an NTLM version 2 response")
        if _STRONG & ~auth.flags:
            raise InvalidTokenError(
                context_msg="the flags of the client do not request extended session security with 128 bits"
            )
        user = self._logons.find(domain, user_name)
        # Also for an unknown user, so that the time does not reveal which names are known.
        key = ntowfv2(user_name, _NO_HASH if user is None else user[1], domain)
        proof = hmac_md5(key, self._temp_challenge.server_challenge + response[_PROOF_SIZE:])
        is_right = hmac.compare_digest(proof, response[:_PROOF_SIZE])
        if user is None or not is_right:
            raise InvalidTokenError(context_msg="unknown user or wrong password")
        session_key = _session_key(auth, hmac_md5(key, proof))
        pairs = list(_av_pairs(response))
        if all(av_id != AvId.timestamp for av_id, _ in pairs):
            raise InvalidTokenError(context_msg="the response does not contain the timestamp of the challenge")
        # One such pair is enough: an attacker that changes the challenge can add pairs, but remove none of the client.
        if any(av_id == AvId.flags and int.from_bytes(value, "little") & AvFlags.mic for av_id, value in pairs):
            self._verify_mic(session_key, auth)
        self._session_key = session_key
        self._context_attr = auth.flags
        self._principal = user[0]
        self._complete = True

    def _verify_mic(self, session_key: bytes, auth: Authenticate) -> None:
        """MS-NLMP 3.1.5.1.2: check that the three messages are unchanged."""
        assert self._temp_negotiate is not None
        assert self._temp_challenge is not None
        mic = auth.mic or b""
        auth.mic = bytes(16)
        messages = self._temp_negotiate.pack() + self._temp_challenge.pack() + auth.pack()
        if not hmac.compare_digest(hmac_md5(session_key, messages), mic):
            raise InvalidTokenError(context_msg="the message integrity code (MIC) is wrong")


def _session_key(auth: Authenticate, key_exchange_key: bytes) -> bytes:
    """MS-NLMP 3.2.5.1.2: ExportedSessionKey. A shorter field would make less of it secret, an empty one nothing."""
    if not (auth.flags & NegotiateFlags.key_exch and auth.flags & (NegotiateFlags.sign | NegotiateFlags.seal)):
        return key_exchange_key
    encrypted = auth.encrypted_random_session_key or b""
    if len(encrypted) != _SESSION_KEY_SIZE:
        raise InvalidTokenError(
            context_msg=f"the session key must have {_SESSION_KEY_SIZE} bytes, but has {len(encrypted)}"
        )
    return rc4k(key_exchange_key, encrypted)


def _av_pairs(response: bytes) -> Iterator[tuple[int, bytes]]:
    """All pairs of a response, also behind an MsvAvEOL, which a client may have copied before its own pairs."""
    at = _AV_PAIRS_AT
    while at + _AV_PAIR.size <= len(response):
        av_id, size = _AV_PAIR.unpack_from(response, at)
        at += _AV_PAIR.size + size
        yield av_id, response[at - size : at]


class SpnegoAcceptor(NegotiateProxy):
    """SPNEGO over given contexts; Kerberos is preferred."""

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
            raise InvalidTokenError(context_msg="the server does not support any security package of the client")
        return super()._rebuild_context_list(mech_types, channel_bindings)

    @property
    def chosen(self) -> ContextProxy | None:
        """The context of the negotiated security package."""
        return self._context if self._context_list else None


def gss_context(proxy: ContextProxy) -> Any:
    """The gssapi.SecurityContext of an acceptor that has negotiated Kerberos, or None."""
    chosen = proxy.chosen if isinstance(proxy, SpnegoAcceptor) else proxy
    return chosen._context if isinstance(chosen, GSSAPIProxy) else None  # noqa: SLF001, pyspnego has no other way
