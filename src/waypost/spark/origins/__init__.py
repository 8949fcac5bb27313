"""The kinds of origins. Each is loaded on first use: a process of Spark needs only one of them."""

from collections.abc import Callable
from importlib import import_module
from typing import Final

from waypost.spark.options import Endpoint
from waypost.spark.origin import Origin


def open_origin(endpoint: Endpoint) -> Origin:
    """Open the origin at an endpoint; the caller closes it. Raises WaypostError if nothing answers there."""
    return _OPENERS[endpoint.kind](endpoint)


def _daemon(endpoint: Endpoint) -> Origin:
    client = import_module("waypost.client.bulk.client").BulkClient(
        endpoint.address, endpoint.secret, endpoint.timeout_s
    )
    opened: Origin = import_module("waypost.spark.origins.daemon").DaemonOrigin(client, endpoint)
    return opened


def _host(endpoint: Endpoint) -> Origin:
    host = import_module("waypost.client.host").msmq(
        endpoint.address, timeout=endpoint.timeout_s, user=endpoint.user, password=endpoint.secret
    )
    opened: Origin = import_module("waypost.spark.origins.host").HostOrigin(host)
    return opened


_OPENERS: Final[dict[str, Callable[[Endpoint], Origin]]] = {"daemon": _daemon, "host": _host}
