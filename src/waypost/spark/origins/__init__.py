"""The kinds of origins. Each is loaded on first use: a process of Spark needs only one of them.

`purge` removes messages from a queue after they were read and are safe elsewhere.
"""

from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from typing import Final

from waypost.api.bulk import RemoveRange
from waypost.errors import InvalidParameter
from waypost.spark.options import Endpoint, read_options
from waypost.spark.origin import Origin


def open_origin(endpoint: Endpoint) -> Origin:
    """Open the origin at an endpoint; the caller closes it. Raises WaypostError if nothing answers there."""
    return _OPENERS[endpoint.kind](endpoint)


def purge(queue: str, upto: int, *, epoch: str = "", **options: str) -> int:
    """Remove the messages of `queue` up to the arrival number `upto`, and return their number.

        messages = spark.read.format("msmq").option("queue", "orders;journal").load()
        messages.write.parquet("archive")
        waypost.spark.purge("orders;journal", messages.agg({"seq": "max"}).first()[0])

    A repeated call changes nothing. Locked messages stay in the queue. `options` are the options of the format that
    locate the queue, such as server and tokenFile. If you pass the `epoch` from an offset, and the queue was deleted
    and created again since, the call removes nothing from the new queue.
    """
    if not isinstance(upto, int) or upto < 0:
        raise InvalidParameter(f"`upto` must be the arrival number (seq) of the last message to remove, not {upto!r}")
    with closing(open_origin(read_options({"queue": queue, **options}).endpoint)) as origin:
        return origin.remove(RemoveRange(name=queue, up_to=upto, epoch=epoch)).count


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
