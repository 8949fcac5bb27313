"""What one client has open: handles, the pages of a browse, transactions. Most of it the daemon never hears of."""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from msgspec import UnsetType

from waypost.client.remote.exchanges import path_part
from waypost.client.remote.schema import PacketRow
from waypost.core.queues import AccessType
from waypost.wire.format_names import FormatName

_PAGE: Final = 100
_ADMIN: Final = frozenset({AccessType.RECEIVE_ADMIN, AccessType.PEEK_ADMIN})
_PEEK: Final = frozenset({AccessType.PEEK, AccessType.PEEK_ADMIN})


@dataclass(slots=True)
class Unit:
    """A transaction that has not ended."""

    limit_s: float
    # Whether the daemon may have heard of it, and whether it has said so.
    is_told: bool = False
    is_begun: bool = False


@dataclass(slots=True)
class OpenQueue:
    """A handle; for as long as it lives, the paths of what is asked for most."""

    number: int
    name: FormatName
    access: AccessType
    # The id at the daemon, of an exclusive handle.
    id: str | UnsetType
    is_closed: bool = False
    # The queue was deleted from here; the daemon ends the waits and says why.
    is_deleted: bool = False
    messages: str = field(init=False)
    receive: str = field(init=False)
    peek: str = field(init=False)

    def __post_init__(self) -> None:
        self.messages = self.path("messages")
        self.receive = self.path("receive")
        self.peek = self.path("peek")

    @property
    def is_outgoing(self) -> bool:
        return self.access in _ADMIN

    @property
    def is_peek(self) -> bool:
        return self.access in _PEEK

    def path(self, action: str) -> str:
        return queue_path(self.name, action, is_outgoing=self.is_outgoing)


@dataclass(slots=True)
class Pages:
    """Where a browse is: at a row of the page that it has read last."""

    rows: list[PacketRow] = field(default_factory=list)
    at: int = 0
    # None before the first page, "" behind the last.
    next: str | None = None

    def target(self, opened: OpenQueue) -> str:
        """Of the next page."""
        query = {"limit": str(_PAGE), "form": "packet"}
        if self.next:
            query["after"] = self.next
        if opened.is_outgoing:
            query["outgoing"] = "true"
        return f"{queue_path(opened.name, 'browse')}?{urlencode(query)}"


def queue_path(name: FormatName, action: str = "", *, is_outgoing: bool = False) -> str:
    path = f"/api/queues/{path_part(str(name))}"
    if action:
        path += f"/{action}"
    return f"{path}?outgoing=true" if is_outgoing else path
