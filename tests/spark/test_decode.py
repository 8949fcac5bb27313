"""Decode: packets out of files and archives to columns, with malformed packets set apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import waypost
from tests.late import late
from waypost.errors import InvalidParameter
from waypost.spark.pipelines.report import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waypost.spark.pipelines import decode, decode_report, expressions
else:
    decode = late("waypost.spark.pipelines.decode")
    decode_report = late("waypost.spark.pipelines.decode_report")
    expressions = late("waypost.spark.pipelines.expressions")


@pytest.fixture(scope="module")
def packets(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    with waypost.open(tmp_path_factory.mktemp("store"), name="alpha") as manager:
        queue = manager.create_queue("orders")
        for number in range(3):
            queue.send(f"text {number}", label=f"label {number}", priority=number)
        return sorted((each.packet for each in queue.browse()), key=lambda packet: packet[-64:])


def test_files_of_every_kind_become_columns(spark: SparkSession, packets: list[bytes], tmp_path: Path) -> None:
    raw, text, broken = tmp_path / "raw.bin", tmp_path / "hex.txt", tmp_path / "broken.bin"
    raw.write_bytes(b"".join(packets))
    text.write_text(packets[0].hex())
    broken.write_bytes(b"no packet at all, and no text \xff\xfe")
    found = (
        decode.decoded(decode.read_packets(spark, [str(raw), str(text), str(broken)]))
        .orderBy("file", "label")
        .collect()
    )
    told = [(Path(row.file).name, row.label, row.body_text, row.priority) for row in found if row.file_error is None]
    labels = [(f"label {number}", f"text {number}", number) for number in range(3)]
    assert told[1:] == [("raw.bin", *each) for each in labels]
    assert told[0][0] == "hex.txt"
    assert told[0][1:] in labels
    (failed,) = [row for row in found if row.file_error is not None]
    assert failed.file == str(broken)
    assert "is not hexadecimal" in failed.file_error
    assert failed.packet is None


def test_a_malformed_packet_is_set_apart_and_other_columns_stay(spark: SparkSession, packets: list[bytes]) -> None:
    rows = [(1, packets[0], "an old label"), (2, packets[0][:40], "x"), (3, None, "x")]
    given = spark.createDataFrame(rows, "place int, packet binary, label string")
    found = decode.decoded(given, ["label", "body_size", "packet_error"])
    assert found.columns == ["place", "packet", "label", "body_size", "packet_error"]
    one, two, three = found.orderBy("place").collect()
    assert one.label.startswith("label ")
    assert one.packet_error is None
    assert (two.label, two.body_size, bytes(two.packet)) == (None, None, packets[0][:40])
    assert two.packet_error
    assert three.packet_error


def test_what_is_written_replaces_its_like_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(b"\x01", "x")], "message_id binary, label string").coalesce(1)
    for _ in range(2):
        decode.write(rows, str(tmp_path / "out"), "json", [])
    (file,) = (tmp_path / "out").glob("part-*.json")
    assert json.loads(file.read_text()) == {"message_id": "01", "label": "x"}
    with pytest.raises(InvalidParameter, match="contains 'out', which would be deleted"):
        decode.write(rows, str(tmp_path), "json", [])
    assert file.exists()


def test_what_cannot_be_decoded_is_refused_before_the_job(spark: SparkSession) -> None:
    given = spark.createDataFrame([(1,)], "place int")
    with pytest.raises(
        InvalidParameter, match=r"binary column packet with the packets is missing; the columns are place"
    ):
        decode.decoded(given)
    with pytest.raises(InvalidParameter, match="a packet has no column 'seq'"):
        decode.decoded(spark.createDataFrame([(b"",)], "packet binary"), ["seq"])
    with pytest.raises(InvalidParameter, match="not 'text'"):
        decode.read_packets(spark, ["x"], "text")
    assert "seq" not in decode.DECODED


def test_a_file_in_the_place_of_the_folder_stays(spark: SparkSession, tmp_path: Path) -> None:
    capture = tmp_path / "traffic.pcapng"
    capture.write_bytes(b"a capture")
    rows = spark.createDataFrame([("x",)], "label string")
    for path in (str(capture), f"file://{capture}"):
        with pytest.raises(
            InvalidParameter, match=r"traffic\.pcapng is a file, which would be deleted; specify a folder"
        ):
            decode.write(rows, path, "json", [])
    assert capture.read_bytes() == b"a capture"


def test_the_report_counts_what_it_does_not_list(spark: SparkSession) -> None:
    many = expressions.LISTED + 200
    # By turns: a message for a new queue, and a packet that is malformed in a new way.
    rows = spark.range(2 * many).selectExpr(
        "if(id % 2 = 0, concat('DIRECT=OS:a\\\\q', id), null) as dest_queue",
        "if(id % 2 = 0, null, concat('at offset ', id)) as packet_error",
        "if(id % 2 = 0, 0, null) as message_class",
        "1L as body_size",
        "'a' as source_qm",
        "timestamp'2026-03-01' as sent_time",
    )
    told, is_whole = decode_report.report(rows)
    assert is_whole
    assert told.summary == "1,200 messages were decoded; 1,200 packets are malformed."
    assert [figure.value for figure in told.figures] == [many, many, many]
    tables = {part.name: part for part in told.parts() if isinstance(part, Table)}
    assert [(len(tables[name].rows), tables[name].total) for name in ("queues", "malformed")] == [
        (expressions.LISTED, many)
    ] * 2
    assert tables["classes"].total == 1


def test_the_summary_names_some_of_the_files_that_failed(spark: SparkSession, tmp_path: Path) -> None:
    names = [str(tmp_path / f"{number}.pcap") for number in range(5)]
    told, is_whole = decode_report.report(decode.decoded(decode.read_packets(spark, names)))
    assert not is_whole
    assert told.summary == (
        "0 messages were decoded; 0 packets are malformed; the command could not read these files to their end: "
        f"{', '.join(names[:3])} and 2 more."
    )
