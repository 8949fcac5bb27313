"""The links that wait for a host, by what the host is known by: its addresses and its GUID.

When a host is heard again, those who wait for it are found without a look at all others.
"""

from collections.abc import Iterator
from typing import Final

from waypost.guid import NULL_GUID
from waypost.transfer.links import Link

# An address as text, or a GUID.
Host = str | bytes


class WaitingLinks:
    __slots__ = ("_by_host", "_hosts")

    def __init__(self) -> None:
        self._by_host: Final[dict[Host, dict[Link, None]]] = {}
        self._hosts: Final[dict[Link, tuple[Host, ...]]] = {}

    def add(self, link: Link) -> None:
        """The link waits for the hosts that its next hops are, and that it last had a session with."""
        self.remove(link)
        self._hosts[link] = known = tuple(dict.fromkeys(_hosts_of(link)))
        for host in known:
            self._by_host.setdefault(host, {})[link] = None

    def remove(self, link: Link) -> None:
        for host in self._hosts.pop(link, ()):
            links = self._by_host[host]
            del links[link]
            if not links:
                del self._by_host[host]

    def at(self, host: Host) -> list[Link]:
        return list(self._by_host.get(host, ()))


def _hosts_of(link: Link) -> Iterator[Host]:
    for hop in link.next_hops:
        yield hop.address
        if hop.qm_guid != NULL_GUID:
            yield hop.qm_guid
    yield from link.last_host
    if link.peer is not None:
        yield link.peer
