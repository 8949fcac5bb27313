"""/metrics: numbers for Prometheus, read from the queue manager at the moment of asking, so that a message costs none.

docs/metrics.md lists the names, which stay. Of many queues only the oldest are shown one by one.
"""

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import fields
from math import inf
from typing import Final

from litestar import Response, get
from litestar.di import NamedDependency
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

import waypost
from waypost.client.names import short_name
from waypost.core.position_events import KILOBYTE
from waypost.core.queues import UNLIMITED, OutgoingQueue, OutgoingQueueState, Queue
from waypost.http.operations import oldest
from waypost.http.service import Service
from waypost.limits import MAX_METRICS_QUEUES
from waypost.transfer.statistics import Statistics
from waypost.wire.format_names import FormatName

_COMMIT_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

# What transfer counts that can go down again.
_GAUGES: Final = frozenset({"sessions", "sessions_open"})

# What RPC counts that has no labels.
_RPC_COUNTERS: Final = {
    "connections_accepted": "Connections of remote readers since the start.",
    "binds_refused": "Binds that were refused.",
    "authentication_failures": "Tokens and signatures of remote readers that were not right.",
    "messages_given_out": "Messages that were locked for remote readers.",
    "rundowns": "Context handles whose client has gone.",
}


class Metrics:
    """The registry of one service."""

    __slots__ = ("_registry",)

    def __init__(self, service: Service) -> None:
        self._registry: Final = CollectorRegistry(auto_describe=False)
        self._registry.register(_Live(service))
        commits = Histogram(
            "waypost_commit_seconds",
            "How long batches took to become durable.",
            buckets=_COMMIT_BUCKETS,
            registry=self._registry,
        )
        service.shell.engine.on_durable = commits.observe

    def text(self) -> bytes:
        return generate_latest(self._registry)


@get("/metrics", include_in_schema=False)
async def metrics(numbers: NamedDependency[Metrics]) -> Response[bytes]:
    """What Prometheus reads."""
    return Response(numbers.text(), media_type=CONTENT_TYPE_LATEST)


class _Live(Collector):
    """Looks at the queue manager when it is asked. It runs in the loop that owns the queue manager."""

    def __init__(self, service: Service) -> None:
        self._service: Final = service

    def collect(self) -> Iterable[Metric]:
        yield self._build()
        yield from self._manager()
        queues = self._service.node.manager.collection.by_number.values()
        local = [queue for queue in queues if _is_shown(queue)]
        outgoing = list(self._service.node.manager.collection.outgoing.values())
        yield _gauge("waypost_queues", "Queues of this computer.", len(local))
        yield _gauge("waypost_outgoing_queues", "Queues of messages for other computers.", len(outgoing))
        omitted = max(len(local) - MAX_METRICS_QUEUES, 0) + max(len(outgoing) - MAX_METRICS_QUEUES, 0)
        yield _gauge(
            "waypost_queues_omitted", "Queues that are not shown one by one, because there are too many.", omitted
        )
        yield from self._local(local[:MAX_METRICS_QUEUES])
        yield from self._outgoing(outgoing[:MAX_METRICS_QUEUES])
        yield from self._transfer()
        yield from self._rpc()
        yield from self._clients()

    def _build(self) -> Metric:
        info = InfoMetricFamily("waypost", "The queue manager.")
        manager = self._service.manager
        info.add_metric((), {"version": waypost.__version__, "name": manager.name, "guid": manager.guid})
        return info

    def _manager(self) -> Iterator[Metric]:
        service, engine = self._service, self._service.shell.engine
        yield _gauge("waypost_start_time_seconds", "When the server started, in Unix time.", service.started)
        yield _gauge("waypost_bytes", "Bytes of all messages, as quotas count them.", service.node.manager.total_bytes)
        yield _gauge("waypost_store_bytes", "Size of the file of the store.", _store_size(service))
        is_well = engine.node.trouble is None and not engine.is_broken
        yield _gauge("waypost_store_ok", "1 if the store can write.", int(is_well))
        room = engine.node.room
        yield _gauge(
            "waypost_store_room_bytes", "Bytes of the disk for new messages, beyond the reserve.", max(room.free, 0)
        )
        yield _gauge("waypost_store_reserve_bytes", "Bytes of the disk kept for receiving messages.", room.reserve)
        is_low = int(room.is_low)
        yield _gauge("waypost_store_low", "1 if new messages are refused as the disk is nearly full.", is_low)
        quota = engine.node.manager.positions.quota
        yield _gauge(
            "waypost_quota_bytes", "Bytes that all messages may have.", inf if quota == UNLIMITED else quota * KILOBYTE
        )
        yield _gauge("waypost_unwritten_batches", "Batches on their way to disk.", engine.unwritten)
        damaged = service.node.damaged
        yield _gauge("waypost_damaged_messages", "Damaged messages that were set aside and are kept.", len(damaged))
        yield _counter("waypost_messages_damaged", "Messages that were found damaged.", damaged.since_start)

    def _local(self, queues: list[Queue]) -> Iterator[Metric]:
        messages = _by_queue("waypost_queue_messages", "Messages in the queue.")
        size = _by_queue("waypost_queue_bytes", "Bytes of the messages in the queue.")
        journal = _by_queue("waypost_queue_journal_messages", "Messages in the journal of the queue.")
        journal_size = _by_queue("waypost_queue_journal_bytes", "Bytes of the messages in the journal of the queue.")
        age = _by_queue(
            "waypost_queue_oldest_message_age_seconds", "Since when the oldest message is there; 0 if none."
        )
        readers = _by_queue("waypost_queue_open_handles", "Handles that are open on the queue.")
        now = time.time()
        for queue in queues:
            labels = (self._name(queue),)
            messages.add_metric(labels, len(queue.positions))
            size.add_metric(labels, queue.total_bytes)
            age.add_metric(labels, self._age(queue, now))
            readers.add_metric(labels, len(queue.descriptors))
            if queue.journal is not None:
                journal.add_metric(labels, len(queue.journal.positions))
                journal_size.add_metric(labels, queue.journal.total_bytes)
        yield from (messages, size, journal, journal_size, age, readers)

    def _outgoing(self, queues: list[OutgoingQueue]) -> Iterator[Metric]:
        messages = _by_queue("waypost_outgoing_messages", "Messages that wait in the outgoing queue.")
        size = _by_queue("waypost_outgoing_bytes", "Bytes of the messages in the outgoing queue.")
        age = _by_queue(
            "waypost_outgoing_oldest_message_age_seconds", "Since when the oldest message waits; 0 if none."
        )
        unacked = _by_queue("waypost_outgoing_unacknowledged", "Transactional messages sent and not yet acknowledged.")
        unread = _by_queue("waypost_outgoing_unread", "Transactional messages that arrived and are not yet received.")
        state = GaugeMetricFamily(
            "waypost_outgoing_state", "1 for the state that the outgoing queue is in.", labels=("queue", "state")
        )
        now = time.time()
        for queue in queues:
            name = self._name(queue)
            messages.add_metric((name,), len(queue.positions))
            size.add_metric((name,), queue.total_bytes)
            age.add_metric((name,), self._age(queue, now))
            unacked.add_metric((name,), queue.outgoing_transfer_info.no_ack_count)
            unread.add_metric((name,), queue.outgoing_transfer_info.no_read_count)
            for each in OutgoingQueueState:
                state.add_metric((name, each.name.lower()), int(queue.state is each))
        yield from (messages, size, age, unacked, unread, state)

    def _transfer(self) -> Iterator[Metric]:
        statistics = self._service.statistics
        if statistics is None:
            return
        for each in fields(Statistics):
            words = each.name.replace("_", " ")
            value = getattr(statistics, each.name)
            if each.name in _GAUGES:
                yield _gauge(f"waypost_transfer_{each.name}", f"Transfer: {words} now.", value)
            else:
                yield _counter(f"waypost_transfer_{each.name}", f"Transfer: {words} since the start.", value)
        yield _gauge(
            "waypost_transfer_transactional_acks_kept",
            "Acknowledgments that came from an address that is not known, and wait to be judged.",
            len(self._service.node.kept_acks),
        )
        yield from self._acks()

    def _acks(self) -> Iterator[Metric]:
        network = self._service.node.network
        if network is not None:
            overdue = sum(each.count for each in network.acks.overdue(time.time()))
            text = "OrderAcks and FinalAcks that wait for hosts that were not met for 7 days."
            yield _gauge("waypost_overdue_acknowledgments", text, overdue)

    def _rpc(self) -> Iterator[Metric]:
        remote = self._service.node.remote
        if remote is None:
            return
        counts = remote.statistics
        yield _gauge("waypost_rpc_connections", "Connections of remote readers.", counts.connections)
        yield _gauge("waypost_rpc_open_calls", "Calls of remote readers that wait for an answer.", counts.open_calls)
        yield _gauge(
            "waypost_rpc_messages_locked",
            "Messages that remote readers have and have not ended.",
            remote.locked_messages,
        )
        for name, text in _RPC_COUNTERS.items():
            yield _counter(f"waypost_rpc_{name}", text, getattr(counts, name))
        calls = CounterMetricFamily(
            "waypost_rpc_calls", "Calls that have ended.", labels=("interface", "method", "result")
        )
        for (interface, method, result), count in counts.calls.items():
            calls.add_metric((interface, method, result.value), count)
        faults = CounterMetricFamily("waypost_rpc_faults", "Faults that were answered.", labels=("status",))
        for status, count in counts.faults.items():
            faults.add_metric((f"0x{status:08X}",), count)
        yield from (calls, faults)

    def _clients(self) -> Iterator[Metric]:
        service = self._service
        yield _gauge("waypost_http_transactions", "Transactions and leases of HTTP clients.", len(service.transactions))
        expired = service.transactions.expired
        yield _counter(
            "waypost_http_transactions_expired", "Those that were aborted because nobody ended them.", expired
        )
        yield _gauge("waypost_http_cursors", "Cursors of HTTP clients.", len(service.cursors))
        yield _gauge("waypost_http_handles", "Exclusive opens of HTTP clients.", len(service.handles))
        yield _gauge("waypost_http_streams", "HTTP clients that follow a queue.", service.streams)

    def _name(self, queue: Queue) -> str:
        if isinstance(queue, OutgoingQueue):
            return str(queue.destination_format_name)
        return short_name(FormatName.parse(f"DIRECT=OS:{queue.pathname}"), self._service.manager.name)

    def _age(self, queue: Queue, now: float) -> float:
        lookup_id = oldest(queue)
        if lookup_id is None:
            return 0.0
        message = self._service.node.manager.positions.find(queue, lookup_id)
        return 0.0 if message is None else max(now - message.arrival_time, 0.0)


def _is_shown(queue: Queue) -> bool:
    return not (queue.is_internal or queue.is_journal or isinstance(queue, OutgoingQueue))


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _by_queue(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=("queue",))


def _store_size(service: Service) -> int:
    try:
        return os.stat(service.manager.path / "data.mdb").st_size
    except OSError:
        return 0
