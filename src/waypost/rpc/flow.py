"""Waiting bytes on one connection of an RPC server, in both directions, and their limits."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from waypost.limits import MAX_RPC_ANSWERED_AT_ONCE, MAX_RPC_UNREAD, MAX_RPC_UNSENT
from waypost.rpc.pdu import Fragment
from waypost.rpc.server_binding import Unfinished


class Flow:
    """Fragments that were not looked at, answers that were not handed to the transport, and those it cannot send.

    `everything` is what all connections have together.
    """

    __slots__ = ("_buffered", "_everything", "_fragments", "_is_paused", "_made", "_unread")

    def __init__(self, everything: Unfinished) -> None:
        self._everything: Final = everything
        self._fragments: Final[deque[Fragment]] = deque()
        self._unread = 0
        self._made = 0
        self._buffered = 0
        self._is_paused = False

    def came(self, fragments: Iterable[Fragment]) -> None:
        for fragment in fragments:
            self._fragments.append(fragment)
            self._unread += fragment.header.frag_length

    def next(self) -> Fragment | None:
        """The fragment to look at next, if there is one and room for an answer."""
        if not self.can_go_on:
            return None
        fragment = self._fragments.popleft()
        self._unread -= fragment.header.frag_length
        return fragment

    def made(self, size: int) -> None:
        """So many bytes of answers are to be sent."""
        self._made += size
        self._everything.unsent += size

    def sent(self, size: int) -> None:
        """So many of them are with the transport, which says when the client takes none."""
        self._made -= size
        if self._is_paused:
            self._buffered += size
        else:
            self._everything.unsent -= size

    def pause(self) -> None:
        """The client does not take its answers."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._everything.unsent -= self._buffered
        self._buffered = 0

    def end(self) -> None:
        """The connection has gone, and what it had made with it."""
        self._everything.unsent -= self.unsent
        self._made = self._buffered = 0

    @property
    def unsent(self) -> int:
        """Bytes of answers that the client has not taken."""
        return self._made + self._buffered

    @property
    def waits(self) -> int:
        """Number of fragments that wait."""
        return len(self._fragments)

    @property
    def is_blocked(self) -> bool:
        """Whether some have to wait until the client takes its answers: then nothing more is to be read."""
        return bool(self._fragments) and not self.can_go_on

    @property
    def can_go_on(self) -> bool:
        return bool(self._fragments) and self._made + self._buffered < MAX_RPC_ANSWERED_AT_ONCE

    @property
    def is_too_much(self) -> bool:
        """Whether the client has to be cut off."""
        return self._made + self._buffered > MAX_RPC_UNSENT or self._unread > MAX_RPC_UNREAD
