"""An HTTP connection of uvicorn, with limits on the head of a request and on the time of a client.

uvicorn has no such limits. The token comes with the head, so endless headers would fill the memory before any check;
and clients that are silent, send a body byte by byte or do not read the answer would keep other clients out. Some
requests are answered right here (waypost.daemon.quick_request), because the work of uvicorn for ASGI is most of their
cost. Data of a client that has not sent the token waits for its turn (waypost.daemon.entrance).
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from waypost.api.asgi import BEHIND, EVENT, NOBODY, PEER
from waypost.daemon.doors import admits, peer_of
from waypost.daemon.entrance import PIECE, Entrance
from waypost.daemon.quick_request import FindHandler, QuickRequest
from waypost.limits import MAX_HTTP_HEAD
from waypost.node.turns import Budget

_HEAD_SECONDS: Final = 20.0
# The least number of bytes of a body to arrive, and of an answer to leave, in a number of seconds.
_PACE_SECONDS: Final = 30.0
_PACE_BYTES: Final = 0x4_0000


class HttpConnection(HttpToolsProtocol):
    """An HTTP connection. Sizes of a head or a body in pieces count from the second piece."""

    def __init__(self, *args: Any, entrance: Entrance | None = None, **options: Any) -> None:
        """Without an entrance no client is a stranger."""
        super().__init__(*args, **options)
        self._entrance: Final = entrance
        self._is_stranger = entrance is not None
        self._peer = NOBODY
        # Data of a stranger that waits for its turn, and the time when data last came.
        self._backlog = b""
        self._used = 0.0
        self._begun = 0
        # waypost.daemon.web.App.quick
        self._find: Final[FindHandler] = self.app.quick
        self._is_in_head = False
        self._is_in_body = False
        # The quick request that arrives, and the one in progress.
        self._quick: QuickRequest | None = None
        self._served: QuickRequest | None = None
        # The request that uvicorn serves; later ones are in its pipeline.
        self._under_way: RequestResponseCycle | None = None
        # Bytes of the head, or of the body since the last check.
        self._size = 0
        self._patience: asyncio.TimerHandle | None = None
        # Runs while the client does not read its answer.
        self._pace: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._used = self.loop.time()
        self._peer = peer_of(transport.get_extra_info("socket"))
        if self._peer.is_local:
            # Only the account of the daemon can open the socket, so no client is a stranger.
            self._is_stranger = False
            if not admits(self._peer):
                transport.abort()
                return
        if (
            self._is_stranger
            and self._entrance is not None
            and not self._entrance.arrive(self, self.client[0] if self.client else "")
        ):
            transport.abort()
            return
        self._be_patient()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_patience()
        self._end_pace()
        self._leave()
        if self._served is not None:
            self._served.leave()
        # uvicorn notifies only the last request, and others may wait.
        for cycle in (self._under_way, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        if self._served is not None:
            # The connection is lost a turn of the loop later: a message that comes before must not be taken.
            self._served.leave()

    def data_received(self, data: bytes) -> None:
        entrance = self._entrance
        if not self._is_stranger or entrance is None:
            self._take(data)
            return
        self._used = self.loop.time()
        is_at_rest = not (self._backlog or self._is_in_head or self._is_in_body)
        if is_at_rest and entrance.recognizes(data):
            self._leave()
            self._take(data)
        elif is_at_rest and self._is_free and entrance.asks_for_health(data):
            self._take(data)
        else:
            entrance.pump.kept += len(data)
            self._backlog += data
            if self._is_free:
                entrance.pump.wait(self)
            else:
                self.pause()

    def work(self, budget: Budget) -> tuple[int, int, bool]:
        """Do a turn of a stranger: see waypost.daemon.pump.Worker."""
        if not self._is_free or self._entrance is None:
            # It goes on after the answer to its request.
            return 0, 0, False
        size = min(budget.size, PIECE)
        piece, self._backlog = self._backlog[:size], self._backlog[size:]
        self._entrance.pump.kept -= len(piece)
        begun = self._begun
        self._take(piece)
        if self.transport.is_closing():
            self._leave()
        elif not self._backlog and self._is_free:
            self.flow.resume_reading()
        return self._begun - begun, len(piece), bool(self._backlog)

    def pause(self) -> None:
        """Stop reading while others have their turns."""
        if not self.transport.is_closing():
            self.flow.pause_reading()

    @property
    def idle_since(self) -> float | None:
        """Time since when the connection is idle, or None: see waypost.daemon.seats.Guest."""
        return self._used if self._is_free and not self._backlog else None

    def give_way(self) -> None:
        self.transport.abort()

    @property
    def _is_free(self) -> bool:
        """Whether no request is in progress."""
        return not self.pipeline and (self.cycle is None or self.cycle.response_complete)

    def _leave(self) -> None:
        """Stop counting this connection as a stranger: it has sent the token, or is gone."""
        if self._is_stranger and self._entrance is not None:
            self._is_stranger = False
            self._entrance.leave(self)
            self._entrance.pump.leave(self)
            self._entrance.pump.kept -= len(self._backlog)
            self._backlog = b""

    def _take(self, data: bytes) -> None:
        self._size += len(data)
        super().data_received(data)
        if self._is_in_head and self._size > MAX_HTTP_HEAD:
            self.send_400_response("The headers of the request are too large.")
        elif self._patience is None and (self._is_in_head or self._is_in_body or self._is_answered):
            # uvicorn times an idle connection only until any data comes, even an empty line.
            self._be_patient()
        if self.transport.is_closing():
            self._watch_pace()

    def on_message_begin(self) -> None:
        # For requests that uvicorn serves, on_headers_complete does the work of uvicorn.
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._quick = None
        self._begun += 1
        self._is_in_head = True
        self._size = 0

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._is_in_body = True
        self._size = 0
        self._end_patience()
        self._quick = self._quick_request()
        if self._quick is None:
            if self._served is not None:
                # uvicorn reads nothing more until this request is served, and would not notice that the client is gone.
                self._served.hurry()
            url, headers, expects = self.url, self.headers, self.expect_100_continue
            super().on_message_begin()
            self.url, self.expect_100_continue = url, expects
            self.headers.extend(headers)
            self.scope["extensions"] = {BEHIND: {EVENT: asyncio.Event()}, PEER: {PEER: self._peer}}
            super().on_headers_complete()
            if self.pipeline:
                self._hurry()
            else:
                self._under_way = self.cycle
        else:
            self.cycle = self._quick  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        if self._quick is None:
            super().on_body(body)
        else:
            self._quick.feed(body)

    def on_message_complete(self) -> None:
        self._is_in_body = False
        self._end_patience()
        if self._quick is None:
            super().on_message_complete()
        else:
            self._served = self._quick
            task = self.loop.create_task(self._serve(self._quick))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

    def _quick_request(self) -> QuickRequest | None:
        """The quick request for this head: only if no other is in progress and its answer can be written at once."""
        parser, limit = self.parser, self.limit_concurrency
        if (
            parser.get_method() != b"POST"
            or (self.cycle is not None and not self.cycle.response_complete)
            or self.flow.write_paused
            or self.expect_100_continue
            or parser.should_upgrade()
            or not parser.should_keep_alive()
            or parser.get_http_version() != "1.1"
            or (limit is not None and (len(self.connections) >= limit or len(self.tasks) >= limit))
        ):
            return None
        handler = self._find(self.url, self.headers, self._peer)
        return None if handler is None else QuickRequest(handler)

    async def _serve(self, request: QuickRequest) -> None:
        response = await request.answer(self.server_state.default_headers)
        request.response_complete = True
        self._served = None
        if request.disconnected:
            return
        self.transport.write(response)
        if not request.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _hurry(self) -> None:
        """End the wait of the request that uvicorn serves, because another request is behind it."""
        if self._under_way is not None:
            behind = self._under_way.scope["extensions"][BEHIND][EVENT]
            assert isinstance(behind, asyncio.Event)
            behind.set()

    def on_response_complete(self) -> None:
        self._under_way = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if self.pipeline:
            self._hurry()
        if self.transport.is_closing():
            self._watch_pace()
        elif self._backlog and self._entrance is not None:
            self.flow.pause_reading()
            if self._is_free:
                self._entrance.pump.wait(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_pace()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._end_pace()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_pace()

    @property
    def _is_answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete

    def _be_patient(self) -> None:
        seconds = _PACE_SECONDS if self._is_in_body else _HEAD_SECONDS
        self._patience = self.loop.call_later(seconds, self._lose_patience)

    def _end_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lose_patience(self) -> None:
        # The daemon itself may make the client wait.
        is_our_turn = self.flow.read_paused or not (self._is_in_body or self.cycle is None or self._is_answered)
        if is_our_turn or (self._is_in_body and self._size >= _PACE_BYTES):
            if self._is_in_body:
                self._size = 0
            self._be_patient()
        else:
            self.transport.close()
            self._watch_pace()

    def _watch_pace(self) -> None:
        """Watch the client read, also while the transport closes and still has data to write."""
        if self._pace is None:
            self._pace = self.loop.call_later(_PACE_SECONDS, self._look, self.transport.get_write_buffer_size())

    def _look(self, before: int) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._pace = None
        if before - unsent >= _PACE_BYTES:
            self._watch_pace()
        else:
            self.transport.abort()

    def _end_pace(self) -> None:
        if self._pace is not None:
            self._pace.cancel()
            self._pace = None
