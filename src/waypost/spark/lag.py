"""The lag of streams: the messages that wait in each queue, from the progress reports of the queries."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

_METRICS: Final = {
    "messages": "Messages in the queue that the query has not read yet.",
    "bytes": "Bytes of the messages that the query has not read yet.",
    "seconds": "Age of the oldest message that the query has not read yet.",
    "behind": "Messages behind a locked or uncommitted message. waypost_spark_lag_messages does not include them.",
}
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of a query in a queue.

    `rows` is the number of messages that the query has read since it began. `behind` is the number of messages behind a
    locked or uncommitted message. These messages are not part of the lag.
    """

    query: str
    queue: str
    messages: int
    bytes: int
    seconds: float
    rows: int
    behind: int = 0


def lags(progress: StreamingQueryProgress) -> Iterator[Lag]:
    """The lag in each queue of a progress report; nothing for sources of another format."""
    for source in progress.sources:
        latest, end = _parsed(source.latestOffset), _parsed(source.endOffset)
        for queue, place in latest.items():
            if isinstance(place, dict) and "lag_messages" in place:
                read = end.get(queue)
                yield Lag(
                    query=progress.name or str(progress.id),
                    queue=queue,
                    messages=place["lag_messages"],
                    bytes=place["lag_bytes"],
                    seconds=place["lag_s"],
                    rows=read["rows"] if isinstance(read, dict) else 0,
                    behind=place.get("behind", 0),
                )


class LagListener(StreamingQueryListener):
    """Provides the lag of every running query of a session as metrics for Prometheus.

        listener = LagListener()
        spark.streams.addListener(listener)
        listener.serve("127.0.0.1", 9185)

    The metrics identify a query by its `queryName`, or by its id if it has no name, and omit queries that have ended.
    The argument `spark` is the session (default: the active session).
    """

    def __init__(self, spark: SparkSession | None = None) -> None:
        # Spark passes the session only to listeners of Spark Connect.
        self._session: Final = spark or SparkSession.getActiveSession()
        self._lock: Final = Lock()
        self._found: dict[str, list[Lag]] = {}
        self._server: ThreadingHTTPServer | None = None

    def lags(self) -> list[Lag]:
        with self._lock:
            return [lag for found in self._found.values() for lag in found]

    def text(self) -> str:
        """The metrics in the text format of Prometheus."""
        lines = []
        for name, words in _METRICS.items():
            lines += [f"# HELP waypost_spark_lag_{name} {words}", f"# TYPE waypost_spark_lag_{name} gauge"]
            lines += [f"waypost_spark_lag_{name}{_labels(lag)} {getattr(lag, name)}" for lag in self.lags()]
        return "\n".join(lines) + "\n"

    def serve(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Serve the metrics at http://host:port/metrics until `close`. Returns the port. Port 0 selects a free port."""
        listener = self

        class Metrics(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path != "/metrics":
                    self.send_error(HTTPStatus.NOT_FOUND)
                    return
                data = listener.text().encode()
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, the name is Python's
                """Log nothing."""

        self._server = ThreadingHTTPServer((host, port), Metrics)
        Thread(target=self._server.serve_forever, name="waypost-lag", daemon=True).start()
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop serving the metrics."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    # --- Events of Spark

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802, the name is Spark's
        """Do nothing: a batch, or a trigger without one, has the lag."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802, the name is Spark's
        self._note(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802, the name is Spark's
        """Look at the query: messages may wait although a trigger has found no batch. The event does not contain them.

        Messages wait for `minMessagesPerTrigger`, or behind a locked message.
        """
        session = self.spark or self._session
        query = None if session is None else session.streams.get(str(event.id))
        progress = None if query is None else query.lastProgress
        if progress is not None and str(progress.runId) == str(event.runId):
            self._note(progress)

    def _note(self, progress: StreamingQueryProgress) -> None:
        found = list(lags(progress))
        with self._lock:
            self._found[str(progress.runId)] = found

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802, the name is Spark's
        with self._lock:
            self._found.pop(str(event.runId), None)


def _parsed(offset: str | None) -> dict[str, Any]:
    try:
        found = json.loads(offset or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _labels(lag: Lag) -> str:
    return f'{{query="{lag.query.translate(_ESCAPES)}",queue="{lag.queue.translate(_ESCAPES)}"}}'
