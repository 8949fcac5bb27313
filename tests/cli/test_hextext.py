"""Hexadecimal text in all the forms that tools write."""

from io import BytesIO

import pytest

from tests.cli.wiretap import vector
from waypost import limits
from waypost.captures import hextext
from waypost.captures.hextext import HexText, is_text
from waypost.captures.source import InputError, Source

PACKET = vector("mqqb-4.1.5")
ROWS = [PACKET[:16], PACKET[16:]]


def read(text: str | bytes) -> list[bytes]:
    data = text if isinstance(text, bytes) else text.encode()
    streams = [b"", b""]
    for stream, piece in HexText(Source("text", BytesIO(data), lambda _: None)).pieces():
        streams[stream] += piece
    return streams


def ascii_column(row: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)


def halves(row: bytes) -> str:
    return f"{row[:8].hex(' ')}  {row[8:].hex(' ')}"


XXD = "".join(f"{16 * i:08x}: {row.hex(' ', 2)}  {ascii_column(row)}\n" for i, row in enumerate(ROWS))
HEXDUMP = "".join(f"{16 * i:08x}  {halves(row)}  |{ascii_column(row)}|\n" for i, row in enumerate(ROWS)) + "00000020\n"
FOLLOW = "".join(f"{16 * i:08X}  {halves(row)}   {ascii_column(row)}\n" for i, row in enumerate(ROWS))
COPIED = "".join(f"{16 * i:04x}   {row.hex(' ')}   {ascii_column(row)}\n" for i, row in enumerate(ROWS))
OD = "".join(f"{16 * i:06x} {row.hex(' ')}\n" for i, row in enumerate(ROWS)) + "000020\n"
XXD_I = (
    "unsigned char packet[] = {\n"
    + ",\n".join("  " + ", ".join(f"0x{byte:02x}" for byte in row) for row in ROWS)
    + "\n};\nunsigned int packet_len = 32;\n"
)
RULER = bytes(range(16)).hex(" ").upper()
FORMAT_HEX_5 = f"\n\n           Path: C:\\x.bin\n\n           {RULER}\n\n" + "".join(
    f"{16 * i:08X}   {row.hex(' ').upper()}  {ascii_column(row)}\n" for i, row in enumerate(ROWS)
)
FORMAT_HEX_7 = (
    f"\n   Label: C:\\x.bin\n\n          Offset Bytes                                           Ascii\n"
    f"                 {RULER}\n          ------ {'-' * 47} -----\n"
) + "".join(f"{16 * i:016X} {row.hex(' ').upper()} \ufffd\xc041 42 43 44 45\n" for i, row in enumerate(ROWS))


@pytest.mark.parametrize(
    "text",
    [
        PACKET.hex(),
        PACKET.hex(" "),
        PACKET.hex(":"),
        PACKET.hex("-").upper(),
        PACKET.hex("\n"),
        PACKET.hex(" ", 4).replace(" ", "  "),
        ", ".join(f"0x{byte:02X}" for byte in PACKET) + ",",
        "{" + ",".join(f"0x{byte:02x}" for byte in PACKET) + "};",
        '"' + "".join(f"\\x{byte:02x}" for byte in PACKET) + '"',
        f"# from the field\n\n{PACKET.hex()}\n",
        XXD,
        XXD_I,
        OD,
        FORMAT_HEX_5,
        FORMAT_HEX_7,
        HEXDUMP,
        FOLLOW,
        COPIED,
        COPIED.replace("\n", "\r\n"),
    ],
)
def test_every_form_gives_the_bytes(text: str) -> None:
    assert read(text) == [PACKET, b""]


def test_text_that_powershell_redirected_is_read() -> None:
    assert is_text(XXD.encode("utf-16"))
    assert read(XXD.encode("utf-16"))[0] == PACKET


def test_the_indented_side_of_a_followed_stream_is_a_stream_of_its_own() -> None:
    reply = "".join(f"    {line}\n" for line in FOLLOW.splitlines())
    assert read(FOLLOW + reply) == [PACKET, PACKET]


def test_dumps_that_follow_each_other_start_again_at_0() -> None:
    assert read(COPIED + "\n" + COPIED)[0] == PACKET * 2


def test_a_text_column_that_looks_like_digits_is_not_read() -> None:
    assert read("00000000  61 62 20 63 64 20 65 66                           |ab cd ef|\n")[0] == b"ab cd ef"
    assert read("00000000  61 62 20 63 64 20 65 66   ab cd ef\n")[0] == b"ab cd ef"
    assert read("00000000: 6162 2063 6420 6566                      ab cd ef\n")[0] == b"ab cd ef"


def test_a_star_repeats_the_line_before_it() -> None:
    zeros = f"00000000  {halves(bytes(16))}  |................|\n*\n"
    assert read(zeros + f"00000040  {halves(ROWS[0])}  |...|\n00000050\n")[0] == bytes(64) + ROWS[0]
    assert read(zeros + "00000040\n")[0] == bytes(64)


def test_a_star_of_od_repeats_the_line_before_it() -> None:
    zeros = f"000000 {bytes(16).hex(' ')}\n*\n"
    assert read(zeros + f"000040 {ROWS[0].hex(' ')}\n000050\n")[0] == bytes(64) + ROWS[0]


def test_a_star_without_offsets_is_refused_for_nobody_knows_how_many_lines_it_means() -> None:
    with pytest.raises(InputError, match="line 2"):
        read(f"{PACKET.hex(' ')}\n*\n{PACKET.hex(' ')}\n")


@pytest.mark.parametrize(
    "text",
    [
        f"0000000 {ROWS[0].hex(' ')}\n0000020 {ROWS[1].hex(' ')}\n0000040\n",
        f"000000 {PACKET.hex(' ')}\n000020 {PACKET.hex(' ')}\n000040\n",
    ],
)
def test_a_dump_of_od_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="offset") as caught:
        read(text)
    assert "od -A x -t x1" in caught.value.hint


def test_words_are_skipped_only_before_the_first_bytes_and_only_when_they_are_words() -> None:
    assert read(f"From the field, Tuesday\n{PACKET.hex()}\n")[0] == PACKET
    with pytest.raises(InputError, match="line 1"):
        read(f"1O 00 03 00\n{PACKET.hex()}\n")
    with pytest.raises(InputError, match="line 1"):
        read("only words\nand more\n")
    with pytest.raises(InputError, match="no hexadecimal digits"):
        read("# a comment\n\n")


def test_a_star_cannot_fill_the_memory() -> None:
    with pytest.raises(InputError, match="contains more than"):
        read(f"00000000  {halves(bytes(16))}  |.|\n*\nfffffffffff0\n")


@pytest.mark.parametrize("line", ["hello", "10 0", "10 zz", "GET / HTTP/1.1", "0000  zz zz"])
def test_a_line_that_is_not_hexadecimal_is_named(line: str) -> None:
    with pytest.raises(InputError, match="line 2 of text is not hexadecimal") as caught:
        read(f"10 00\n{line}\n")
    assert "xxd" in caught.value.hint


def test_control_characters_of_a_bad_line_do_not_reach_the_terminal() -> None:
    with pytest.raises(InputError) as caught:
        read("\x1b]0;owned\x07")
    assert caught.value.sentence.isprintable()


def test_a_text_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hextext, "MAX_HEX_BYTES", 20)
    with pytest.raises(InputError, match="contains more than"):
        read("00" * 21)
    assert limits.MAX_HEX_BYTES > limits.MAX_PACKET_SIZE
