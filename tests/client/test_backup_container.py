"""The form of a backup: what is not whole is refused, wherever it was cut or changed."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.client.backups.container import HEADER_SIZE, TRAILER_SIZE, BackupInfo, BackupReader, BackupWriter
from waypost.errors import BackupDamaged, StoreTooNew

INFO = BackupInfo("HÖST", "1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11", "2026-11-17T12:00:00.000Z", 10_000, "0.1.0")
CONTENT = bytes(range(256)) * 40


def written(content: bytes = CONTENT, info: BackupInfo = INFO) -> bytes:
    writer = BackupWriter()
    header = writer.begin(info)
    writer.add(content)
    return header + content + writer.end()


def read(*parts: bytes) -> tuple[BackupInfo, bytes]:
    reader = BackupReader()
    content = b"".join([reader.feed(part) for part in parts])
    return reader.end(), content


@given(st.lists(st.integers(0, HEADER_SIZE + len(CONTENT) + TRAILER_SIZE), max_size=6))
def test_a_backup_is_read_in_whatever_parts_it_comes(cuts: list[int]) -> None:
    stream = written()
    at = [0, *sorted(cuts), len(stream)]
    info, content = read(*(stream[start:stop] for start, stop in itertools.pairwise(at)))
    assert content == CONTENT
    assert (info.name, info.guid, info.bytes) == (INFO.name, INFO.guid, len(CONTENT))


@given(st.integers(0, HEADER_SIZE + len(CONTENT) + TRAILER_SIZE - 1))
def test_a_backup_that_was_cut_is_not_whole(length: int) -> None:
    with pytest.raises(BackupDamaged):
        read(written()[:length])


@given(st.integers(0, HEADER_SIZE + len(CONTENT) + TRAILER_SIZE - 1), st.integers(0, 7))
def test_every_bit_counts(at: int, bit: int) -> None:
    stream = bytearray(written())
    if at >= len(stream) - 16 or len(stream) - TRAILER_SIZE + 19 <= at < len(stream) - TRAILER_SIZE + 24:
        # Zeros that mean nothing.
        return
    stream[at] ^= 1 << bit
    with pytest.raises((BackupDamaged, StoreTooNew)):
        read(bytes(stream))


def test_a_trailer_in_the_middle_is_content() -> None:
    content = written()[-TRAILER_SIZE:] * 3
    assert read(written(content))[1] == content


def test_what_follows_the_end_is_refused() -> None:
    with pytest.raises(BackupDamaged):
        read(written() + b"x")


def test_a_newer_format_is_refused_in_words() -> None:
    info = BackupInfo(INFO.name, INFO.guid, INFO.time, 1, "9.0", format=2)
    with pytest.raises(
        StoreTooNew, match="the backup has format 2, but this version of Waypost supports only formats up to 1"
    ):
        read(written(CONTENT, info))
