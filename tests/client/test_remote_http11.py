"""HTTP/1.1 as the client of a daemon speaks it: the bytes of requests, and what responses are."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waypost.client.transports.http.http11 import Response, ResponseParser, request_bytes
from waypost.errors import DecodeError

HEAD = b"HTTP/1.1 200 OK\r\nserver: waypost\r\nContent-Type: application/x-msgpack; charset=binary\r\n"


def parsed(data: bytes, *, size: int = 1 << 20) -> Response | None:
    """The result of the bytes, when they come in pieces of this size."""
    parser = ResponseParser()
    response = None
    for at in range(0, len(data), size):
        assert response is None, "the response was whole before its end"
        response = parser.feed(data[at : at + size])
    return response


def chunked(*chunks: bytes, trailer: bytes = b"") -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n" + trailer + b"\r\n"


def test_a_request_is_one_piece_of_bytes_with_its_length() -> None:
    assert request_bytes("POST", "/api/queues", b"Host: h\r\n", b"body") == (
        b"POST /api/queues HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
    )


def test_a_request_without_content_has_no_length() -> None:
    assert request_bytes("GET", "/", b"Host: h\r\n", b"") == b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_a_response_with_a_length_ends_there(size: int) -> None:
    response = parsed(HEAD + b"Content-Length: 5\r\n\r\nhello", size=size)
    assert response == Response(200, "application/x-msgpack", b"hello", is_kept=True)


@pytest.mark.parametrize("step", [1000, 70_000, 1 << 20])
def test_a_long_body_is_received_into_its_place(step: int) -> None:
    body = bytes(range(256)) * 1024
    data = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    parser = ResponseParser()
    assert parser.room() is None
    at = 5000
    assert parser.feed(data[:at]) is None
    response = None
    while response is None:
        room = parser.room()
        assert room is not None
        assert len(room) == len(data) - at
        came = data[at : at + step]
        room[: len(came)] = came
        at += len(came)
        response = parser.fill(len(came))
    assert response == Response(200, "application/x-msgpack", body, is_kept=True)


@pytest.mark.parametrize("length", [b"Content-Length: 100", b"Content-Length: 99999999999", b"X: no length"])
def test_no_room_is_made_for_a_body_that_is_short_or_cannot_be_believed(length: bytes) -> None:
    parser = ResponseParser()
    assert parser.feed(HEAD + length + b"\r\n\r\nstart") is None
    assert parser.room() is None


@pytest.mark.parametrize("size", [1, 2, 7, 1 << 20])
def test_chunks_are_joined(size: int) -> None:
    response = parsed(chunked(b"hello ", b"world", b"\r\n" * 20), size=size)
    assert response is not None
    assert response.body == b"hello world" + b"\r\n" * 20


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_trailers_are_passed_over(size: int) -> None:
    response = parsed(chunked(b"hello", trailer=b"x-sum: 1\r\ny: 2\r\n"), size=size)
    assert response is not None
    assert response.body == b"hello"


def test_chunk_extensions_are_passed_over() -> None:
    response = parsed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n")
    assert response is not None
    assert response.body == b"hello"


def test_chunks_count_and_not_a_length_beside_them() -> None:
    response = parsed(HEAD + b"Content-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    assert response is not None
    assert response.body == b"hello"


def test_a_204_has_no_body() -> None:
    assert parsed(b"HTTP/1.1 204 No Content\r\n\r\n") == Response(204, "", b"", is_kept=True)


def test_an_interim_response_is_passed_over() -> None:
    response = parsed(b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"Content-Length: 2\r\n\r\nok")
    assert response is not None
    assert (response.status, response.body) == (200, b"ok")


def test_a_response_without_a_length_ends_with_the_connection() -> None:
    parser = ResponseParser()
    assert parser.feed(HEAD + b"\r\nhel") is None
    assert parser.feed(b"lo") is None
    assert parser.end() == Response(200, "application/x-msgpack", b"hello", is_kept=False)


@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\n", HEAD + b"Content-Length: 5\r\n\r\nhell"])
def test_a_connection_that_ends_too_early_gives_no_response(part: bytes) -> None:
    parser = ResponseParser()
    assert part == b"" or parser.feed(part) is None
    assert parser.end() is None


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n", b"HTTP/1.0 200 OK\r\n"])
def test_a_server_that_closes_says_so(head: bytes) -> None:
    response = parsed(head + b"Content-Length: 0\r\n\r\n")
    assert response is not None
    assert not response.is_kept


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 99 x\r\n\r\n",
        HEAD + b"nonsense\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        HEAD + b"Content-Length: 1\r\n\r\nmore",
        HEAD + b"Transfer-Encoding: gzip\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 5000,
        chunked(b"hello") + b"more",
        b"x" * 70_000,
    ],
)
def test_what_is_no_response_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        parsed(data)


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=5), st.integers(1, 60))
@settings(max_examples=100)
def test_any_body_comes_back_from_chunks_in_any_pieces(chunks: list[bytes], size: int) -> None:
    response = parsed(chunked(*chunks), size=size)
    assert response is not None
    assert response.body == b"".join(chunks)


@given(st.binary(max_size=200), st.sampled_from([b"", HEAD, HEAD + b"Transfer-Encoding: chunked\r\n\r\n"]))
@settings(max_examples=300)
def test_any_bytes_give_a_response_or_a_decode_error(data: bytes, start: bytes) -> None:
    parser = ResponseParser()
    try:
        parser.feed(start + data)
        parser.end()
    except DecodeError:
        pass
