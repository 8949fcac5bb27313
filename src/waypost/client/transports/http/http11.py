"""HTTP/1.1 as a client needs it, without I/O: the bytes of a request, and a parser for its response (RFC 9112).

A parser reads one response at a time; bytes after it end the connection. The parser makes a Response of any bytes, or
raises DecodeError; it keeps only the received bytes, and allocates memory for an announced body only up to a limit.
"""

import re
from dataclasses import dataclass
from typing import Final

from waypost.errors import DecodeError

_SECTION: Final = "RFC 9112"
_END_OF_HEAD: Final = b"\r\n\r\n"
_MAX_HEAD: Final = 65_536
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: |$)")
_DIGITS: Final = re.compile(rb"[0-9]{1,15}")
_CHUNK_SIZE: Final = re.compile(rb"([0-9a-fA-F]{1,12})[ \t]*(?:;.*)?")
_MAX_CHUNK_LINE: Final = 4096
# Sizes of bodies that are received without a copy: shorter ones come with the head, or soon after.
_LONG: Final = 1 << 16
_TOO_LONG: Final = 1 << 24


@dataclass(slots=True, frozen=True)
class Response:
    status: int
    content_type: str
    body: bytes | bytearray
    # True if the connection can carry another request.
    is_kept: bool


def request_bytes(method: str, target: str, headers: bytes, body: bytes) -> bytes:
    """The bytes of a request. `headers` are those of every request of a client, each with its line end."""
    start = f"{method} {target} HTTP/1.1\r\n".encode("ascii")
    if method == "GET" or method == "DELETE":
        return b"%b%b\r\n" % (start, headers)
    return b"%b%bContent-Length: %d\r\n\r\n%b" % (start, headers, len(body), body)


class ResponseParser:
    """Parser of a response: `feed` takes bytes, and returns the response when it is complete."""

    __slots__ = ("_body", "_chunks", "_content_type", "_data", "_is_chunked", "_is_kept", "_missing", "_status")

    def __init__(self) -> None:
        self._data = b""
        # 0 until the head is read.
        self._status = 0
        self._content_type = ""
        self._is_kept = True
        self._is_chunked = False
        # Bytes of the body; None if it ends with the connection.
        self._missing: int | None = 0
        self._chunks: list[bytes] = []
        # The whole body, once it is allocated.
        self._body = bytearray()

    @property
    def status(self) -> int:
        """The status code, 0 until the head is read."""
        return self._status

    def take(self) -> bytes:
        """The bytes of the body so far, for a body that is read in parts."""
        taken = b"".join(self._chunks)
        self._chunks.clear()
        return taken

    @property
    def missing(self) -> int:
        """Least number of bytes that are still to come, as far as known."""
        return 1 if self._is_chunked or not self._status or self._missing is None else self._missing

    def feed(self, data: bytes) -> Response | None:
        while not self._status:
            data = self._data + data if self._data else data
            at = data.find(_END_OF_HEAD)
            if at < 0:
                if len(data) > _MAX_HEAD:
                    raise _broken("header section", "the section is longer than 65536 bytes")
                self._data = data
                return None
            self._data = b""
            self._read_head(data[:at])
            data = data[at + 4 :]
            if self._status < 200:
                # An interim response; the final one follows.
                self._status = 0
        if self._is_chunked:
            return self._feed_chunks(data)
        return self._feed_body(data)

    def room(self) -> memoryview | None:
        """Memory to receive the rest of a long body; call `fill` then instead of `feed`. None for other bodies."""
        if not self._status or self._is_chunked or self._missing is None:
            return None
        if not self._body:
            if not _LONG <= self._missing <= _TOO_LONG:
                return None
            came = b"".join(self._chunks)
            self._body = bytearray(len(came) + self._missing)
            self._body[: len(came)] = came
        return memoryview(self._body)[-self._missing :]

    def fill(self, count: int) -> Response | None:
        """Note `count` bytes that were received into the memory of `room`."""
        assert self._missing is not None
        self._missing -= count
        return None if self._missing else Response(self._status, self._content_type, self._body, self._is_kept)

    def end(self) -> Response | None:
        """The response at the end of the connection, which may be the end of the body."""
        if self._status and self._missing is None:
            return self._response(is_kept=False)
        return None

    def _read_head(self, head: bytes) -> None:
        lines = head.split(b"\r\n")
        match = _STATUS_LINE.match(lines[0])
        if match is None:
            raise _broken("status-line", f"{lines[0][:60]!r} is not a status line of HTTP/1.1")
        self._status = int(match[2])
        self._is_kept = match[1] == b"1"
        length: int | None = None
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            if not colon:
                raise _broken("field-line", f"{line[:60]!r} has no colon")
            match name.lower():
                case b"content-length":
                    value = value.strip()
                    if not _DIGITS.fullmatch(value) or length not in (None, int(value)):
                        raise _broken("Content-Length", f"{value[:60]!r} is invalid")
                    length = int(value)
                case b"content-type":
                    self._content_type = value.partition(b";")[0].strip().lower().decode("latin-1")
                case b"connection":
                    self._is_kept = self._is_kept and b"close" not in value.lower()
                case b"transfer-encoding":
                    if value.strip().lower() != b"chunked":
                        raise _broken("Transfer-Encoding", f"{value[:60]!r} is not supported")
                    self._is_chunked = True
        # RFC 9112 6.3.
        if self._status in (204, 304):
            self._is_chunked = False
            length = 0
        self._missing = 0 if self._is_chunked else length

    def _feed_body(self, data: bytes) -> Response | None:
        missing = self._missing
        if missing is not None and len(data) > missing:
            raise _broken("message body", "the body is longer than announced")
        if data:
            self._chunks.append(data)
        if missing is None:
            return None
        self._missing = missing - len(data)
        return None if self._missing else self._response(is_kept=self._is_kept)

    def _feed_chunks(self, data: bytes) -> Response | None:
        """RFC 9112 7.1. `_missing` is the number of missing bytes of a chunk with its line end."""
        data = self._data + data if self._data else data
        at = 0
        self._missing = self._missing or 0
        while True:
            if self._missing:
                part = data[at : at + self._missing]
                at += len(part)
                content = part[: max(self._missing - 2, 0)]
                if content:
                    self._chunks.append(content)
                self._missing -= len(part)
                if self._missing:
                    self._data = b""
                    return None
            end = data.find(b"\r\n", at)
            if end < 0:
                if len(data) - at > _MAX_CHUNK_LINE:
                    raise _broken("chunk-size", "the line has no end")
                self._data = data[at:]
                return None
            line = data[at:end]
            match = _CHUNK_SIZE.fullmatch(line)
            if match is None:
                raise _broken("chunk-size", f"{line[:60]!r} is not a number")
            size = int(match[1], 16)
            if size == 0:
                return self._end_of_chunks(data[at:], end + 2 - at)
            at = end + 2
            self._missing = size + 2

    def _end_of_chunks(self, data: bytes, at: int) -> Response | None:
        """Read the last chunk: after its line come trailers, which are ignored, and an empty line."""
        end = at - 2 if data.startswith(b"\r\n", at) else data.find(_END_OF_HEAD, at)
        if end < 0:
            if len(data) > _MAX_HEAD:
                raise _broken("trailer section", "the section is longer than 65536 bytes")
            self._data = data
            return None
        if len(data) > end + 4:
            raise _broken("message body", "the body is longer than announced")
        return self._response(is_kept=self._is_kept)

    def _response(self, *, is_kept: bool) -> Response:
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        return Response(self._status, self._content_type, body, is_kept)


def _broken(field: str, reason: str) -> DecodeError:
    return DecodeError(_SECTION, field, 0, f"{reason}; check that this is the address of a Waypost daemon")
