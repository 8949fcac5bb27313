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
from waypost.node.kernel import Kernel
from waypost.node.network.hop_finder import HopFinder
from waypost.store import keys
from waypost.store.port import Batch, Reader, Table
from waypost.store.records import CounterRecord
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
            self._met = dict.fromkeys(_read_met(reader))

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
            _write_met(batch, each, now)
            if len(self._met) > MAX_MET_HOSTS:
                first = next(iter(self._met))
                del self._met[first]
                _delete_met(batch, first)

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


def _write_met(batch: Batch, host: str, now: Now) -> None:
    batch.put(Table.COUNTERS, keys.met_host_key(host), CounterRecord(int(now.wall)).encode())


def _delete_met(batch: Batch, host: str) -> None:
    batch.delete(Table.COUNTERS, keys.met_host_key(host))


def _read_met(reader: Reader) -> list[str]:
    """The one that was met first is the first."""
    found = [
        (CounterRecord.decode(value).value, keys.met_host_of(key))
        for key, value in reader.scan(Table.COUNTERS, *keys.met_host_range(), MAX_MET_HOSTS + 2)
    ]
    return [host for _, host in sorted(found)]
