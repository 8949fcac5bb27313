"""Reports on the way of a traced message: MS-MQQB 3.1.5.8.9 and 3.1.7.1.7."""

from typing import Any

import pytest

from tests.node.hosts import Host, Net, Peer, letter
from tests.node.test_protected_departures import secret
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.queues import Queue
from waypost.guid import guid_text
from waypost.node.directory import DirectoryMode
from waypost.wire.format_names import PublicFormatName

Q = r"DIRECT=OS:a\private$\q"
P = r"DIRECT=OS:peer\private$\q"


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    host = net.add("a", directory=DirectoryMode.EMBEDDED)
    host.create("q")
    return host


@pytest.fixture
def reports(a: Host) -> Queue:
    return a.publish("reports")


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    assert a.is_up
    return net.add_peer()


def lines(report: Message) -> list[str]:
    return report.body.decode("utf-16-le").split("\r\n")


@pytest.mark.spec("MQQB-3.1.5.8.9-01", "MQDMPR-3.1.1.12-08")
def test_a_traced_message_that_comes_in_is_reported(net: Net, a: Host, reports: Queue, peer: Peer) -> None:
    peer.connect(a)
    peer.send(peer.message(Q, "plain"))
    peer.send(peer.message(Q, "m", tracing_requested=True, tracing_queue_identifier=reports.identifier))
    assert a.bodies("q") == ["plain", "m"]
    (report,) = a.messages(reports)
    assert (report.message_class, report.delivery_guarantee) == (0x0001, DeliveryGuarantee.EXPRESS)
    assert report.destination_queue_format_name == PublicFormatName(reports.identifier)
    assert report.label.startswith("0303:00000002:00 received by 03030303-")
    assert lines(report) == [
        "<MESSAGE ID>00000002</MESSAGE ID>",
        r"<TARGET QUEUE>DIRECT=OS:a\PRIVATE$\q</TARGET QUEUE>",
        "",
    ]


@pytest.mark.spec("MQQB-3.1.5.8.9-05")
@pytest.mark.parametrize("queue", [b"\x55" * 16, bytes(16)])
def test_without_its_report_queue_a_traced_message_arrives_all_the_same(
    net: Net, a: Host, reports: Queue, peer: Peer, queue: bytes
) -> None:  # fmt: skip
    peer.connect(a)
    peer.send(peer.message(Q, "m", tracing_requested=True, tracing_queue_identifier=queue))
    assert (a.bodies("q"), a.messages(reports)) == (["m"], [])
    assert len(a.network.open_sessions) == 1


@pytest.mark.spec("MQQB-3.1.7.1-03")
def test_a_message_that_cannot_be_encrypted_is_not_reported(net: Net, a: Host, reports: Queue, peer: Peer) -> None:
    traced: dict[str, Any] = {"tracing_requested": True, "tracing_queue_identifier": reports.identifier}
    a.send(P, secret(b"m", **traced))
    a.send(P, letter("behind", **traced))
    assert peer.bodies == ["behind"]
    (report,) = a.messages(reports)
    assert report.label.startswith("0000:00000002:00")


@pytest.mark.spec("MQQB-3.1.7.1.7-01", "MQDMPR-3.1.1.12-08")
def test_a_traced_message_that_is_sent_is_reported(net: Net, a: Host, reports: Queue, peer: Peer) -> None:
    a.send(P, letter("plain"))
    a.send(P, letter("m", tracing_requested=True, tracing_queue_identifier=reports.identifier))
    assert peer.bodies == ["plain", "m"]
    (report,) = a.messages(reports)
    assert (report.message_class, report.delivery_guarantee) == (0x0001, DeliveryGuarantee.EXPRESS)
    assert report.destination_queue_format_name == PublicFormatName(reports.identifier)
    assert report.label.startswith(f"0000:00000002:00 received by {guid_text(a.guid).upper()} at ")
    assert lines(report)[2:] == [f"<NEXT HOP>{peer.address}</NEXT HOP>", "<HOP COUNT>00 </HOP COUNT>", ""]
