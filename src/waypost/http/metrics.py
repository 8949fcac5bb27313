"""/metrics: metrics for Prometheus, read from the queue manager at each request, so that messages have no extra cost.

docs/metrics.md lists the names, which stay, and is made of what /metrics gives. Of many queues only the oldest are
shown one by one.

To add a metric: a _gauge or _counter in the method for its part of the queue manager. A number of transfer's statistics
is one as soon as it is in _TRANSFER (and in _GAUGES if it can go down), and one of RPC as soon as it is in
_RPC_COUNTERS. A number of each queue is added in waypost.http.queue_metrics.
"""

import os
import time
from collections.abc import Iterable, Iterator
from functools import partial
from math import inf
from typing import Final

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

import waypost
from waypost.core.position_events import KILOBYTE
from waypost.core.queues import OutgoingQueue, Queue
from waypost.drive.loop_watch import BOUNDS
from waypost.http.queue_metrics import queue_text
from waypost.http.request_guard import NO_TOKEN, WRONG_TOKEN
from waypost.http.requests import Request, Response
from waypost.http.routes import Nothing, Route, of
from waypost.http.service import Service
from waypost.http.slices import sliced
from waypost.limits import MAX_METRICS_QUEUES
from waypost.node.network.refusals import Reason
from waypost.security.callers import Role
from waypost.store.folder import DATA
from waypost.wire.property_values import UNLIMITED

_COMMIT_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

# The time in which the longest turn of the loop is searched.
_LONGEST_SECONDS: Final = 60.0

# Numbers of transfer that can go down.
_GAUGES: Final = frozenset({"sessions", "sessions_open"})

# Numbers of transfer since the start.
_TRANSFER: Final = {
    "sessions": "Number of current connections with other queue managers.",
    "sessions_open": "Number of current sessions whose handshake is complete.",
    "connections_accepted": "Number of connections that were accepted from other queue managers.",
    "connections_refused": "Number of connections from other queue managers that were refused.",
    "connections_failed": "Number of failed attempts to connect to other queue managers.",
    "handshakes_refused": "Number of sessions that ended during their handshake.",
    "packets_malformed": "Number of packets that could not be decoded.",
    "protocol_errors": "Number of packets that the protocol does not allow in the current state of the session.",
    "messages_sent": "Number of messages sent, including retransmissions.",
    "messages_received": "Number of messages received, including duplicates.",
    "bytes_sent": "Number of bytes sent.",
    "bytes_received": "Number of bytes received.",
    "session_acks_sent": "Number of session acknowledgments sent.",
    "session_acks_received": "Number of session acknowledgments received.",
    "order_acks_sent": (
        "Number of order acknowledgments sent. An order acknowledgment confirms that transactional messages arrived in "
        "order."
    ),
    "order_acks_received": (
        "Number of order acknowledgments received. An order acknowledgment confirms that transactional messages "
        "arrived in order."
    ),
    "final_acks_sent": (
        "Number of final acknowledgments sent. A final acknowledgment reports whether a transactional message was "
        "received."
    ),
    "final_acks_received": (
        "Number of final acknowledgments received. A final acknowledgment reports whether a transactional message was "
        "received."
    ),
    "transactional_acks_refused": (
        "Number of refused acknowledgments. An acknowledgment is refused for one of three reasons: this queue manager "
        "never sent the acknowledged message, the acknowledgment did not come from the destination of the message, or "
        "too many acknowledgments from unknown addresses are stored."
    ),
    "transactional_acks_unmatched": (
        "Number of acknowledgments for messages that do not wait for an acknowledgment. Such an "
        "acknowledgment is late, repeated or forged."
    ),
    "duplicates_discarded": "Number of messages that were discarded because the same message had arrived before.",
    "messages_rejected": "Number of messages that no queue of this computer accepted.",
    "messages_unverified": (
        "Number of messages that were rejected because their signature or encryption is invalid, or is required but "
        "missing."
    ),
    "messages_not_encrypted": "Number of outgoing messages that were not sent because they could not be encrypted.",
    "messages_refused_for_acks": (
        "Number of transactional messages that were temporarily refused because too many acknowledgments for their "
        "sender are waiting."
    ),
    "sequences_refused": (
        "Number of transactional messages that were temporarily refused because their sequence was not accepted."
    ),
    "sequence_ends_forgotten": (
        "Number of deleted records of ended sequences. Without the record of a sequence, a duplicate of a message in "
        "the sequence would be accepted."
    ),
    "messages_resent": "Number of messages that were sent again because no acknowledgment arrived.",
    "messages_forwarded": "Number of messages forwarded to another computer.",
    "messages_returned": "Number of messages of this computer that came back because of a wrong route.",
    "pings_received": "Number of pings received.",
    "dials_for_strangers": (
        "Number of connection attempts whose only purpose was to send acknowledgments that were requested by messages "
        "from other hosts."
    ),
    "acks_refused": (
        "Number of acknowledgments that were not sent to administration queues, because of the setting "
        "`transfer.ack_hosts` or because a limit on acknowledgments was reached."
    ),
}

# Numbers of RPC without labels.
_RPC_COUNTERS: Final = {
    "connections_accepted": "Number of connections that were accepted from remote readers.",
    "connections_refused": (
        "Number of connections that were refused because of the account or the address of the connecting program."
    ),
    "binds_refused": "Number of connections whose first packet was refused.",
    "authentication_failures": (
        "Number of failed authentications of remote readers because of wrong passwords, tickets or signatures."
    ),
    "messages_given_out": "Number of messages that were locked for remote readers since the start of the daemon.",
    "rundowns": "Number of handles that were still open when the connection to the reader was lost.",
}


class Metrics:
    """The registry of one service."""

    __slots__ = ("_live", "_registry", "_service")

    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self._registry: Final = CollectorRegistry(auto_describe=False)
        self._live: Final = _Live(service)
        self._registry.register(self._live)
        commits = Histogram(
            "waypost_commit_seconds",
            "Time to write a batch of changes to disk.",
            buckets=_COMMIT_BUCKETS,
            registry=self._registry,
        )
        service.shell.driver.on_durable = commits.observe

    async def text(self) -> bytes:
        """The whole page. Totals of all queues are read at one moment, numbers of single queues part by part."""
        collection, network = self._service.node.manager.collection, self._service.node.network
        local = [queue for queue in collection.by_number.values() if _is_shown(queue)]
        outgoing = tuple(collection.outgoing.values())
        if network is not None:
            overdue = await sliced(partial(network.ack_queues.overdue, time.time()), outgoing)
            self._live.overdue = sum(each.count for each in overdue)
        self._live.queues = len(local), len(outgoing)
        shown = local[:MAX_METRICS_QUEUES], outgoing[:MAX_METRICS_QUEUES]
        return generate_latest(self._registry) + await queue_text(self._service, *shown)


def route(numbers: Metrics) -> Route:
    """The route of /metrics, for Prometheus."""

    async def answer(_service: Service, _asked: Nothing, _request: Request) -> Response:
        return Response(await numbers.text(), media_type=CONTENT_TYPE_LATEST)

    perform = of(Nothing, answer)
    return Route(
        method="GET", path="/metrics", name="metrics", asked=Nothing, perform=perform, asks=Role.READ, is_shown=False
    )


class _Live(Collector):
    """Collector that reads the queue manager at each request. It runs in the loop that owns the queue manager.

    Its caller sets the numbers that require a look at each queue.
    """

    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self.overdue = 0
        # Number of local and of outgoing queues.
        self.queues = 0, 0

    def collect(self) -> Iterable[Metric]:
        yield self._build()
        yield from self._manager()
        yield from self._loop()
        local, outgoing = self.queues
        yield _gauge("waypost_queues", "Number of queues of this computer.", local)
        yield _gauge(
            "waypost_outgoing_queues", "Number of outgoing queues, which hold messages for other computers.", outgoing
        )
        omitted = max(local - MAX_METRICS_QUEUES, 0) + max(outgoing - MAX_METRICS_QUEUES, 0)
        yield _gauge(
            "waypost_queues_omitted",
            "Number of queues without separate metrics. Only the 1000 oldest queues of each kind have separate "
            "metrics.",
            omitted,
        )
        yield self._refusals()
        yield from self._transfer()
        yield from self._rpc()
        yield from self._clients()

    def _build(self) -> Metric:
        info = InfoMetricFamily("waypost", "Name, version and GUID of the queue manager.")
        manager = self._service.manager
        info.add_metric((), {"version": waypost.__version__, "name": manager.name, "guid": manager.guid})
        return info

    def _refusals(self) -> Metric:
        refusals = CounterMetricFamily(
            "waypost_access_denied",
            "Number of requests and messages that were refused because the caller or the sender lacks a right. The "
            "label `right` shows which right is missing.",
            labels=("right",),
        )
        for right, count in self._service.node.access.refused.items():
            refusals.add_metric((right,), count)
        return refusals

    def _manager(self) -> Iterator[Metric]:
        service, driver = self._service, self._service.shell.driver
        yield _gauge("waypost_start_time_seconds", "Start time of the daemon, in Unix time.", service.started)
        yield _gauge(
            "waypost_bytes",
            "Total size of all messages, counted in the same way as for quotas.",
            service.node.manager.total_bytes,
        )
        yield _gauge("waypost_store_bytes", "Size of the store file.", _store_size(service))
        is_well = driver.node.kernel.trouble is None and not driver.is_broken
        yield _gauge(
            "waypost_store_ok",
            "1 if the store can write to disk, otherwise 0.",
            int(is_well),
        )
        room = driver.node.kernel.room
        yield _gauge(
            "waypost_store_room_bytes", "Free disk space for new messages, excluding the reserve.", max(room.free, 0)
        )
        yield _gauge(
            "waypost_store_reserve_bytes",
            "Disk space that is reserved so that messages can still be received when the disk is nearly full.",
            room.reserve,
        )
        is_low = int(room.is_low)
        yield _gauge(
            "waypost_store_low", "1 if new messages are refused because the disk is nearly full, otherwise 0.", is_low
        )
        quota = driver.node.manager.positions.quota
        yield _gauge(
            "waypost_quota_bytes",
            "Machine quota in bytes, or +Inf if no quota is set.",
            inf if quota == UNLIMITED else quota * KILOBYTE,
        )
        yield _gauge(
            "waypost_unwritten_batches", "Number of batches of changes that are not on disk yet.", driver.unwritten
        )
        damaged = service.node.damaged
        yield _gauge(
            "waypost_damaged_messages",
            "Number of damaged messages that were removed from their queues, but have not been deleted by an operator "
            "yet.",
            len(damaged),
        )
        yield _gauge(
            "waypost_damaged_frames",
            "Number of damaged frames that belong to committed stages, and have not been deleted by an operator yet. "
            "A frame contains up to 2,000 messages.",
            len(service.node.stages.delivery.damaged),
        )
        yield _counter(
            "waypost_messages_damaged",
            "Number of damaged messages that were found on disk since the start of the daemon.",
            damaged.since_start,
        )

    def _loop(self) -> Iterator[Metric]:
        watch = self._service.watch
        if watch is None:
            return
        within = [(str(bound), watch.count - over) for bound, over in zip(BOUNDS, watch.over, strict=True)]
        yield HistogramMetricFamily(
            "waypost_loop_turn_seconds",
            "Duration of one turn (iteration) of the event loop. Clients must wait until the current turn ends.",
            buckets=[*within, ("+Inf", watch.count)],
            sum_value=watch.seconds,
        )
        longest = watch.longest(_LONGEST_SECONDS, time.time())
        text = (
            "Duration of the longest turn of the event loop in the last minute, or 0 if all turns were shorter than "
            "10 ms."
        )
        yield _gauge("waypost_loop_longest_turn_seconds", text, 0.0 if longest is None else longest.seconds)
        text = (
            "Working time in the longest turn of the event loop in the last minute, excluding the time in which the "
            "turn waited for the disk or the processor."
        )
        yield _gauge("waypost_loop_longest_turn_work_seconds", text, 0.0 if longest is None else longest.work_seconds)
        slow = CounterMetricFamily(
            "waypost_loop_slow_turns",
            "Number of turns of the event loop that took longer than 0.1 s. The label `what` shows the main work of "
            "the turn.",
            labels=("what",),
        )
        for what, count in watch.slow.items():
            slow.add_metric((what,), count)
        yield slow

    def _transfer(self) -> Iterator[Metric]:
        statistics = self._service.statistics
        if statistics is None:
            return
        for name, text in _TRANSFER.items():
            make = _gauge if name in _GAUGES else _counter
            yield make(f"waypost_transfer_{name}", text, getattr(statistics, name))
        yield _gauge(
            "waypost_transfer_transactional_acks_kept",
            "Number of stored acknowledgments from unknown addresses. `waypost doctor` lists these addresses. An "
            "operator must decide whether to admit or ignore each address.",
            len(self._service.node.kept_acks),
        )
        yield from self._acks()

    def _acks(self) -> Iterator[Metric]:
        network = self._service.node.network
        if network is not None:
            refused = CounterMetricFamily(
                "waypost_messages_refused",
                "Number of messages that were refused on arrival. The label `reason` shows why a message was refused.",
                labels=("reason",),
            )
            for reason in Reason:
                refused.add_metric((reason.value,), network.refusals.counts[reason])
            yield refused
            text = "Number of acknowledgments that wait to be sent to hosts that were last seen more than 7 days ago."
            yield _gauge("waypost_overdue_acknowledgments", text, self.overdue)

    def _rpc(self) -> Iterator[Metric]:
        remote = self._service.node.remote
        if remote is None:
            return
        counts = remote.statistics
        yield _gauge("waypost_rpc_connections", "Number of current connections of remote readers.", counts.connections)
        yield _gauge(
            "waypost_rpc_open_calls",
            "Number of calls of remote readers that have not been answered yet. Most of these calls wait for a "
            "message.",
            counts.open_calls,
        )
        yield _gauge(
            "waypost_rpc_messages_locked",
            "Number of messages that are locked for remote readers. The readers have not confirmed or returned these "
            "messages yet.",
            remote.locked_messages,
        )
        for name, text in _RPC_COUNTERS.items():
            yield _counter(f"waypost_rpc_{name}", text, getattr(counts, name))
        calls = CounterMetricFamily(
            "waypost_rpc_calls",
            "Number of finished RPC calls for each combination of the labels `interface`, `method` and `result`.",
            labels=("interface", "method", "result"),
        )
        for (interface, method, result), count in counts.calls.items():
            calls.add_metric((interface, method, result.value), count)
        faults = CounterMetricFamily(
            "waypost_rpc_faults",
            "Number of calls that ended with an RPC fault. The label `status` shows the status code of the fault.",
            labels=("status",),
        )
        for status, count in counts.faults.items():
            faults.add_metric((f"0x{status:08X}",), count)
        yield from (calls, faults)

    def _clients(self) -> Iterator[Metric]:
        service = self._service
        yield _gauge(
            "waypost_http_transactions",
            "Number of open transactions and leases of HTTP clients.",
            len(service.transactions),
        )
        expired = service.transactions.expired
        yield _counter(
            "waypost_http_transactions_expired",
            "Number of transactions and leases that were aborted because they timed out.",
            expired,
        )
        yield _gauge("waypost_http_cursors", "Number of open cursors of HTTP clients.", len(service.cursors))
        yield _gauge(
            "waypost_http_handles",
            "Number of queues that HTTP clients have opened for exclusive access.",
            len(service.handles),
        )
        yield from _logins(service)
        yield _gauge("waypost_http_streams", "Number of HTTP clients that currently follow a queue.", service.streams)


def _logins(service: Service) -> Iterator[Metric]:
    logins, node = service.logins, service.node
    found = CounterMetricFamily(
        "waypost_logins",
        "Number of logins with a password. The label `result` is `ok`, `failed` or `limited`.",
        labels=["result"],
    )
    for result, count in (("ok", logins.succeeded), ("failed", logins.failed), ("limited", logins.limited)):
        found.add_metric([result], count)
    yield found
    strangers = CounterMetricFamily(
        "waypost_http_unauthorized",
        "Number of HTTP requests that were refused because the caller is unknown. The label `reason` is `no_token` or "
        "`wrong_token`.",
        labels=["reason"],
    )
    for reason in (NO_TOKEN, WRONG_TOKEN):
        strangers.add_metric([reason], logins.unknown[reason])
    yield strangers
    yield _counter(
        "waypost_requests_denied",
        "Number of failed logins, and of requests that were refused because the caller does not have the required "
        "role.",
        node.audit.denied,
    )
    yield _gauge("waypost_users", "Number of users of the queue manager.", len(node.users))
    yield _gauge("waypost_audit_entries", "Number of entries in the audit trail.", len(node.audit))


def _is_shown(queue: Queue) -> bool:
    return not (queue.is_internal or queue.is_journal or isinstance(queue, OutgoingQueue))


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _store_size(service: Service) -> int:
    try:
        return os.stat(service.path / DATA).st_size
    except OSError:
        return 0
