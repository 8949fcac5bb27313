"""`waypost decode` as an operator runs it."""

import gzip
import io
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pytest
from typer.testing import CliRunner, Result

from tests.cli import wiretap
from tests.cli.wiretap import VECTORS, Tcp, conversation, ethernet_frame, frame_7, ipv4, pcap_file, tcp_capture, vector
from waypost import __version__
from waypost.cli import app
from waypost.cli.decode.command import BIG
from waypost.cli.decode.entries import Entry, Problem
from waypost.cli.decode.report import Detail, TextReport
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.session_header import SessionHeader
from waypost.wire.user_message import UserMessage

ROOT = Path(__file__).parents[2]

PARAMETERS_BLOCK = """\
#1  10.0.0.1:40000 -> 10.0.0.2:1801  2023-11-14T22:13:20.250000Z  ConnectionParameters  32 bytes  OK
  BaseHeader (MS-MQMQ 2.2.19.1)
    0000  VersionNumber               0x10
    0001  Reserved                    0xC0
    0002  Flags                       0x000B
            PR = 3  priority; 7 is the highest
            IN = 1  internal packet
            clear: SH DH TR
    0004  Signature                   0x524F494C  LIOR
    0008  PacketSize                  32  bytes
    000c  TimeToReachQueue            4294967295  infinite
  InternalHeader (MS-MQQB 2.2.1)
    0010  Reserved                    0x0000
    0012  Flags                       0x0003
            PT = 3  ConnectionParameters
            clear: CS
  ConnectionParametersHeader (MS-MQQB 2.2.2.1)
    0014  RecoverableAckTimeout       1496  milliseconds
    0018  AckTimeout                  120000  milliseconds
    001c  Reserved                    0x0000
    001e  WindowSize                  64  unacknowledged packets

"""


def decode(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["decode", *map(str, arguments)], input=stdin)


def entries(result: Result) -> list[dict[str, Any]]:
    array = json.loads(result.stdout)
    assert isinstance(array, list)
    return array


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A conversation with a ping before it, in two directions."""
    there, back = Tcp(), Tcp(7, 1801, 40000)
    frames = [ethernet_frame(ipv4(wiretap.udp_datagram(vector("mqqb-4.1.1")), 17))]
    segments = [
        there.syn(),
        back.syn(),
        *there.cut(b"".join(conversation()), [1460]),
        back.segment(0, vector("mqqb-4.1.4")),
    ]
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap_file(frames + [ethernet_frame(ipv4(segment)) for segment in segments]))
    return path


def test_a_packet_is_one_readable_block(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(tcp_capture([Tcp().segment(0, vector("mqqb-4.1.5"))]))
    result = decode(path)
    assert result.stdout == PARAMETERS_BLOCK
    assert result.stderr == "1 packet, 0 malformed\n"
    assert result.exit_code == 0


def test_a_capture_gives_all_packets_of_both_directions(capture: Path) -> None:
    result = decode("--json", capture)
    assert result.exit_code == 0
    array = entries(result)
    assert [each["number"] for each in array] == [1, 2, 3, 4, 5, 6, 7]
    assert [each["kind"] for each in array if each["source"].endswith(":1801")] == ["EstablishConnection"]
    assert array[0]["kind"] == "Ping"
    assert array[0]["destination"] == "10.0.0.2:3527"


def test_the_keys_of_the_json_output_are_a_promise(capture: Path) -> None:
    entry = entries(decode("--json", capture))[1]
    assert list(entry) == [
        "input", "number", "source", "destination", "time", "kind", "size", "verdict", "headers",
    ]  # fmt: skip
    assert entry["verdict"] == {
        "ok": True, "problem": None, "section": None, "field": None, "offset": None, "reason": None,
    }  # fmt: skip
    header = entry["headers"][0]
    assert list(header) == ["name", "section", "offset", "fields"]
    assert header["fields"][2] == {"name": "Flags", "offset": 2, "size": 2, "value": "0x000B", "meaning": ""}


def test_the_documented_object_is_how_the_json_output_begins() -> None:
    page = (ROOT / "docs" / "decode.md").read_text(encoding="utf-8")
    documented = json.loads(page.partition("```json\n")[2].partition("```")[0])
    (entry,) = entries(decode("--json", ROOT / documented["input"]))
    header = entry["headers"][0] | {"fields": entry["headers"][0]["fields"][:4]}
    name = documented["input"]
    assert documented == entry | {"input": name, "source": name, "headers": [header]}
    assert [problem for problem in Problem if f"`{problem}`" not in page] == []


def test_json_holds_whole_values_and_the_place_of_an_error(tmp_path: Path) -> None:
    path = tmp_path / "packets"
    path.write_bytes(frame_7() + vector("hostile-user-message"))
    good, bad = entries(decode("--json", path))
    body = next(each for each in good["headers"][3]["fields"] if each["name"] == "MessageBody")
    assert bytes.fromhex(body["value"]) == b"a\0" * 1000
    assert (bad["verdict"]["ok"], bad["verdict"]["problem"]) == (False, "malformed")
    assert (bad["verdict"]["section"], bad["verdict"]["offset"]) == ("MS-MQRR 2.2.5.2", 0xF0)


def test_json_of_nothing_is_an_empty_array(tmp_path: Path) -> None:
    path = tmp_path / "empty.pcap"
    path.write_bytes(pcap_file([]))
    result = decode("--json", path)
    assert (entries(result), result.exit_code) == ([], 0)
    assert "hint: " in result.stderr


def test_a_malformed_packet_says_why_and_where_and_shows_the_bytes() -> None:
    result = decode(VECTORS / "hostile-user-message.bin")
    assert result.exit_code == 1
    assert "MALFORMED: HeaderSize at offset 0x00f0: must be 12, not 286331153 (MS-MQRR 2.2.5.2)" in result.stdout
    assert "   >00f0  11 11 11 11 00 00 00 40" in result.stdout
    assert "1 packet, 1 malformed" in result.stderr


def test_a_gap_is_shown_and_counted(tmp_path: Path) -> None:
    tcp = Tcp()
    data = vector("mqqb-4.1.5") * 3
    path = tmp_path / "gap"
    path.write_bytes(tcp_capture([tcp.syn(), tcp.segment(0, data[:32]), tcp.segment(64, data[64:])]))
    result = decode(path)
    assert result.exit_code == 1
    assert "gap  32 bytes  this part of the stream is missing from the capture" in result.stdout
    assert result.stderr == "2 packets, 0 malformed, 1 gap\n"


def test_a_packet_that_the_capture_cut_is_incomplete_not_malformed(tmp_path: Path) -> None:
    tcp = Tcp()
    data = frame_7() + vector("mqqb-4.1.5")
    path = tmp_path / "gap"
    path.write_bytes(tcp_capture([tcp.syn(), tcp.segment(0, data[:97]), tcp.segment(2224, data[2224:])]))
    result = decode(path)
    assert result.exit_code == 1
    heading = result.stdout.splitlines()[0]
    assert heading.endswith("UserMessage  97 bytes  INCOMPLETE: only 97 of 2224 bytes are present")
    assert "MALFORMED" not in result.stdout
    assert "bytes around" not in result.stdout
    assert result.stderr == "2 packets, 0 malformed, 1 incomplete, 1 gap\n"
    verdict = entries(decode("--json", path))[0]["verdict"]
    assert verdict == {
        "ok": False, "problem": "incomplete", "section": None, "field": None, "offset": None,
        "reason": "only 97 of 2224 bytes are present",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        (vector("mqqb-4.1.7"), "INCOMPLETE: only 1650 of 2224 bytes are present"),
        (UserMessage(session=SessionHeader()).encode()[:-16], "INCOMPLETE: only 120 of 136 bytes are present"),
        (vector("mqqb-4.1.5") + vector("mqqb-4.1.3")[:7], "INCOMPLETE: only 7 of at least 16 bytes are present"),
        (vector("mqqb-4.1.5") + b"\x10", "INCOMPLETE: only 1 of at least 16 bytes are present"),
        (vector("mqqb-4.1.5") + b"\r\n", "stray bytes  2 bytes  no packet starts here"),
        (vector("mqqb-4.1.5") + b"\x10\0\0\0LIAR", "stray bytes  8 bytes  no packet starts here"),
    ],
)
def test_a_file_that_ends_inside_a_packet_says_what_is_missing(data: bytes, verdict: str) -> None:
    result = decode("--brief", "-", stdin=data)
    assert result.stdout.splitlines()[-1].endswith(verdict)
    assert result.exit_code == 1


def test_a_ping_that_the_capture_cut_is_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "ping"
    frame = ethernet_frame(ipv4(wiretap.udp_datagram(vector("mqqb-4.1.1")), 17))
    path.write_bytes(pcap_file([frame], snap_length=len(frame) - 4))
    assert "Ping  20 bytes  INCOMPLETE: only 20 of 24 bytes are present" in decode(path).stdout


def test_brief_is_one_line_for_each_packet(capture: Path) -> None:
    result = decode("--brief", capture)
    assert [line.partition("  ")[0] for line in result.stdout.splitlines()] == [f"#{i}" for i in range(1, 8)]
    assert {entry["kind"]: entry["headers"] for entry in entries(decode("--brief", "--json", capture))}["Ping"] == []


def test_captures_are_named_when_there_are_several_files(tmp_path: Path, capture: Path) -> None:
    other = tmp_path / "other.pcap"
    other.write_bytes(capture.read_bytes())
    raw = VECTORS / "mqqb-4.1.5.bin"
    lines = decode("--brief", capture, raw, other).stdout.splitlines()
    named = {index: line for index, line in enumerate(lines) if not line.startswith("#")}
    assert named == {0: f"==> {capture} <==", 9: f"==> {other} <=="}
    assert "==>" not in decode(capture).stdout


def test_a_long_body_is_cut_unless_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "message"
    body = bytes(range(128, 256)) * 4
    path.write_bytes(UserMessage(properties=MessagePropertiesHeader(message_body=body)).encode())
    assert "... 448 more bytes; --body shows them" in decode(path).stdout
    assert "more; --body" not in decode("--body", path).stdout


def test_a_label_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "message"
    label = "\x1b]0;owned\x07\ud800"
    path.write_bytes(UserMessage(properties=MessagePropertiesHeader(label=label)).encode())
    assert "\\x1b]0;owned\\x07\\ud800" in decode(path).stdout
    fields = entries(decode("--json", path))[0]["headers"][2]["fields"]
    assert label in [each["value"] for each in fields]


def test_a_file_is_recognised_whatever_it_is_called(tmp_path: Path, capture: Path) -> None:
    hexadecimal = tmp_path / "x"
    hexadecimal.write_text(vector("mqqb-4.1.1").hex(" "))
    result = decode(capture, hexadecimal, *sorted(VECTORS.glob("mqqb-4.1.[1-6].bin")))
    assert result.exit_code == 0
    assert "14 packets, 0 malformed" in result.stderr


def test_a_byte_stream_of_several_packets_is_cut() -> None:
    result = decode("--json", "-", stdin=b"".join(conversation()))
    assert [each["kind"] for each in entries(result)] == [
        "EstablishConnection", "ConnectionParameters", "UserMessage", "UserMessage", "SessionAck",
    ]  # fmt: skip
    assert entries(result)[0]["source"] == "standard input"


def test_another_port_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(tcp_capture([Tcp(destination_port=18010).segment(0, vector("mqqb-4.1.5"))]))
    assert "0 packets" in decode(path).stderr
    assert "1 packet," in decode("--port", "18010", path).stderr


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (None, []),
        (b"", []),
        (b"\x00\x01\x02 neither this nor that", []),
        (b"plain words", []),
        (b"\x10\x00", ["--as", "pcap"]),
        (wiretap.pcap_file([])[:10], []),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_sentence_and_a_hint(
    tmp_path: Path, content: bytes | None, arguments: list[str]
) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    result = decode(path, *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    sentence, hint, summary = result.stderr.splitlines()
    assert sentence.endswith(".")
    assert hint.startswith("hint: ")
    assert summary.startswith("0 packets")


def test_a_file_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    result = decode(tmp_path / "missing", VECTORS / "mqqb-4.1.5.bin")
    assert result.exit_code == 1
    assert "ConnectionParameters" in result.stdout
    assert decode(tmp_path).exit_code == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty."),
        (gzip.compress(b"capture", mtime=0), "hint: decompress the file first"),
        (b"GMBU\x01\x02", "hint: open the file in Wireshark"),
        (b"\0\0\1\0", "hint: convert the file with etl2pcapng"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_the_way_out(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "trace.ETL"
    path.write_bytes(content)
    stderr = decode(path).stderr
    assert said in stderr
    assert "--as" not in stderr


def test_the_hint_about_the_kind_of_a_file_names_the_option() -> None:
    hint = "hint: specify the format of the file: raw, hex or pcap. Use the option --as.\n"
    assert hint in decode("-", stdin=b"\0\1\2").stderr


def test_the_hint_about_ports_is_for_captures(tmp_path: Path) -> None:
    path = tmp_path / "empty.pcap"
    path.write_bytes(pcap_file([]))
    assert "--ping-port" in decode(path).stderr
    assert "--ping-port" not in decode("--as", "hex", "-", stdin=b"# nothing").stderr


@pytest.mark.parametrize(
    ("arguments", "sentence", "hint"),
    [
        (["decode", "--nonsense"], "No such option: --nonsense", "waypost decode --help"),
        (["decode", "--as", "tape", "x"], "'tape' is not one of 'raw', 'hex', 'pcap'.", "waypost decode --help"),
        (["decode", "--port", "0", "x"], "Invalid value for '--port': ", "waypost decode --help"),
        (["decode", "--brief", "--body", "x"], "--brief and --body are mutually exclusive.", "waypost decode --help"),
        (["decode"], "Missing argument 'FILE'.", "waypost decode --help"),
        (["decade"], "Did you mean 'decode'?", "waypost --help"),
    ],
)
def test_wrong_usage_is_a_sentence_and_a_hint_and_exits_with_2(arguments: list[str], sentence: str, hint: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    first, second = result.stderr.splitlines()
    assert sentence in first
    assert second == f"hint: {hint} shows the usage."


def run(*arguments: str | Path, stdout: int | IO[bytes] = subprocess.PIPE) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "from waypost.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


def test_the_command_is_installed_and_knows_its_version() -> None:
    assert run("--version").stdout == f"waypost {__version__}\n"
    assert "decode" in run("--help").stdout
    help_text = run("decode", "--help").stdout
    assert "--ping-port PORT" in help_text
    assert "bool" not in help_text
    assert "list[" not in help_text
    assert run().returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("arguments", [[], ["--json"], ["--body", *sorted(VECTORS.glob("*.bin"))]])
def test_output_that_cannot_be_written_is_a_sentence_and_a_hint(arguments: list[str | Path]) -> None:
    with Path("/dev/full").open("wb") as full:
        result = run("decode", *arguments, VECTORS / "mqqb-4.1.5.bin", stdout=full)
    assert result.returncode == 1
    assert result.stderr == (
        "Cannot write to standard output: No space left on device.\n"
        "hint: free disk space, or redirect the output to another file.\n"
    )


def test_a_closed_output_is_a_sentence_and_a_hint() -> None:
    command = ["sh", "-c", f'"{sys.executable}" -c "from waypost.cli import main; main()" decode - >&-']
    result = subprocess.run(command, input=b"10", stderr=subprocess.PIPE, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(b"Standard output is closed.\nhint: ")


def test_a_reader_who_leaves_is_no_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe:
        result = run("decode", "--json", VECTORS / "mqqb-4.1.5.bin", stdout=pipe)
    assert (result.returncode, result.stderr) == (1, "")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("to_file", "drawn"), [(True, True), (False, False)])
def test_the_progress_bar_is_drawn_only_while_a_file_is_written(tmp_path: Path, *, to_file: bool, drawn: bool) -> None:
    path = tmp_path / "big"
    path.write_bytes(vector("mqqb-4.1.5") + bytes(BIG))
    controller, terminal = os.openpty()
    command = [sys.executable, "-c", "from waypost.cli import main; main()", "decode", "--brief", str(path)]
    with (tmp_path / "out").open("wb") as file:
        process = subprocess.Popen(command, stdout=file if to_file else subprocess.PIPE, stderr=terminal)
        process.communicate(timeout=60)
    os.close(terminal)
    talk = b""
    # A pseudo-terminal ends with an error.
    with suppress(OSError):
        while piece := os.read(controller, 65536):
            talk += piece
    os.close(controller)
    assert (b"decoding" in talk) is drawn
    assert b"1 packet, 0 malformed, 1 run of stray bytes" in talk


def test_colour_marks_the_verdict_where_it_is_wanted() -> None:
    out = io.StringIO()
    TextReport(out, Detail.USUAL, colour=True, names=False).entry(
        Entry(1, "here", None, None, "Ping", 24, b"", (), None)
    )
    assert out.getvalue() == "\x1b[1m#1  here  Ping  24 bytes\x1b[0m  \x1b[32mOK\x1b[0m\n\n"


def test_no_colour_goes_into_a_pipe(capture: Path) -> None:
    assert "\x1b" not in decode(capture).stdout
