"""The origins there are. Each is loaded when it is asked for: a process of Spark needs one of them."""

from collections.abc import Callable
from importlib import import_module
from typing import Final

from waypost.spark.options import Place
from waypost.spark.origin import Origin


def open_origin(place: Place) -> Origin:
    """Close it when it is not needed any more. Raises WaypostError if nothing answers there."""
    return _OPENERS[place.kind](place)


def _daemon(place: Place) -> Origin:
    client = import_module("waypost.client.bulk.client").BulkClient(place.address, place.secret, place.timeout_s)
    opened: Origin = import_module("waypost.spark.origins.daemon").DaemonOrigin(client, place)
    return opened


def _host(place: Place) -> Origin:
    host = import_module("waypost.client.host").msmq(
        place.address, timeout=place.timeout_s, user=place.user, password=place.secret
    )
    opened: Origin = import_module("waypost.spark.origins.host").HostOrigin(host)
    return opened


def _store(place: Place) -> Origin:
    folder = import_module("waypost.client.bulk.folder").FolderReader(place.address)
    opened: Origin = import_module("waypost.spark.origins.store").StoreOrigin(folder, place.locked)
    return opened


_OPENERS: Final[dict[str, Callable[[Place], Origin]]] = {"daemon": _daemon, "host": _host, "store": _store}
