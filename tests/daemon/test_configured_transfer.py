"""The configuration of transfer holds after a restart and after a crash: MS-MQQB 3.1.1.3."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.node.hosts import Host, Net
from waypost.core.message_values import Acknowledgements
from waypost.daemon.loading import load
from waypost.transfer.settings import TransferSettings
from waypost.wire.format_names import FormatName


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "waypost.toml"


def configured(file: Path) -> TransferSettings:
    """The settings that a daemon with this file gives its queue manager."""
    return load(file, {}, {}, []).transfer.settings()


def crash_and_start(host: Host, file: Path) -> None:
    """A crash of the process or of the computer: the next process knows the file and the store."""
    host.crash()
    host.settings = replace(host.settings, transfer=configured(file))
    host.start()


@pytest.mark.spec("MQQB-3.1.1.3-09")
def test_insecure_nacks_are_off_and_stay_on_once_they_are_configured(net: Net, file: Path) -> None:
    file.write_text("[transfer]\n", encoding="utf-8")
    a = net.add("a", configured(file))
    a.create("admin")
    peer = net.add_peer()

    def told() -> int:
        peer.connect(a)
        message = peer.message(
            r"DIRECT=OS:a\private$\nowhere",
            "m",
            administration_queue_format_name=FormatName.parse(r"DIRECT=OS:a\private$\admin"),
            acknowledgements_requested=Acknowledgements.ACK_NEG_ARRIVAL,
        )
        peer.send(message)
        return len(a.bodies("admin"))

    assert told() == 0
    file.write_text("[transfer]\nsend_insecure_nacks = true\n", encoding="utf-8")
    counts = []
    for _ in range(2):
        crash_and_start(a, file)
        counts.append(told())
    assert counts == [1, 2]


@pytest.mark.spec("MQQB-3.1.1.3-11")
def test_the_configured_resend_time_outs_hold_after_every_crash(net: Net, file: Path) -> None:
    file.write_text("[transfer]\nresend_timeouts_s = [3, 4, 5, 6]\n", encoding="utf-8")
    a = net.add("a", configured(file))
    peer = net.add_peer()
    name = r"DIRECT=OS:peer\private$\t"
    for _ in range(2):
        crash_and_start(a, file)
        a.send_all(name, "m")
        times = [net.now.monotonic]
        for _ in range(50):
            peer.acknowledge()
            sent = len(peer.bodies)
            net.advance(1)
            times += [net.now.monotonic] * (len(peer.bodies) > sent)
        assert [round(later - earlier) for earlier, later in pairwise(times)] == [3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6]
        peer.acknowledge()
        peer.order_ack(1)
        assert a.bodies(name) == []
