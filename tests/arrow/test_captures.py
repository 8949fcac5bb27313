"""Messages out of captures and files: the same packets that `waypost decode` shows."""

import json
import os
import pickle
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.cli.wiretap import (
    SECOND,
    VECTORS,
    Tcp,
    conversation,
    dpkt_pcap_file,
    ethernet_frame,
    frame_7,
    ipv4,
    pcap_file,
    pcapng_file,
    tcp_capture,
    vector,
)
from waypost.arrow import captures
from waypost.arrow.captures import captured, packets_of
from waypost.arrow.packets import Packets
from waypost.captures.inputs import Kind, Ports
from waypost.captures.source import InputError, Source, UnknownKind
from waypost.cli import app
from waypost.wire import base_header


def each(packets: Packets) -> list[bytes]:
    return [bytes(packets.data[start:end]) for start, end in zip(packets.offsets, packets.offsets[1:], strict=False)]


def all_packets(path: Path | Source, **options: Any) -> list[bytes]:
    return [packet for batch in packets_of(path, **options) for packet in each(batch)]


def shown(path: Path) -> list[tuple[int, str | None, str | None]]:
    """Size and endpoints of each packet that the command shows and that is a message."""
    result = CliRunner().invoke(app, ["decode", "--json", str(path)])
    return [
        (entry["size"], entry["source"], entry["destination"])
        for entry in json.loads(result.stdout)
        if entry["number"] and not is_session_packet(entry)
    ]


def is_session_packet(entry: dict[str, Any]) -> bool:
    fields = [field for header in entry["headers"] for field in header["fields"]]
    flags = {field["name"]: field["value"] for field in fields}
    return bool(flags.get("Flags.IN")) or entry["kind"] == "Ping"


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


SEGMENTS = Tcp().cut(b"".join(conversation()), [700, 11, 300])
FRAMES = [ethernet_frame(ipv4(segment)) for segment in SEGMENTS]


@pytest.mark.parametrize("write", [pcap_file, dpkt_pcap_file, pcapng_file])
def test_a_capture_gives_its_messages_and_no_session_packets(write: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "x.pcap", write(FRAMES))
    assert all_packets(path) == [frame_7(), frame_7()]


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.bin")), ids=lambda path: path.stem)
def test_every_vector_gives_what_the_command_shows(path: Path) -> None:
    found = [(len(packet), str(path), None) for packet in all_packets(path)]
    assert found == shown(path)


def test_a_capture_gives_what_the_command_shows_with_endpoints(tmp_path: Path) -> None:
    other = Tcp(source_port=40001)
    segments = [*SEGMENTS[:3], *other.cut(vector("hostile-user-message"), [500]), *SEGMENTS[3:]]
    path = written(tmp_path / "x.pcap", tcp_capture(segments))
    found = [
        (len(packet), source, destination)
        for batch in captured(path)
        for packet, source, destination in zip(
            each(batch.packets), batch.sources.to_pylist(), batch.destinations.to_pylist(), strict=True
        )
    ]
    assert found == shown(path)
    assert len(found) == 3


def test_a_packet_has_the_time_of_its_last_byte(tmp_path: Path) -> None:
    path = written(tmp_path / "x.pcap", tcp_capture(Tcp().cut(frame_7(), [2000])))
    [batch] = captured(path)
    [time] = batch.times.to_pylist()
    assert time.timestamp() == SECOND + 1.25
    assert batch.times.type.tz == "UTC"


def test_hexadecimal_text_and_raw_packets_have_no_time_and_one_name(tmp_path: Path) -> None:
    data = frame_7() + vector("mqqb-4.1.5") + frame_7()
    for path in (written(tmp_path / "x.hex", data.hex().encode()), written(tmp_path / "x.bin", data)):
        [batch] = captured(path)
        assert each(batch.packets) == [frame_7(), frame_7()]
        assert batch.times.to_pylist() == batch.destinations.to_pylist() == [None, None]
        assert batch.sources.to_pylist() == [str(path), str(path)]


def test_malformed_and_incomplete_packets_are_there_as_they_are(tmp_path: Path) -> None:
    malformed = base_header.BaseHeader(packet_size=20).encode() + b"what"
    incomplete = frame_7()[:100]
    path = written(tmp_path / "x.bin", frame_7() + malformed + b"stray bytes" + incomplete)
    assert all_packets(path) == [frame_7(), malformed, incomplete]


def test_batches_are_bounded_by_rows_and_by_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "x.bin", frame_7() * 7)
    monkeypatch.setattr(captures, "BATCH_ROWS", 3)
    assert [len(batch) for batch in packets_of(path)] == [3, 3, 1]
    monkeypatch.setattr(captures, "BATCH_BYTES", 2 * len(frame_7()))
    assert [len(batch) for batch in packets_of(path)] == [2, 2, 2, 1]


def test_a_damaged_capture_gives_its_good_packets_and_then_the_error(tmp_path: Path) -> None:
    path = written(tmp_path / "x.pcap", tcp_capture(SEGMENTS)[:-10])
    batches = captured(path)
    assert each(next(batches).packets) == [frame_7(), frame_7()]
    with pytest.raises(InputError, match="damaged"):
        next(batches)


def test_a_source_ports_and_the_kind_can_be_given(tmp_path: Path) -> None:
    capture = tcp_capture(Tcp(destination_port=2000).cut(frame_7(), [900]))

    def source() -> Source:
        return Source("given", BytesIO(capture), lambda _: None)

    assert all_packets(source()) == []
    assert all_packets(source(), ports=Ports(tcp=frozenset({2000}))) == [frame_7()]
    with pytest.raises(InputError, match="line 1 of given is not hexadecimal"):
        all_packets(source(), kind=Kind.HEX)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are text")
def test_a_name_that_is_no_text_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path / os.fsdecode(b"\xff.bin"), frame_7())
    (batch,) = captured(path)
    assert batch.sources.to_pylist()[0].endswith("?.bin")


def test_what_cannot_be_read_is_an_error_that_tells_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing does not exist\. Hint: check the name"):
        all_packets(tmp_path / "nothing")
    with pytest.raises(UnknownKind, match="Hint: specify the format of the file: raw, hex or pcap") as caught:
        all_packets(written(tmp_path / "x", b"\0\1\2"))
    # Errors travel from the workers of a cluster.
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
