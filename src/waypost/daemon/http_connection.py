"""One HTTP connection: uvicorn's, with a bound on the head of a request and on the time that it may take.

uvicorn has neither, and a token is not asked for before the head is there: headers without end would fill the memory,
and silent connections would keep everybody else out.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from waypost.limits import MAX_HTTP_HEAD

_HEAD_SECONDS: Final = 20.0


class HttpConnection(HttpToolsProtocol):
    """A head that comes in pieces counts from the piece behind the one that it begins in."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._is_in_head = False
        self._head_size = 0
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._be_patient()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_patience()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_size += len(data)
        super().data_received(data)
        if self._is_in_head and self._head_size > MAX_HTTP_HEAD:
            self.send_400_response("The head of the request is too long.")
        elif self._patience is None and (self._is_in_head or self._is_answered):
            # uvicorn counts the time of a resting connection only until something comes, be it an empty line.
            self._be_patient()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._head_size = 0

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._end_patience()
        super().on_headers_complete()

    @property
    def _is_answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete

    def _be_patient(self) -> None:
        self._patience = self.loop.call_later(_HEAD_SECONDS, self._lose_patience)

    def _end_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lose_patience(self) -> None:
        if self.cycle is None or self._is_answered:
            self.transport.close()
        else:
            # It is we who make the client wait.
            self._be_patient()
