"""To whom administration acknowledgments may open a connection: the setting transfer.ack_hosts.

A message names any queue for its acknowledgments, so whoever sends one decides where this computer connects to, unless
the setting says otherwise. `known` are hosts of routes and of the directory, and those that were reached by dialling
them for something that was sent here. The last ones are kept in the store, because a start knows nobody else.
"""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from waypost.clock import Now
from waypost.guid import guid_text
from waypost.limits import MAX_MET_HOSTS
from waypost.node import transfer_store
from waypost.node.kernel import Kernel
from waypost.node.network.hop_finder import HopFinder
from waypost.store.port import Reader
from waypost.transfer.settings import ACK_HOSTS_ANY, ACK_HOSTS_KNOWN
from waypost.wire.format_names import DirectFormatName, FormatName


class AckHosts:
    """`words` is the setting."""

    __slots__ = ("_allows_any", "_allows_known", "_finder", "_kernel", "_listed", "_met")

    def __init__(self, kernel: Kernel, finder: HopFinder, words: tuple[str, ...], reader: Reader) -> None:
        self._kernel: Final = kernel
        self._finder: Final = finder
        self._allows_any: Final = ACK_HOSTS_ANY in words
        self._allows_known: Final = ACK_HOSTS_KNOWN in words and not self._allows_any
        self._listed: Final = frozenset(map(_host, words)) - {ACK_HOSTS_ANY, ACK_HOSTS_KNOWN}
        # The one that was met first is the first.
        self._met: dict[str, None] = {}
        if self._allows_known:
            self._met = dict.fromkeys(transfer_store.read_met_hosts(reader))

    def allow(self, name: FormatName) -> bool:
        """Whether an acknowledgment that a message of others asks for may connect to the host of this queue."""
        if self._allows_any:
            return True
        hosts = frozenset(self._hosts_of(name))
        if not self._listed.isdisjoint(hosts):
            return True
        if not self._allows_known:
            return False
        if not isinstance(name, DirectFormatName):
            return self._finder.leads_to(name)
        return any(host in self._met or self._finder.routing.knows_host(host) for host in hosts)

    def met(self, host: str, address: str, now: Now) -> None:
        """A host was dialled for something that was sent here, and it has answered."""
        if not self._allows_known:
            return
        batch = self._kernel.messages.batch
        for each in {_host(host), _host(address)} - self._met.keys():
            self._met[each] = None
            transfer_store.write_met_host(batch, each, now)
            if len(self._met) > MAX_MET_HOSTS:
                first = next(iter(self._met))
                del self._met[first]
                transfer_store.delete_met_host(batch, first)

    def _hosts_of(self, name: FormatName) -> Iterator[str]:
        destination = self._finder.routing.destination(name)
        if destination is None:
            return
        if destination.host:
            yield _host(destination.host)
        if not isinstance(name, DirectFormatName):
            yield guid_text(destination.queue_manager)


def _host(text: str) -> str:
    """A host in one spelling."""
    try:
        return str(ip_address(text.strip()))
    except ValueError:
        return text.strip().casefold()
