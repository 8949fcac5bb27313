"""docs/metrics.md: the names, kinds and meanings that /metrics of a daemon gives."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Final
from urllib.request import urlopen

from tools.reference.markdown import MADE, prose, table
from waypost.core.queues import OutgoingQueueState
from waypost.node.network.refusals import Reason
from waypost.rpc.statistics import CallResult

_FAMILY: Final = re.compile(r"^# HELP (\w+) (.*)\n# TYPE \1 (\w+)$", re.MULTILINE)
# The sample with the start of a histogram.
_CREATED: Final = "_created"
_PORTS: Final = tuple(f"--{name}-port=0" for name in ("transfer", "ping", "rpc", "qm2qm", "http"))

_HEAD: Final = f"""\
# Metrics

{MADE}
`GET /metrics` of the HTTP server returns metrics for Prometheus. Each request reads the current values from the queue
manager. The names of metrics do not change, but later versions can add new metrics. Times and ages are in seconds, and
sizes are in bytes. In the samples, the name of each counter ends in `_total`, for example `waypost_logins_total`.

If the daemon requires a token, set `authorization.credentials` in the scrape configuration of Prometheus to this token.
"""


def _codes(words: Iterator[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


_REFUSED: Final = _codes(each.value for each in Reason if not each.comes_again)
_KEPT: Final = _codes(each.value for each in Reason if each.comes_again)
_RESULTS: Final = _codes(each.value for each in CallResult)

# The beginning of the names, the title, and what else there is to say. The first that fits counts.
_SECTIONS: Final = (
    (
        "waypost_queue_",
        "Queues, by the label `queue`",
        "The queues `system$;deadletter`, `system$;deadxact` and `system$;journal` belong to the queue manager itself. "
        "To be informed about messages that were not delivered, set an alert on `system$;deadletter` and "
        "`system$;deadxact`.",
    ),
    (
        "waypost_outgoing_",
        "Outgoing queues, by the label `queue`",
        "The label `queue` is the format name of the destination. "
        f"The label `state` is one of {_codes(each.name.lower() for each in OutgoingQueueState)}.",
    ),
    (
        "waypost_transfer_",
        "Transfer between queue managers",
        "If a queue manager does not exchange messages with other hosts, the metrics in this section are missing. The "
        "counters in this section start at 0 when the daemon starts.",
    ),
    (
        ("waypost_messages_refused", "waypost_overdue_acknowledgments"),
        "Refused messages and overdue acknowledgments",
        f"A refusal is final for the following reasons: {_REFUSED}. If a message is refused for one of the following "
        f"reasons, the sender keeps the message and sends it again later: {_KEPT}. The command `waypost explain ID` "
        "shows why the message with this id was refused. The page [The command line](cli.md#find-problems-doctor) "
        "describes what to do about overdue acknowledgments.",
    ),
    (
        "waypost_rpc_",
        "Remote readers",
        "If a queue manager does not serve remote readers, the metrics in this section are missing. "
        "The label `interface` is `RemoteRead`, `qm2qm`, `qmcomm` or `epmapper`. "
        f"The label `result` is one of {_RESULTS}. The result `error` means that the answer contains an error "
        "code, for example for a timeout. The result `abandoned` means that the reader disconnected or cancelled the "
        "call before the answer was sent. The label `status` is, for example, 0x00000005 for access denied, or "
        "0xC00E0003 for an unknown queue. A growing value of `waypost_rpc_rundowns` means that readers are killed or "
        "lose their connections. The page [Remote read](remote-read.md) explains the terms in this section.",
    ),
    ("waypost_http_", "HTTP clients", ""),
    ("waypost_", "The queue manager", "The labels of `waypost_info` are `version`, `name` and `guid`."),
)


def page() -> str:
    families = [found for found in _FAMILY.findall(_metrics()) if not found[0].endswith(_CREATED)]
    return "\n".join((_HEAD, *_lines(families)))


def _lines(families: list[tuple[str, str, str]]) -> Iterator[str]:
    sections = {title: [each for each in families if _title(each[0]) == title] for _, title, _ in _SECTIONS}
    for _, title, words in (_SECTIONS[-1], *_SECTIONS[:-1]):
        yield f"## {title}\n"
        yield from table(("name", "kind", "meaning"), map(_row, sections[title]))
        if words:
            yield f"{words}\n"


def _title(name: str) -> str:
    # These count queues, and belong to the queue manager.
    of_all = ("waypost_queues", "waypost_outgoing_queues")
    begins = "waypost_start" if name.startswith(of_all) else name
    return next(title for prefix, title, _ in _SECTIONS if begins.startswith(prefix))


def _row(family: tuple[str, str, str]) -> tuple[str, str, str]:
    name, words, kind = family
    # The text of Prometheus has no kind for labels alone.
    kind = "info" if name == "waypost_info" else kind
    return f"`{name.removesuffix('_total')}`", kind, prose(words)


def _metrics() -> str:
    """The answer of a new daemon."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "waypost.cli", "serve", "--data", folder, "--bind", "127.0.0.1", *_PORTS]
        command += ["--set", "http.metrics=open"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as daemon:
            assert daemon.stdout is not None
            try:
                address = json.loads(daemon.stdout.readline())["http"]
                with urlopen(f"http://{address}/metrics") as answer:
                    return str(answer.read(), "utf-8")
            finally:
                daemon.terminate()
