"""Requests and responses under a security context: MS-RPCE 2.2.2.11, 2.2.2.12 and 3.3.1.5.2.2.

Below the level PACKET nothing is added. From it on each fragment has padding behind its stub data, a sec_trailer and a
token; the token signs header, body and sec_trailer, or the body alone where header signing was not agreed on, and at
PRIVACY the body is sealed. MS-RPCE's table protects no segment at PACKET; Waypost signs there what it signs at
INTEGRITY, to which 2.2.1.1.8 lets it go up. Faults are never protected: the table is about requests and responses.
"""

from dataclasses import dataclass
from typing import Final

from waypost.errors import AuthenticationFailed, DecodeError
from waypost.rpc.authentication import AuthLevel, Parts, SecurityContext
from waypost.rpc.calls import stub_offset
from waypost.rpc.pdu import HEADER_SIZE, TRAILER, TRAILER_SIZE, Fragment, Header, SecurityTrailer

# MS-RPCE 2.2.2.11: the sec_trailer is aligned to this, counted from the start of the stub data.
ALIGNMENT: Final = 16


@dataclass(slots=True)
class Protection:
    """A complete security context as one connection uses it; `context_id` is the client's auth_context_id."""

    context: SecurityContext
    level: AuthLevel
    context_id: int
    sign_header: bool

    @property
    def is_protecting(self) -> bool:
        return self.level >= AuthLevel.PACKET

    def room(self, max_frag: int, header: Header) -> int:
        """Number of bytes of stub data that fit into a fragment of `max_frag` bytes with this header."""
        room = stub_room(max_frag, header)
        if not self.is_protecting:
            return room
        return (room - TRAILER_SIZE - self.context.signature_size(self.level)) // ALIGNMENT * ALIGNMENT

    def protect(self, fragment: Fragment) -> bytes:
        """The bytes of a request or a response that is given in clear."""
        if not self.is_protecting:
            return fragment.encode()
        header = fragment.header
        offset = stub_offset(header)
        stub = fragment.body[offset:]
        padding = bytes(-len(stub) % ALIGNMENT)
        trailer = SecurityTrailer(self.context.auth_type, self.level, len(padding), 0, self.context_id).encode()
        header.auth_length = self.context.signature_size(self.level)
        header.frag_length = HEADER_SIZE + len(fragment.body) + len(padding) + TRAILER_SIZE + header.auth_length
        head = header.encode() + fragment.body[:offset]
        body, token = self.context.protect(Parts(head, stub + padding, trailer, self.sign_header), self.level)
        assert len(token) == header.auth_length
        return b"".join((head, body, trailer, token))

    def unprotect(self, fragment: Fragment) -> Fragment:
        """The same request or response in clear and without what protected it; AuthenticationFailed if it is wrong."""
        trailer = fragment.trailer
        if trailer is None:
            # 3.3.1.5.4: at CONNECT the token is left out.
            if self.is_protecting:
                raise AuthenticationFailed(f"a fragment at the level {self.level.name} has no token")
            return fragment
        self._check(trailer)
        offset = stub_offset(fragment.header)
        room = len(fragment.body) - offset
        if trailer.auth_pad_length > room:
            reason = f"must be at most {room}, the size of the stub data, not {trailer.auth_pad_length}"
            raise DecodeError(TRAILER, "auth_pad_length", 0, reason)
        head, stub = fragment.body[:offset], fragment.body[offset:]
        if self.is_protecting:
            parts = Parts(fragment.header.encode() + head, stub, trailer.encode(), self.sign_header)
            stub = self.context.unprotect(parts, fragment.auth_value, self.level)
        return Fragment(fragment.header, head + stub[: len(stub) - trailer.auth_pad_length])

    def _check(self, trailer: SecurityTrailer) -> None:
        """MS-RPCE 2.2.2.11: each fragment names the context, its package and its level."""
        if (
            trailer.auth_type != self.context.auth_type
            or AuthLevel.of(trailer.auth_level) is not self.level
            or trailer.auth_context_id != self.context_id
        ):
            raise AuthenticationFailed(
                f"a fragment has auth_type {trailer.auth_type}, auth_level {trailer.auth_level} and auth_context_id "
                f"{trailer.auth_context_id}, but its security context has {self.context.auth_type}, {self.level} and "
                f"{self.context_id}"
            )


def stub_room(max_frag: int, header: Header) -> int:
    """Number of bytes of stub data that fit into a fragment of `max_frag` bytes without protection."""
    return max_frag - HEADER_SIZE - stub_offset(header)
